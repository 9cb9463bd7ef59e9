package spec

import (
	"reflect"
)

// APIVersion is the only one that this build reads.
const APIVersion = "davit.dev/v1alpha1"

// DefaultProject is the project of a document that names none.
const DefaultProject = "default"

// The kinds of documents.
const (
	KindProject     = "Project"
	KindRepository  = "Repository"
	KindService     = "Service"
	KindEnvironment = "Environment"
	KindPipeline    = "Pipeline"
	KindPolicySet   = "PolicySet"
	KindConnector   = "Connector"
	KindRole        = "Role"
	KindRoleBinding = "RoleBinding"
)

// Kinds lists the kinds in the order in which they are best applied.
func Kinds() []string {
	return []string{
		KindProject, KindRole, KindRoleBinding, KindRepository, KindConnector, KindPolicySet, KindEnvironment,
		KindService, KindPipeline,
	}
}

// newSpec returns a pointer to the empty spec of a kind with its defaults, nil for an unknown kind.
func newSpec(kind string) any {
	switch kind {
	case KindProject:
		return &ProjectSpec{}
	case KindRepository:
		return &RepositorySpec{}
	case KindService:
		return &ServiceSpec{Branch: "main"}
	case KindEnvironment:
		return &EnvironmentSpec{}
	case KindPipeline:
		return &PipelineSpec{Lane: "queue"}
	case KindPolicySet:
		return &PolicySetSpec{}
	case KindConnector:
		return &ConnectorSpec{RunOn: "server"}
	case KindRole:
		return &RoleSpec{}
	case KindRoleBinding:
		return &RoleBindingSpec{}
	}
	return nil
}

// Metadata names a document.
type Metadata struct {
	// Name is unique among the documents of the kind in the project: small letters, digits and hyphens.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z][a-z0-9-]{0\\,62}$"`
	// Project that the document belongs to.
	Project string `json:"project,omitempty" jsonschema:"default=default"`
	// Labels are for finding and grouping.
	Labels map[string]string `json:"labels,omitempty"`
	// Annotations are for tools and people.
	Annotations map[string]string `json:"annotations,omitempty"`
}

// ProjectSpec describes a project.
type ProjectSpec struct {
	// Description is shown to people.
	Description string `json:"description,omitempty"`
}

// SecretRef refers to a secret of the server's configuration by its name.
type SecretRef struct {
	// Secret is the name under which the server's configuration knows it.
	Secret string `json:"secret" jsonschema:"required"`
}

// RepositorySpec says where a release repository is.
type RepositorySpec struct {
	// Provider is the forge on which it lives; local is Davit's own.
	Provider string `json:"provider" jsonschema:"required,enum=local,enum=github,enum=gitlab,enum=gitea" davit:"later=github|gitlab|gitea"`
	// URL to clone from. For the local forge it is that of Davit itself and may be left out.
	URL string `json:"url,omitempty"`
	// Auth is how Davit signs in.
	Auth *RepositoryAuth `json:"auth,omitempty"`
	// WebhookSecret signs the forge's webhooks.
	WebhookSecret *SecretRef `json:"webhookSecret,omitempty"`
}

// RepositoryAuth is how Davit signs in to a forge.
type RepositoryAuth struct {
	// Token of a user or a bot.
	Token *SecretRef `json:"token,omitempty"`
	// GitHubApp signs in as an installed application.
	GitHubApp any `json:"githubApp,omitempty" davit:"later"`
}

// ServiceSpec says where the files of a service are and who owns which.
type ServiceSpec struct {
	// Repository that holds the manifests.
	Repository string `json:"repository" jsonschema:"required"`
	// Branch that the clusters follow.
	Branch string `json:"branch,omitempty" jsonschema:"default=main"`
	// Path is the service's folder in the repository; the paths below are relative to it.
	Path string `json:"path,omitempty"`
	// Shared paths are read by every environment.
	Shared []string `json:"shared,omitempty"`
	// Environments of the service and the paths that it owns there.
	Environments map[string]ServiceEnvironment `json:"environments" jsonschema:"required"`
	// Applications says how the service's applications are found.
	Applications *ServiceApplications `json:"applications,omitempty"`
	// Rollback says how a rollback works here.
	Rollback *ServiceRollback `json:"rollback,omitempty"`
}

