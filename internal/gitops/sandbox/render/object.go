package render

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Object is one Kubernetes object as JSON values (maps, slices, strings, float64, bool, nil).
type Object struct {
	Fields map[string]any
}

// Key names an object on a cluster. The version is no part of it, as in Kubernetes.
type Key struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// String returns "group/Kind namespace/name" without the empty parts.
func (k Key) String() string {
	s := k.Kind
	if k.Group != "" {
		s = k.Group + "/" + s
	}
	if k.Namespace != "" {
		return s + " " + k.Namespace + "/" + k.Name
	}
	return s + " " + k.Name
}

// Compare orders keys by group, kind, namespace and name.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Group, o.Group), strings.Compare(k.Kind, o.Kind),
		strings.Compare(k.Namespace, o.Namespace), strings.Compare(k.Name, o.Name))
}

// Key returns the object's key.
func (o Object) Key() Key {
	return Key{Group: o.Group(), Kind: o.str("kind"), Namespace: o.Namespace(), Name: o.Name()}
}

// Group returns the API group, empty for the core group.
func (o Object) Group() string {
	group, _, found := strings.Cut(o.str("apiVersion"), "/")
	if !found {
		return ""
	}
	return group
}

// Version returns the API version without the group.
func (o Object) Version() string {
	_, version, found := strings.Cut(o.str("apiVersion"), "/")
	if !found {
		return o.str("apiVersion")
	}
	return version
}

// Kind returns the object's kind.
func (o Object) Kind() string { return o.str("kind") }

// Name returns metadata.name.
func (o Object) Name() string { return String(o.Fields, "metadata", "name") }

// Namespace returns metadata.namespace.
func (o Object) Namespace() string { return String(o.Fields, "metadata", "namespace") }

// SetNamespace sets metadata.namespace.
func (o Object) SetNamespace(ns string) {
	meta, ok := o.Fields["metadata"].(map[string]any)
	if !ok {
		meta = map[string]any{}
		o.Fields["metadata"] = meta
	}
	meta["namespace"] = ns
}

// Annotation returns one of metadata.annotations.
func (o Object) Annotation(name string) string {
	return String(o.Fields, "metadata", "annotations", name)
}

// Clone returns a deep copy.
func (o Object) Clone() Object {
	fields, _ := clone(o.Fields).(map[string]any)
	return Object{fields}
}

// MarshalJSON writes the fields.
func (o Object) MarshalJSON() ([]byte, error) { return json.Marshal(o.Fields) }

// UnmarshalJSON reads the fields.
func (o *Object) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, &o.Fields) }

func (o Object) str(field string) string {
	s, _ := o.Fields[field].(string)
	return s
}

// check refuses what an API server would refuse at the door.
func (o Object) check() error {
	switch {
	case o.str("apiVersion") == "":
		return fmt.Errorf("object %q has no apiVersion", o.Key())
	case o.str("kind") == "":
		return errors.New("an object has no kind")
	case o.Name() == "":
		return fmt.Errorf("a %s has no metadata.name", o.Kind())
	case o.Annotation("argocd.argoproj.io/hook") != "" || o.Annotation("helm.sh/hook") != "":
		return fmt.Errorf("%s is a sync hook, which sandbox clusters do not support", o.Key())
	}
	return nil
}

// clusterScoped knows the built-in kinds without a namespace; a custom kind counts as namespaced.
func (o Object) clusterScoped() bool {
	kinds := map[string][]string{
		"":                             {"Namespace", "Node", "PersistentVolume"},
		"rbac.authorization.k8s.io":    {"ClusterRole", "ClusterRoleBinding"},
		"apiextensions.k8s.io":         {"CustomResourceDefinition"},
		"storage.k8s.io":               {"StorageClass", "CSIDriver", "VolumeAttachment"},
		"scheduling.k8s.io":            {"PriorityClass"},
		"admissionregistration.k8s.io": {"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"},
		"networking.k8s.io":            {"IngressClass"},
		"apiregistration.k8s.io":       {"APIService"},
	}
	return slices.Contains(kinds[o.Group()], o.Kind())
}

// Dig returns the value at a path of keys, or nil.
func Dig(fields map[string]any, path ...string) any {
	var value any = fields
	for _, key := range path {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

// String returns the string at a path of keys, or "".
func String(fields map[string]any, path ...string) string {
	s, _ := Dig(fields, path...).(string)
	return s
}

func clone(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = clone(e)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = clone(e)
		}
		return out
	default:
		return value
	}
}
