// Package git changes Git repositories at the cost of the change, not of the repository: no working directory,
// no clone per run, no walk of history.
//
// It keeps one bare mirror per repository. The mirror is a cache of immutable objects that fills itself: a
// commit, tree or blob that is asked for and not there is fetched by its id, a new head at depth 1 against the
// heads that are there already. So a mirror may be shallow, partial, pruned or half written after a crash, and
// every answer is still right; it only costs a request more. A change edits trees in memory, packs exactly the
// new objects (trees as deltas against the ones they replace) and sends them with compare-and-set on the branch.
//
// The package speaks Git's protocol itself, version 2 with a fallback to version 0, because go-git's client knows
// no ls-refs with prefixes, no filters and no push without a reference advertisement first; with the server's
// capabilities remembered a push is one request. go-git reads and writes the packs on disk.
//
// Doing a thing once: a commit carries the trailer Davit-Operation, and a change looks for its own operation in
// base..head before it makes anything, and again after every lost race. A process killed at any instant leaves
// either no commit or the commit that the next attempt finds.
//
// The package must not know pipelines, steps, forges or YAML (yamledit below it knows YAML and nothing of Git).
// Start reading at Mirrors.Open and Repo.Change.
package git
