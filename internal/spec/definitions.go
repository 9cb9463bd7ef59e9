package spec

import (
	"maps"
	"slices"
	"strings"
)

// Definitions are documents by kind, project and name: what has been applied, or what a set of files would make of it.
type Definitions struct {
	docs map[string]map[string]*Document // kind → "<project>/<name>"
}

// NewDefinitions returns the definitions of the files; of two of the same name the later one counts.
func NewDefinitions(files ...*File) *Definitions {
	return (&Definitions{}).With(files...)
}

// With returns the definitions with the files' documents in place of those of the same name.
func (d *Definitions) With(files ...*File) *Definitions {
	out := &Definitions{docs: map[string]map[string]*Document{}}
	if d != nil {
		for kind, docs := range d.docs {
			out.docs[kind] = maps.Clone(docs)
		}
	}
	for _, f := range files {
		for _, doc := range f.Documents {
			if out.docs[doc.Kind] == nil {
				out.docs[doc.Kind] = map[string]*Document{}
			}
			out.docs[doc.Kind][doc.ID()] = doc
		}
	}
	return out
}

// Without returns the definitions without a document.
func (d *Definitions) Without(kind, project, name string) *Definitions {
	out := d.With()
	delete(out.docs[kind], project+"/"+name)
	return out
}

// Document returns a document.
func (d *Definitions) Document(kind, project, name string) (*Document, bool) {
	doc, ok := d.docs[kind][project+"/"+name]
	return doc, ok
}

// Documents lists the documents of a kind, by project and name.
func (d *Definitions) Documents(kind string) []*Document {
	var out []*Document
	for _, id := range sortedKeys(d.docs[kind]) {
		out = append(out, d.docs[kind][id])
	}
	return out
}

// Names lists the names of a kind in a project.
func (d *Definitions) Names(kind, project string) []string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(d.docs[kind])) {
		if name, ok := strings.CutPrefix(id, project+"/"); ok {
			out = append(out, name)
		}
	}
	return out
}

func get[T any](d *Definitions, kind, project, name string) (*T, bool) {
	doc, ok := d.Document(kind, project, name)
	if !ok {
		return nil, false
	}
	s, ok := doc.Spec.(*T)
	return s, ok
}

// Repository returns the repository of that name.
func (d *Definitions) Repository(project, name string) (*RepositorySpec, bool) {
	return get[RepositorySpec](d, KindRepository, project, name)
}

// Service returns the service of that name.
func (d *Definitions) Service(project, name string) (*ServiceSpec, bool) {
	return get[ServiceSpec](d, KindService, project, name)
}

// Environment returns the environment of that name.
func (d *Definitions) Environment(project, name string) (*EnvironmentSpec, bool) {
	return get[EnvironmentSpec](d, KindEnvironment, project, name)
}

// Pipeline returns the pipeline of that name.
func (d *Definitions) Pipeline(project, name string) (*PipelineSpec, bool) {
	return get[PipelineSpec](d, KindPipeline, project, name)
}

// PolicySet returns the policy set of that name.
func (d *Definitions) PolicySet(project, name string) (*PolicySetSpec, bool) {
	return get[PolicySetSpec](d, KindPolicySet, project, name)
}

// Connector returns the connector of that name.
func (d *Definitions) Connector(project, name string) (*ConnectorSpec, bool) {
	return get[ConnectorSpec](d, KindConnector, project, name)
}

// Role returns the role of that name.
func (d *Definitions) Role(project, name string) (*RoleSpec, bool) {
	return get[RoleSpec](d, KindRole, project, name)
}

// RoleBinding returns the role binding of that name.
func (d *Definitions) RoleBinding(project, name string) (*RoleBindingSpec, bool) {
	return get[RoleBindingSpec](d, KindRoleBinding, project, name)
}
