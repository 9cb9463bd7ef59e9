package render

import (
	"bytes"
	"errors"
	"fmt"

	yamlv3 "gopkg.in/yaml.v3"
)

// maxNodes is how many YAML nodes a document may have once its aliases are replaced by what they stand for. It is
// what keeps a few lines of nested aliases from growing to gigabytes: kustomize replaces them without a limit.
const maxNodes = 1_000_000

var errAliases = errors.New("the aliases of a YAML document stand for too much")

// checkAliases looks at every document of a file. What is no YAML is for the reader of the file to refuse.
func checkAliases(name string, data []byte) error {
	if bytes.IndexByte(data, '*') < 0 || bytes.IndexByte(data, '&') < 0 {
		return nil
	}
	dec := yamlv3.NewDecoder(bytes.NewReader(data))
	for {
		var doc yamlv3.Node
		if err := dec.Decode(&doc); err != nil {
			return nil //nolint:nilerr // the end of the file, or no YAML
		}
		if _, err := expanded(&doc, map[*yamlv3.Node]int{}); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
}

// expanded counts the nodes below n with aliases replaced. Known holds counts of anchors; -1 is one under way, so
// that an alias inside its own anchor shows.
func expanded(n *yamlv3.Node, known map[*yamlv3.Node]int) (int, error) {
	if n.Kind == yamlv3.AliasNode {
		n = n.Alias
	}
	if count, ok := known[n]; ok {
		if count < 0 {
			return 0, errAliases
		}
		return count, nil
	}
	known[n] = -1
	total := 1
	for _, child := range n.Content {
		count, err := expanded(child, known)
		if total += count; err != nil || total > maxNodes {
			return 0, errAliases
		}
	}
	known[n] = total
	return total, nil
}
