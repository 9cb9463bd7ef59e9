package yamledit

import (
	"fmt"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// Image is an entry of a kustomization's images list. Empty fields are left as they are.
type Image struct {
	Name    string `json:"name"`
	NewName string `json:"newName,omitempty"`
	NewTag  string `json:"newTag,omitempty"`
	Digest  string `json:"digest,omitempty"`
}

// KustomizeImage sets the images entry of a kustomization.yaml for img.Name and makes it if it is absent. A
// tag set without a digest removes the entry's digest, and the reverse: Kustomize would let the stale one win.
func KustomizeImage(src []byte, img Image) ([]byte, error) {
	if img.Name == "" || img.NewName == "" && img.NewTag == "" && img.Digest == "" {
		return nil, promo.Errorf(promo.CodeConfiguration, "the image %q has nothing to set", img.Name).
			WithHint("name and at least one of newName, newTag and digest are needed")
	}
	fields := pairs{{"newName", img.NewName}, {"newTag", img.NewTag}, {"digest", img.Digest}}
	index, entry, err := findImage(src, img.Name)
	if err != nil {
		return nil, err
	}
	if entry == nil {
		item := pairs{{"name", img.Name}}
		for _, f := range fields {
			if f.value != "" {
				item = append(item, f)
			}
		}
		return Append(src, "images", item)
	}
	out := src
	for _, f := range fields {
		path := fmt.Sprintf("images[%d].%s", index, f.key)
		stale := f.key == "digest" && img.NewTag != "" || f.key == "newTag" && img.Digest != ""
		switch {
		case f.value != "":
			out, err = Set(out, path, f.value)
		case stale && lookupKey(entry, f.key, 0) != nil:
			out, err = Remove(out, path)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// findImage returns the entry with the name, nil if there is none.
func findImage(src []byte, name string) (int, *yaml.Node, error) {
	f, err := parseFile(src)
	if err != nil {
		return 0, nil, err
	}
	doc, err := f.document(path{doc: -1, segments: []segment{{kind: segKey, key: "images"}}})
	if err != nil {
		return 0, nil, err
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode && !isNull(root) {
		return 0, nil, promo.Errorf(promo.CodeConfiguration, "line %d: a kustomization is a map, not %s", root.Line, kindName(root))
	}
	images := lookupKey(root, "images", 0)
	if images == nil || resolveAlias(images).Kind != yaml.SequenceNode {
		return 0, nil, nil
	}
	found, entry := -1, (*yaml.Node)(nil)
	for i, item := range resolveAlias(images).Content {
		n := lookupKey(resolveAlias(item), "name", 0)
		if n == nil || n.Value != name {
			continue
		}
		if found >= 0 {
			return 0, nil, promo.Errorf(promo.CodeConfiguration, "line %d: the image %s stands twice", item.Line, strconv.Quote(name))
		}
		found, entry = i, resolveAlias(item)
	}
	return found, entry, nil
}
