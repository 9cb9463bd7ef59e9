package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	yamlv3 "gopkg.in/yaml.v3"
	"sigs.k8s.io/yaml"

	"github.com/davit-cd/davit/internal/promo"
)

// Limits of one rendering. They are far above any sensible application and keep a hostile commit from
// filling the memory of a process that many clusters share.
const (
	maxFileBytes  = 4 << 20
	maxTotalBytes = 32 << 20
	maxFiles      = 2000
	maxObjects    = 2000
	maxDepth      = 32
)

// Options say how to read the directory.
type Options struct {
	// Recurse reads plain YAML files of sub-directories too (Argo CD's directory.recurse).
	Recurse bool
	// Namespace is given to namespaced objects that name none (Argo CD's destination.namespace).
	Namespace string
}

// Render returns the objects that dir of the commit declares, sorted by key. All errors are promo.Errors with
// CodeConfiguration: the commit, not the engine, must change.
func Render(commit fs.FS, dir string, o Options) ([]Object, error) {
	clean, err := cleanDir(dir)
	if err != nil {
		return nil, err
	}
	tree := newTree(commit)
	entries, err := tree.readDir(clean)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, promo.Errorf(promo.CodeConfiguration, "%s: app path does not exist", dir)
		}
		return nil, promo.Errorf(promo.CodeConfiguration, "read %q: %w", dir, err)
	}
	var objects []Object
	switch names := fileNames(entries); {
	case containsAny(names, kustomizationNames()):
		objects, err = build(tree, clean)
	case slices.Contains(names, "Chart.yaml"):
		return nil, promo.Errorf(promo.CodeConfiguration, "%s: Helm charts are not supported by sandbox clusters", dir).
			WithHint("use plain YAML or Kustomize")
	default:
		objects, err = readPlain(tree, clean, o.Recurse, 0)
	}
	if err != nil {
		return nil, configuration(err)
	}
	return finish(objects, o.Namespace)
}

// cleanDir refuses what leaves the commit.
func cleanDir(dir string) (string, error) {
	clean := path.Clean(dir)
	if path.IsAbs(dir) || clean == ".." || strings.HasPrefix(clean, "../") || !fs.ValidPath(clean) {
		return "", promo.Errorf(promo.CodeConfiguration, "path %q leaves the repository", dir).
			WithHint("give a path relative to the root of the repository")
	}
	return clean, nil
}

func configuration(err error) error {
	if _, ok := errors.AsType[*promo.Error](err); ok {
		return err
	}
	return promo.Errorf(promo.CodeConfiguration, "%w", err)
}

func fileNames(entries []fs.DirEntry) []string {
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names
}

func containsAny(names, wanted []string) bool {
	return slices.ContainsFunc(wanted, func(w string) bool { return slices.Contains(names, w) })
}

func readPlain(t *tree, dir string, recurse bool, depth int) ([]Object, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("%q is more than %d directories deep", dir, maxDepth)
	}
	entries, err := t.readDir(dir)
	if err != nil {
		return nil, err
	}
	var objects []Object
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		var found []Object
		switch {
		case e.IsDir() && recurse:
			found, err = readPlain(t, name, true, depth+1)
		case e.Type().IsRegular() && isManifest(name):
			found, err = readFile(t, name)
		case e.Type()&fs.ModeSymlink != 0 && isManifest(name):
			err = fmt.Errorf("%q is a symbolic link, which is not followed", name)
		}
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
	return objects, nil
}

func isManifest(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(name))
}

func readFile(t *tree, name string) ([]Object, error) {
	data, err := t.readFile(name)
	if err != nil {
		return nil, err
	}
	objects, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return objects, nil
}

// Parse reads the objects of a stream of YAML documents; a List counts as its items.
func Parse(data []byte) ([]Object, error) {
	dec := yamlv3.NewDecoder(bytes.NewReader(data))
	var objects []Object
	for {
		var node yamlv3.Node
		err := dec.Decode(&node)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		doc, err := fromNode(&node)
		if err != nil {
			return nil, err
		}
		if doc == nil {
			continue
		}
		found, err := flatten(doc)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", node.Line, err)
		}
		if objects = append(objects, found...); len(objects) > maxObjects {
			return nil, fmt.Errorf("more than %d objects", maxObjects)
		}
	}
}

// fromNode goes by way of JSON so that numbers, keys and dates have the types Kubernetes gives them.
func fromNode(node *yamlv3.Node) (map[string]any, error) {
	if _, err := expanded(node, map[*yamlv3.Node]int{}); err != nil {
		return nil, err
	}
	text, err := yamlv3.Marshal(node)
	if err != nil {
		return nil, err
	}
	raw, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, err
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, err
	}
	switch v := value.(type) {
	case nil:
		return nil, nil
	case map[string]any:
		return v, nil
	default:
		return nil, fmt.Errorf("line %d: found %T, a Kubernetes object is a mapping", node.Line, value)
	}
}

func flatten(doc map[string]any) ([]Object, error) {
	items, isList := doc["items"].([]any)
	if kind, _ := doc["kind"].(string); !isList || !strings.HasSuffix(kind, "List") {
		return []Object{{doc}}, nil
	}
	var objects []Object
	for i, item := range items {
		m, ok := item.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("items[%d] is not an object", i)
		}
		objects = append(objects, Object{m})
	}
	return objects, nil
}

// finish checks, completes and sorts what was read.
func finish(objects []Object, namespace string) ([]Object, error) {
	seen := map[Key]bool{}
	for _, o := range objects {
		if err := o.check(); err != nil {
			return nil, promo.Errorf(promo.CodeConfiguration, "%w", err)
		}
		if o.Namespace() == "" && namespace != "" && !o.clusterScoped() {
			o.SetNamespace(namespace)
		}
		if seen[o.Key()] {
			return nil, promo.Errorf(promo.CodeConfiguration, "%s is declared more than once", o.Key())
		}
		seen[o.Key()] = true
	}
	slices.SortFunc(objects, func(a, b Object) int { return a.Key().Compare(b.Key()) })
	return objects, nil
}

// YAML writes objects as one stream of documents, keys sorted, so that equal objects give equal bytes.
func YAML(objects []Object) ([]byte, error) {
	var out bytes.Buffer
	for i, o := range objects {
		text, err := yaml.Marshal(o.Fields)
		if err != nil {
			return nil, promo.Errorf(promo.CodeInternal, "write %s: %w", o.Key(), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	return out.Bytes(), nil
}
