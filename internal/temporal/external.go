package temporal

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"

	"github.com/davit-cd/davit/internal/promo"
)

// checkLimit bounds the look at an external cluster when Davit starts.
const checkLimit = 20 * time.Second

// External names a Temporal cluster that somebody else runs.
type External struct {
	Address   string
	Namespace string
	// TLS is nil for plaintext, unless APIKey is set, which turns TLS on.
	TLS    *tls.Config
	APIKey promo.Secret
	// SearchAttributes must exist; Davit does not add them to a cluster that it does not own.
	SearchAttributes SearchAttributes
	Logger           *slog.Logger
}

// Dial connects to an external cluster and checks that it has the namespace and its search attributes. Codes:
// Configuration for what is missing there, Authentication, Authorization, Connectivity.
func Dial(ctx context.Context, e External, o client.Options) (client.Client, error) {
	if e.Address == "" || e.Namespace == "" || e.Logger == nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "an external Temporal cluster needs Address, Namespace and Logger")
	}
	o.HostPort, o.Namespace, o.ConnectionOptions.TLS = e.Address, e.Namespace, e.TLS
	if o.Logger == nil {
		o.Logger = sdklog.NewStructuredLogger(e.Logger)
	}
	if e.APIKey != "" {
		o.Credentials = client.NewAPIKeyStaticCredentials(e.APIKey.Reveal())
	}
	ctx, cancel := context.WithTimeout(ctx, checkLimit)
	defer cancel()
	c, err := client.DialContext(ctx, o)
	if err != nil {
		return nil, e.explain(err)
	}
	if err := e.check(ctx, c); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (e External) check(ctx context.Context, c client.Client) error {
	if _, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: e.Namespace}); err != nil {
		return e.explain(err)
	}
	missing, err := missingAttributes(ctx, c, e.Namespace, e.SearchAttributes)
	if err != nil || len(missing) == 0 {
		return err
	}
	return promo.Errorf(promo.CodeConfiguration, "namespace %q at %s has no search attributes %q",
		e.Namespace, e.Address, slices.Sorted(maps.Keys(missing))).
		WithHint("register them with the cluster's own tools, as the operations page lists them")
}

// explain gives an error of the cluster its code and a hint where one helps.
func (e External) explain(err error) error {
	var (
		notFound *serviceerror.NamespaceNotFound
		denied   *serviceerror.PermissionDenied
	)
	switch {
	case errors.As(err, &notFound):
		return promo.Errorf(promo.CodeConfiguration, "the Temporal cluster at %s has no namespace %q", e.Address, e.Namespace).
			WithHint("register it there, with a retention of 30 days")
	case errors.As(err, &denied):
		return promo.Errorf(promo.CodeAuthorization, "the Temporal cluster at %s: %w", e.Address, err)
	case errors.Is(err, context.DeadlineExceeded):
		return promo.Errorf(promo.CodeTimeout, "the Temporal cluster at %s: %w", e.Address, err)
	default:
		return promo.Errorf(promo.CodeConnectivity, "the Temporal cluster at %s: %w", e.Address, err)
	}
}
