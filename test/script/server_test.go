package script

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience is how long a script waits for what takes seconds on an idle machine.
const patience = 2 * time.Minute

type serverKey struct{}

// server is the `davit up` of a script.
type server struct {
	cmd  *exec.Cmd
	port string
	done chan struct{} // closed when it has ended
	err  error         // how, after done
	said buffer
}

// buffer is what a process has said so far.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	<-s.done
	s.cmd = nil
}

func serverOf(ts *testscript.TestScript) *server {
	s, ok := ts.Value(serverKey{}).(*server)
	if !ok {
		ts.Fatalf("the script has no server")
	}
	return s
}

func up(ts *testscript.TestScript, neg bool, args []string) {
	s := serverOf(ts)
	s.choosePort(ts)
	args = append([]string{"up", "--listen", "127.0.0.1:" + s.port, "--data-dir", ts.Getenv("DATA")}, args...)
	s.start(ts, neg, exec.Command(binDir+"/davit", args...))
}

func makeDemo(ts *testscript.TestScript, neg bool, _ []string) {
	s := serverOf(ts)
	s.choosePort(ts)
	s.start(ts, neg, exec.Command("make", "-C", root, "demo", "LISTEN=127.0.0.1:"+s.port, "DEMO_DATA="+ts.Getenv("DATA")))
}

// choosePort takes a free port at first and keeps it over restarts, as people do.
func (s *server) choosePort(ts *testscript.TestScript) {
	if s.port != "" {
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	_, s.port, err = net.SplitHostPort(l.Addr().String())
	ts.Check(err)
	ts.Check(l.Close())
	ts.Setenv("URL", "http://127.0.0.1:"+s.port)
}

// start runs the server until it says that it is ready; negated, it must end instead, with an error.
func (s *server) start(ts *testscript.TestScript, neg bool, cmd *exec.Cmd) {
	if s.cmd != nil {
		ts.Fatalf("a server runs already")
	}
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = environment(ts)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // make and what it starts
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	cmd.Stderr = &s.said
	ts.Check(cmd.Start())
	s.cmd, s.done = cmd, make(chan struct{})
	ready := make(chan struct{})
	go s.listen(stdout, ready)
	select {
	case <-ready:
		if neg {
			ts.Fatalf("the server started")
		}
	case <-s.done:
		s.cmd = nil
		ts.Logf("%s", s.said.String())
		if !neg {
			ts.Fatalf("the server ended: %v", s.err)
		}
	case <-time.After(patience):
		ts.Fatalf("the server is not ready after %s:\n%s", patience, s.said.String())
	}
}

// listen reads what the server says, to its end.
func (s *server) listen(stdout io.Reader, ready chan<- struct{}) {
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		fmt.Fprintln(&s.said, lines.Text())
		if lines.Text() == "Davit is ready." {
			close(ready)
		}
	}
	s.err = s.cmd.Wait()
	close(s.done)
}

func down(ts *testscript.TestScript, neg bool, _ []string) {
	s := serverOf(ts)
	if neg || s.cmd == nil {
		ts.Fatalf("no server to stop")
	}
	byMake := filepath.Base(s.cmd.Path) == "make"
	ts.Check(syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT))
	select {
	case <-s.done:
		s.cmd = nil
		if s.err != nil && !byMake { // make says that it was interrupted
			ts.Fatalf("the server ended with %v:\n%s", s.err, s.said.String())
		}
	case <-time.After(patience):
		ts.Fatalf("the server does not stop:\n%s", s.said.String())
	}
}

func crash(ts *testscript.TestScript, neg bool, _ []string) {
	s := serverOf(ts)
	if neg || s.cmd == nil {
		ts.Fatalf("no server to kill")
	}
	s.kill()
}

// until runs a command until a line of its output matches, then ends it.
func until(ts *testscript.TestScript, neg bool, args []string) {
	pattern := patternOf(ts, neg, args)
	cmd := command(ts, args[1:])
	stdout, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	found := false
	for lines := bufio.NewScanner(stdout); !found && lines.Scan(); {
		ts.Logf("%s", lines.Text())
		found = pattern.MatchString(lines.Text())
	}
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()         // killed, or ended as it does
	if !found {
		ts.Fatalf("no line matches %s", pattern)
	}
}

// await runs a command again and again until its output matches.
func await(ts *testscript.TestScript, neg bool, args []string) {
	pattern := patternOf(ts, neg, args)
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for {
		out, err := command(ts, args[1:]).CombinedOutput()
		if pattern.Match(out) {
			ts.Logf("%s", out)
			return
		}
		select {
		case <-tick.C:
		case <-end:
			ts.Fatalf("nothing matches %s in (%v):\n%s", pattern, err, out)
		}
	}
}

func patternOf(ts *testscript.TestScript, neg bool, args []string) *regexp.Regexp {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: PATTERN COMMAND…")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	return re
}

func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	name := args[0]
	if name == "davit" {
		name = binDir + "/davit"
	}
	cmd := exec.Command(name, args[1:]...)
	cmd.Dir, cmd.Env = ts.Getenv("WORK"), environment(ts)
	return cmd
}

// environment is the script's: testscript gives it to exec only.
func environment(ts *testscript.TestScript) []string {
	env := os.Environ()
	env = append(env, "DAVIT_SERVER=", "DAVIT_TOKEN=", "DAVIT_AS=", "DAVIT_PROJECT=")
	for _, name := range strings.Fields("HOME XDG_CONFIG_HOME PATH GOCACHE GOMODCACHE DAVIT_AS") {
		if v := ts.Getenv(name); v != "" {
			env = append(env, name+"="+v)
		}
	}
	return env
}