// ServiceEnvironment is a service in an environment.
type ServiceEnvironment struct {
	// Paths that the service owns in this environment; paths/<target>/ belongs to that target.
	Paths []string `json:"paths" jsonschema:"required"`
}

// ServiceApplications says how the service's applications are found.
type ServiceApplications struct {
	// Selector holds the labels that an application must carry, beside davit.dev/environment and davit.dev/target.
	Selector map[string]string `json:"selector" jsonschema:"required"`
}

// ServiceRollback says how a rollback works for the service.
type ServiceRollback struct {
	// Delivery says how the rollback's commit reaches the branch.
	Delivery string `json:"delivery,omitempty" jsonschema:"enum=push,enum=pull-request"`
}

// EnvironmentSpec describes an environment: one or more clusters.
type EnvironmentSpec struct {
	// Type tells environments that users see from those that they don't.
	Type string `json:"type" jsonschema:"required,enum=PreProduction,enum=Production"`
	// Targets are the clusters, one entry each.
	Targets []Target `json:"targets" jsonschema:"required,minItems=1"`
}

// Target is one cluster of an environment.
type Target struct {
	// Name of the target, unique in its environment.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z][a-z0-9-]{0\\,62}$"`
	// Agent that acts in this cluster.
	Agent string `json:"agent" jsonschema:"required,pattern=^[a-z][a-z0-9-]{0\\,62}$"`
	// Region is for people and expressions.
	Region string `json:"region,omitempty"`
	// Labels are for expressions.
	Labels map[string]string `json:"labels,omitempty"`
}

// PolicySetSpec binds policies to an event.
type PolicySetSpec struct {
	// Entity is the kind of thing that is judged.
	Entity string `json:"entity" jsonschema:"required,enum=pipeline,enum=service,enum=environment,enum=repository,enum=connector,enum=policyset"`
	// On lists the events at which the set is evaluated.
	On []string `json:"on" jsonschema:"required,minItems=1,enum=save,enum=run,enum=step,enum=stage,enum=sync,enum=merge,enum=approve,enum=rollback" davit:"later=stage|sync|merge|approve"`
	// Policies of the set; every one is evaluated.
	Policies []PolicyRef `json:"policies" jsonschema:"required,minItems=1"`
}

// PolicyRef is one Rego module of a policy set: a file, or the text itself.
type PolicyRef struct {
	// Module is a .rego file, from the folder of this document.
	Module string `json:"module,omitempty"`
	// Rego is the module's text.
	Rego string `json:"rego,omitempty"`
	// Action says what its denials become.
	Action string `json:"action,omitempty" jsonschema:"enum=deny,enum=warn,default=deny"`
}

// ConnectorSpec describes a provider of metrics.
type ConnectorSpec struct {
	// Type of the provider.
	Type string `json:"type" jsonschema:"required,enum=prometheus,enum=datadog,enum=newrelic,enum=appdynamics,enum=elasticsearch,enum=loki,enum=splunk,enum=sumologic,enum=slack" davit:"later=datadog|newrelic|appdynamics|elasticsearch|loki|splunk|sumologic|slack"`
	// URL of its API.
	URL string `json:"url" jsonschema:"required"`
	// Auth is how Davit signs in.
	Auth *ConnectorAuth `json:"auth,omitempty"`
	// RunOn says who asks: the server, or the agent of the target.
	RunOn string `json:"runOn,omitempty" jsonschema:"enum=server,enum=agent,default=server" davit:"later=agent"`
}

// ConnectorAuth is how Davit signs in to a provider.
type ConnectorAuth struct {
	// Bearer token.
	Bearer *SecretRef `json:"bearer,omitempty"`
}

// RoleSpec lists what a role may do.
type RoleSpec struct {
	// Permissions such as promotion:run or pullrequest:bypass; "*" stands for any part.
	Permissions []string `json:"permissions" jsonschema:"required,minItems=1"`
}

// RoleBindingSpec gives people a role in the project.
type RoleBindingSpec struct {
	// Role is viewer, developer, approver, admin, or a Role of the project.
	Role string `json:"role" jsonschema:"required"`
	// Users by name.
	Users []string `json:"users,omitempty"`
	// Groups by name.
	Groups []string `json:"groups,omitempty"`
}

// specTypes lists the spec types by kind, for the schema.
func specTypes() map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for _, k := range Kinds() {
		out[k] = reflect.TypeOf(newSpec(k)).Elem()
	}
	return out
}
