// Package sandbox is an in-process stand-in for "Argo CD and the Kubernetes cluster it deploys to", for
// `davit up` and tests. It is declared by the same Application manifests, reads real Git commits, renders real
// manifests, and shows what the real one shows, its awkward moments included; only the running of pods is
// simulated: they are counts that become ready over time, fail on demand and leave metrics.
//
// What a consumer of Argo CD must cope with and meets here too:
//
//   - A sync to a revision other than the target revision succeeds, yet the application stays OutOfSync, for the
//     status compares live objects with the target revision.
//   - After an operation is asked for, the last operation is still the previous one until it is picked up.
//   - After an operation succeeded, sync status, revision and health are those of the time before for a moment
//     (Timings.Stale). Then comes Progressing, then Healthy.
//   - Degraded needs a Deployment's progress deadline to run out; a StatefulSet never gets there.
//
// Manifests may ask for trouble by annotations on a workload or its pod template (the template wins):
// davit.dev/sandbox-fail (crashloop, image-pull, hang), davit.dev/sandbox-start (3s), davit.dev/sandbox-error-rate
// ("0.12", the share of answers with status 500) and davit.dev/sandbox-latency (80ms, the median). Failures and error rates may be for
// one version only: "v1.2.0=0.25" is what the image with that tag does.
//
// Sync waves are honoured; hooks are refused. Helm and remote Kustomize bases are refused too.
//
// One goroutine (Cluster.Run) does all the work in the order of a schedule; everything else asks it to. The
// package knows nothing of promotions, agents or Temporal. Start reading at Cluster; then operation.go and
// compare.go.
package sandbox
