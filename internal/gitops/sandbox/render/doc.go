// Package render turns a directory of a Git commit into Kubernetes objects, as Argo CD's repo server does: plain
// YAML or JSON files, or a Kustomize overlay when the directory has a kustomization file.
//
// It reads the commit through an io/fs.FS, only the files it needs, and nothing else: no disk, no network, no
// program is run. Remote bases, plugins, exec functions and Helm are errors. It knows nothing of applications,
// clusters or Git. Start reading at Render.
package render
