package temporal

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	server "go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// defaultRetention keeps finished histories long enough to look into last month's trouble; Davit's own
	// store keeps what people need after that.
	defaultRetention = 30 * 24 * time.Hour
	// stopLimit bounds Stop. A healthy server stops in about a second; what hangs longer is left to the end
	// of the process, which SQLite survives.
	stopLimit = 15 * time.Second
	// bindAttempts bounds the retries when another program takes a port between choosing and binding it.
	bindAttempts = 5
	// databaseFile is the name of the database below Options.Dir.
	databaseFile = "temporal.db"
)

// Durability says what a power loss may cost.
type Durability string

// The durabilities. Neither loses anything when only the process is killed.
const (
	// DurabilityNormal may lose the last commits at a power loss.
	DurabilityNormal Durability = "normal"
	// DurabilityFull syncs every commit to the disk, at about 40 % less throughput.
	DurabilityFull Durability = "full"
)

// SearchAttributes are the custom search attributes a namespace must have, by name.
type SearchAttributes map[string]enumspb.IndexedValueType

// Options say where and how the embedded server runs.
type Options struct {
	// Dir holds the database and the lock; it is made when missing. Nothing else may live in it.
	Dir string
	// Namespace is created when missing.
	Namespace string
	// SearchAttributes are added to the namespace when missing.
	SearchAttributes SearchAttributes
	// Durability defaults to DurabilityNormal.
	Durability Durability
	// Retention of finished histories; default 30 days, at least one day.
	Retention time.Duration
	// Logger receives the server's and the clients' log lines.
	Logger *slog.Logger
	// LogLevel is the lowest level of the server's own lines that is passed on; default Warn.
	LogLevel slog.Leveler
}

// Server is a running Temporal server.
type Server struct {
	address   string
	namespace string
	tls       *tls.Config
	log       *slog.Logger
	inner     server.Server
	fatal     *fatal
	lock      *Lock
	stop      func() error
}

// Start runs a server and returns when it takes calls and its namespace is as asked for. The codes of its
// errors: Configuration for wrong options, a directory in use and a schema it can't read; Internal otherwise.
func Start(ctx context.Context, o Options) (*Server, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "make the directory of the Temporal database: %w", err)
	}
	lock, err := LockDir(o.Dir)
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, o)
	if err != nil {
		return nil, errors.Join(err, lock.Release())
	}
	s.lock = lock
	s.stop = sync.OnceValue(s.stopOnce)
	if err := s.ensureNamespace(ctx, o); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (o Options) complete() (Options, error) {
	if o.Dir == "" || o.Namespace == "" || o.Logger == nil {
		return o, promo.Errorf(promo.CodeConfiguration, "the embedded Temporal server needs Dir, Namespace and Logger")
	}
	abs, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, promo.Errorf(promo.CodeConfiguration, "directory %q of the Temporal database: %w", o.Dir, err)
	}
	o.Dir = abs
	if o.Retention == 0 {
		o.Retention = defaultRetention
	}
	if o.Retention < 24*time.Hour {
		return o, promo.Errorf(promo.CodeConfiguration, "retention %s of Temporal histories is under a day", o.Retention)
	}
	if o.LogLevel == nil {
		o.LogLevel = slog.LevelWarn
	}
	switch o.Durability {
	case "":
		o.Durability = DurabilityNormal
	case DurabilityNormal, DurabilityFull:
	default:
		return o, promo.Errorf(promo.CodeConfiguration, "durability %q", o.Durability).
			WithHint("use %q or %q", DurabilityNormal, DurabilityFull)
	}
	return o, nil
}

// start prepares the database and brings the services up, again with other ports where one was taken.
func start(ctx context.Context, o Options) (*Server, error) {
	db := filepath.Join(o.Dir, databaseFile)
	if err := prepareSchema(ctx, db); err != nil {
		return nil, err
	}
	store := storeConfig(db, o.Durability)
	if err := createNamespace(store, o); err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		s, err := launch(ctx, o, store)
		if err == nil {
			return s, nil
		}
		if attempt == bindAttempts || !errors.Is(err, errPortTaken) {
			return nil, err
		}
		o.Logger.DebugContext(ctx, "a port was taken while temporal started, trying others", "attempt", attempt)
	}
}

// Stop ends the server and releases the directory. It may be called more than once and returns within 15 s.
func (s *Server) Stop() error { return s.stop() }

func (s *Server) stopOnce() error {
	done := make(chan error, 1)
	go func() { done <- s.inner.Stop() }()
	var err error
	select {
	case err = <-done:
	case <-time.After(stopLimit):
		err = fmt.Errorf("not done after %s", stopLimit)
	}
	if err != nil {
		err = promo.Errorf(promo.CodeInternal, "stop the embedded Temporal server: %w", err)
	}
	return errors.Join(err, s.lock.Release())
}

// Failed is closed when a part of the server gave up for good; Err then says why. Restart the process.
func (s *Server) Failed() <-chan struct{} { return s.fatal.failed }

// Err returns why the server failed, or nil.
func (s *Server) Err() error { return s.fatal.err() }

// Address is the frontend's host and port on the loopback interface.
func (s *Server) Address() string { return s.address }

// TLS returns the configuration that the server's ports demand of a client.
func (s *Server) TLS() *tls.Config { return s.tls.Clone() }

// Options completes o with the address, namespace, TLS and (unless set) the logger of this server.
func (s *Server) Options(o client.Options) client.Options {
	o.HostPort, o.Namespace, o.ConnectionOptions.TLS = s.address, s.namespace, s.TLS()
	if o.Logger == nil {
		o.Logger = sdklog.NewStructuredLogger(s.log)
	}
	return o
}

// Dial connects a client with the server's Options. The caller closes it before Stop.
func (s *Server) Dial(ctx context.Context, o client.Options) (client.Client, error) {
	c, err := client.DialContext(ctx, s.Options(o))
	if err != nil {
		return nil, promo.Errorf(promo.CodeConnectivity, "dial the embedded Temporal server: %w", err)
	}
	return c, nil
}

// Conn returns a bare connection to the frontend, for the agents' gateway. The caller closes it before Stop.
func (s *Server) Conn() (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(credentials.NewTLS(s.TLS())))
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "connect to the embedded Temporal server: %w", err)
	}
	return conn, nil
}
