package temporal

import (
	"context"
	"maps"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/config"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// attributeLimit bounds the wait until new search attributes are usable: the server reads its namespaces
	// anew every few seconds.
	attributeLimit = 30 * time.Second
	attributePoll  = 100 * time.Millisecond
)

// createNamespace writes the namespace into the database before the server starts, which saves the first
// start the seconds that a namespace made over the API takes to be known everywhere.
func createNamespace(store *config.SQL, o Options) error {
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, o.Namespace, false, o.SearchAttributes)
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "namespace %q: %w", o.Namespace, err)
	}
	ns.Detail.Config.Retention = durationpb.New(o.Retention)
	if err := sqliteschema.CreateNamespaces(store, ns); err != nil {
		return promo.Errorf(promo.CodeInternal, "namespace %q: %w", o.Namespace, err)
	}
	return nil
}

// ensureNamespace brings a namespace that an earlier release made up to date.
func (s *Server) ensureNamespace(ctx context.Context, o Options) error {
	c, err := s.Dial(ctx, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	now, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: o.Namespace})
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "describe namespace %q: %w", o.Namespace, err)
	}
	if now.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration() != o.Retention {
		if _, err := c.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
			Namespace: o.Namespace,
			Config:    &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(o.Retention)},
		}); err != nil {
			return promo.Errorf(promo.CodeInternal, "set the retention of namespace %q: %w", o.Namespace, err)
		}
	}
	return ensureAttributes(ctx, c, o.Namespace, o.SearchAttributes)
}

// ensureAttributes adds the search attributes that the namespace lacks and waits until they are usable.
func ensureAttributes(ctx context.Context, c client.Client, namespace string, want SearchAttributes) error {
	missing, err := missingAttributes(ctx, c, namespace, want)
	if err != nil || len(missing) == 0 {
		return err
	}
	if _, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	}); err != nil {
		return promo.Errorf(promo.CodeInternal, "add search attributes to namespace %q: %w", namespace, err)
	}
	ctx, cancel := context.WithTimeout(ctx, attributeLimit)
	defer cancel()
	tick := time.NewTicker(attributePoll)
	defer tick.Stop()
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		for {
			_, err := c.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
				Namespace: namespace, Query: name + " IS NULL",
			})
			if err == nil {
				break
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return promo.Errorf(promo.CodeTimeout, "search attribute %q is not usable: %w", name, err)
			}
		}
	}
	return nil
}

// missingAttributes returns what the namespace lacks of want; another type under a wanted name is an error.
func missingAttributes(ctx context.Context, c client.Client, namespace string, want SearchAttributes) (SearchAttributes, error) {
	list, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return nil, promo.Errorf(promo.CodeConnectivity, "list the search attributes of namespace %q: %w", namespace, err)
	}
	return diffAttributes(namespace, list.GetCustomAttributes(), want)
}

func diffAttributes(namespace string, have map[string]enumspb.IndexedValueType, want SearchAttributes) (SearchAttributes, error) {
	missing := SearchAttributes{}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		switch kind, ok := have[name]; {
		case !ok:
			missing[name] = want[name]
		case kind != want[name]:
			return nil, promo.Errorf(promo.CodeConfiguration, "search attribute %q of namespace %q is %s", name, namespace, kind).
				WithHint("Davit needs it to be %s", want[name])
		}
	}
	return missing, nil
}
