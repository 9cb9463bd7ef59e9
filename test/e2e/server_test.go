package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "davit-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary = os.Getenv("DAVIT_BIN"); binary == "" {
		binary = filepath.Join(dir, "davit")
		out, err := exec.Command("go", "build", "-o", binary, "github.com/davit-cd/davit/cmd/davit").CombinedOutput()
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s\n%v\n", out, err)
			return 1
		}
	}
	code := m.Run()
	if common.s != nil {
		common.s.kill(syscall.SIGKILL)
		if code != 0 {
			fmt.Fprintf(os.Stderr, "log of the common server:\n%s\n", common.s.log.tail())
		}
	}
	return code
}

// patience is how long a test waits for what takes a second or two: other work may keep the machine busy.
const patience = time.Minute

// server is one `davit up` process with its data directory; it can be killed and started again.
type server struct {
	dir  string // holds data and configuration
	port string
	url  string
	log  *logFile

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended chan struct{}
}

// logFile keeps the end of what a process said.
type logFile struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logFile) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buf.Bytes()
	return string(b[max(0, len(b)-6<<10):])
}

// freePort returns a port that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// makeServer starts a server in dir and waits until it is ready.
func makeServer(dir string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, port: port, url: "http://127.0.0.1:" + port, log: &logFile{}}
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, s.ready()
}

// newServer is a server of the test's own; its log is shown if the test fails.
func newServer(t *testing.T) *server {
	t.Helper()
	s, err := makeServer(t.TempDir())
	if s != nil {
		t.Cleanup(func() {
			s.kill(syscall.SIGKILL)
			if t.Failed() {
				t.Logf("log of the server:\n%s", s.log.tail())
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// common is the server that tests share which don't stop it. Each has a world of its own in it.
var common struct {
	once sync.Once
	s    *server
	err  error
}

func commonServer(t *testing.T) *server {
	t.Helper()
	common.once.Do(func() {
		dir, err := os.MkdirTemp(filepath.Dir(binary), "common-")
		if err != nil {
			common.err = err
			return
		}
		common.s, common.err = makeServer(dir)
	})
	if common.err != nil {
		t.Fatal(common.err)
	}
	return common.s
}

func (s *server) environment() []string {
	return append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(s.dir, "config"), "HOME="+s.dir, "DAVIT_SERVER=", "DAVIT_TOKEN=", "DAVIT_AS=")
}

// start starts the process; ready waits until it answers.
func (s *server) start(flags ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := append([]string{"up", "--listen", "127.0.0.1:" + s.port, "--data-dir", filepath.Join(s.dir, "data")}, flags...)
	cmd := exec.Command(binary, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = s.environment(), s.log, s.log
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.cmd, s.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // how it ended is told by its log
		close(ended)
	}()
	return nil
}

func (s *server) ready() error {
	return until(patience, func() (bool, string) {
		select {
		case <-s.ended:
			return true, ""
		default:
		}
		res, err := http.Get(s.url + "/readyz")
		if err != nil {
			return false, err.Error()
		}
		defer func() { _ = res.Body.Close() }()
		return res.StatusCode == http.StatusOK, res.Status
	}, func() error {
		select {
		case <-s.ended:
			return fmt.Errorf("the server ended: %s", s.log.tail())
		default:
			return nil
		}
	})
}

// kill ends the process and waits for its end.
func (s *server) kill(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Signal(sig) // it may have ended by itself
	<-s.ended
	s.cmd = nil
}

// until looks again and again until look says true, then returns what after says.
func until(within time.Duration, look func() (bool, string), after func() error) error {
	deadline := time.Now().Add(within)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		done, seen := look()
		if done {
			return after()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not within %s; last seen: %s", within, seen)
		}
		<-tick.C
	}
}

// eventually waits for a condition; look also says what it saw.
func eventually(t *testing.T, what string, look func() (bool, string)) {
	t.Helper()
	if err := until(patience, look, func() error { return nil }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// answer is what REST said.
type answer struct {
	Status int
	Body   string
}

// call sends a REST request as a demo user and decodes a 200 into out.
func (s *server) call(as, method, path string, body, out any) (answer, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return answer{}, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, s.url+path, content)
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Davit-As", as)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{Status: res.StatusCode, Body: string(b)}
	if out != nil && a.Status == http.StatusOK {
		err = json.Unmarshal(b, out)
	}
	return a, err
}

// must calls and demands a 200.
func (s *server) must(t *testing.T, as, method, path string, body, out any) {
	t.Helper()
	a, err := s.call(as, method, path, body, out)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.Status != http.StatusOK {
		t.Fatalf("%s %s as %s: %d %s", method, path, as, a.Status, a.Body)
	}
}

// refused calls and demands another status than 200 with an answer that holds all the words.
func (s *server) refused(t *testing.T, as, method, path string, body any, status int, words ...string) {
	t.Helper()
	a, err := s.call(as, method, path, body, nil)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.Status != status {
		t.Errorf("%s %s as %s: want %d, got %d %s", method, path, as, status, a.Status, a.Body)
	}
	for _, w := range words {
		if !strings.Contains(a.Body, w) {
			t.Errorf("%s %s as %s: want %q in the answer %s", method, path, as, w, a.Body)
		}
	}
}

// result is what a command said and how it ended.
type result struct {
	Code           int
	Stdout, Stderr string
}

// cli runs the command line on the server's machine.
func (s *server) cli(t *testing.T, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = s.environment(), &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("davit %s: %v", strings.Join(args, " "), err)
	}
	return result{Code: cmd.ProcessState.ExitCode(), Stdout: out.String(), Stderr: errs.String()}
}

// says demands an exit code and words on both outputs together.
func (r result) says(t *testing.T, code int, words ...string) {
	t.Helper()
	all := r.Stdout + r.Stderr
	if r.Code != code {
		t.Errorf("want exit code %d, got %d: %s", code, r.Code, all)
	}
	for _, w := range words {
		if !strings.Contains(all, w) {
			t.Errorf("want %q in: %s", w, all)
		}
	}
}
