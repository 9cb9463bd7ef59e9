package temporal

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	server "go.temporal.io/server/temporal"

	"github.com/davit-cd/davit/internal/promo"
)

// clusterName is written into the database at its first start; it never changes.
const clusterName = "active"

// errPortTaken marks a start that another program's port has spoilt.
var errPortTaken = errors.New("port taken")

// launch brings up all services once.
func launch(ctx context.Context, o Options, store *config.SQL) (*Server, error) {
	ports, err := freePorts()
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "find free ports for Temporal: %w", err)
	}
	cfg, hosts := serverConfig(ports, store)
	clientTLS, err := closePorts(cfg)
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "make Temporal's certificate: %w", err)
	}
	f := newFatal()
	inner, err := run(ctx, f, []server.ServerOption{
		server.WithConfig(cfg), server.ForServices(server.DefaultServices), server.WithStaticHosts(hosts),
		server.WithLogger(logger{to: o.Logger, level: o.LogLevel.Level(), fatal: f}),
		server.WithDynamicConfigClient(dynamic()),
		server.WithAuthorizer(authorization.NewNoopAuthorizer()),
		server.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return authorization.NewNoopClaimMapper() }),
		server.WithCustomMetricsHandler(metrics.NoopMetricsHandler),
	})
	if err != nil {
		return nil, err
	}
	return &Server{
		address: cfg.PublicClient.HostPort, namespace: o.Namespace, tls: clientTLS,
		log: o.Logger, inner: inner, fatal: f,
	}, nil
}

// run constructs and starts the server in a goroutine of its own, which a fatal log line of Temporal may end.
func run(ctx context.Context, f *fatal, options []server.ServerOption) (server.Server, error) {
	type result struct {
		s   server.Server
		err error
	}
	done := make(chan result, 1)
	go func() {
		r := result{err: errors.New("gave up while starting")}
		defer func() { done <- r }() // runs on runtime.Goexit too
		s, err := server.NewServer(options...)
		if err != nil {
			r.err = err
			return
		}
		r = result{s, errors.New("gave up while starting")}
		r.err = s.Start()
	}()
	var r result
	select {
	case r = <-done:
	case <-ctx.Done():
		go func() {
			if late := <-done; late.s != nil {
				_ = late.s.Stop() // nobody is left to hear of it
			}
		}()
		return nil, promo.Errorf(promo.CodeTimeout, "start the embedded Temporal server: %w", ctx.Err())
	}
	if r.err == nil {
		return r.s, nil
	}
	if why := f.err(); why != nil {
		r.err = why
	}
	if r.s != nil {
		_ = r.s.Stop() // it never ran; the cause is in r.err
	}
	return nil, promo.Errorf(promo.CodeInternal, "start the embedded Temporal server: %w", r.err)
}

// freePorts picks one free port for each service. They are held until all are chosen, so that they differ.
func freePorts() (map[primitives.ServiceName]int, error) {
	ports := map[primitives.ServiceName]int{}
	for _, name := range []primitives.ServiceName{
		primitives.FrontendService, primitives.HistoryService, primitives.MatchingService, primitives.WorkerService,
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // binds at once
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }()
		addr, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("address %s is not a TCP address", l.Addr())
		}
		ports[name] = addr.Port
	}
	return ports, nil
}

func serverConfig(ports map[primitives.ServiceName]int, store *config.SQL) (*config.Config, map[primitives.ServiceName]static.Hosts) {
	c := &config.Config{Services: map[string]config.Service{}}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, port := range ports {
		hosts[name] = static.SingleLocalHost(local(port))
		c.Services[string(name)] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: "127.0.0.1"}}
	}
	frontend := local(ports[primitives.FrontendService])
	c.PublicClient.HostPort = frontend
	c.Global.Membership = config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: "127.0.0.1"}
	c.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{
			clusterName: {Enabled: true, InitialFailoverVersion: 1, RPCAddress: frontend},
		},
	}
	c.DCRedirectionPolicy.Policy = "noop"
	c.Archival.History.State, c.Archival.Visibility.State = "disabled", "disabled"
	c.NamespaceDefaults.Archival.History.State = "disabled"
	c.NamespaceDefaults.Archival.Visibility.State = "disabled"
	c.Persistence = config.Persistence{
		DefaultStore: "main", VisibilityStore: "main",
		NumHistoryShards: 1, // fixed for the life of a database; see "Why these settings" in doc.go
		DataStores:       map[string]config.DataStore{"main": {SQL: store}},
	}
	return c, hosts
}

func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// storeConfig names the database; the path is escaped because it becomes part of a URI.
func storeConfig(file string, d Durability) *config.SQL {
	return &config.SQL{
		PluginName: sqlite.PluginName, DatabaseName: (&url.URL{Path: file}).EscapedPath(),
		MaxConns: 1, MaxIdleConns: 1,
		ConnectAttributes: map[string]string{
			"mode": "rwc", "journal_mode": "wal", "synchronous": string(d),
			"busy_timeout": "5000", // ms; a backup tool may hold the file for a moment
		},
	}
}

// dynamic returns the settings that make one process on one machine fast.
func dynamic() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		// the default of 20 a second makes every step wait 50 ms
		dynamicconfig.TransferProcessorMaxPollRPS.Key(): 1000,
		// the server sometimes drops the closing event of a waiting client, which then waits for this long
		dynamicconfig.HistoryLongPollExpirationInterval.Key(): time.Second,
		// partitions spread load over machines; here they only add hops
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():  1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key(): 1,
		// search attributes are usable at once after they were added
		dynamicconfig.ForceSearchAttributesCacheRefreshOnRead.Key(): true,
	}
}

// closePorts makes all ports demand a certificate that exists only in this process.
func closePorts(c *config.Config) (*tls.Config, error) {
	id, err := newIdentity()
	if err != nil {
		return nil, err
	}
	group := config.GroupTLS{
		Server: config.ServerTLS{CertData: id.cert, KeyData: id.key, ClientCAData: []string{id.cert}, RequireClientAuth: true},
		Client: config.ClientTLS{ServerName: identityName, RootCAData: []string{id.cert}},
	}
	c.Global.TLS = config.RootTLS{
		Internode: group, Frontend: group,
		SystemWorker: config.WorkerTLS{CertData: id.cert, KeyData: id.key, Client: group.Client},
	}
	return id.client, nil
}
