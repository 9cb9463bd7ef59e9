package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// davit is the real program under measurement: `davit up` in a process of its own.
type davit struct {
	tb    testing.TB
	cmd   *exec.Cmd
	dir   string // the data directory
	url   string
	token string
	ready time.Duration // from the start of the process until it said that it is ready
}

// binary is the program: DAVIT_BENCH_BINARY, or built here once per run.
func binary(tb testing.TB) string {
	tb.Helper()
	if path := os.Getenv("DAVIT_BENCH_BINARY"); path != "" {
		return path
	}
	path := filepath.Join(tb.TempDir(), "davit")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, "github.com/davit-cd/davit/cmd/davit")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// up starts the program on a data directory and returns when it is ready.
func up(tb testing.TB, program, dir string, args ...string) *davit {
	tb.Helper()
	config := tb.TempDir()
	d := &davit{tb: tb, dir: dir}
	d.cmd = exec.Command(program, append([]string{"up", "--data-dir", dir, "--listen", "127.0.0.1:0"}, args...)...)
	d.cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+config)
	d.cmd.Stderr = os.Stderr
	stdout, err := d.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	start := time.Now()
	if err := d.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(d.stop)
	lines := bufio.NewReader(stdout)
	line, err := lines.ReadString('\n')
	if err != nil || !strings.Contains(line, "ready") {
		tb.Fatalf("davit up said %q: %v", line, err)
	}
	d.ready = time.Since(start)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	d.signIn(filepath.Join(config, "davit", "up.json"))
	return d
}

// signIn reads the way in that `davit up` leaves for the command line of the same machine.
func (d *davit) signIn(file string) {
	d.tb.Helper()
	raw, err := os.ReadFile(file)
	for end := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(end); raw, err = os.ReadFile(file) {
		time.Sleep(time.Millisecond) // written just after the first line
	}
	var way struct{ URL, Token string }
	if err == nil {
		err = json.Unmarshal(raw, &way)
	}
	if err != nil {
		d.tb.Fatal(err)
	}
	d.url, d.token = way.URL, way.Token
}

func (d *davit) stop() {
	if d.cmd.ProcessState != nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	if err := d.cmd.Wait(); err != nil {
		d.tb.Errorf("davit up: %v", err)
	}
}

// call asks REST and decodes its answer.
func (d *davit) call(method, path string, in, out any) {
	d.tb.Helper()
	var body bytes.Buffer
	if in != nil {
		if err := json.NewEncoder(&body).Encode(in); err != nil {
			d.tb.Fatal(err)
		}
	}
	req, err := http.NewRequestWithContext(d.tb.Context(), method, d.url+path, &body)
	if err != nil {
		d.tb.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.tb.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= http.StatusBadRequest {
		d.tb.Fatalf("%s %s: %s: %s %v", method, path, res.Status, answer, err)
	}
	if out != nil {
		if err := json.Unmarshal(answer, out); err != nil {
			d.tb.Fatal(err)
		}
	}
}

// cpu is what the process and its ended children have used, in seconds.
func (d *davit) cpu() float64 {
	d.tb.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		d.tb.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+2:]))
	ticks := 0
	for _, f := range fields[11:15] { // utime, stime, cutime, cstime
		n, err := strconv.Atoi(f)
		if err != nil {
			d.tb.Fatal(err)
		}
		ticks += n
	}
	const perSecond = 100 // USER_HZ on every Linux that Go runs on
	return float64(ticks) / perSecond
}

// resident is the process's memory in MB.
func (d *davit) resident() float64 {
	d.tb.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", d.cmd.Process.Pid))
	if err != nil {
		d.tb.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				d.tb.Fatal(err)
			}
			return float64(kb) / 1024
		}
	}
	d.tb.Fatal("no VmRSS")
	return 0
}

func load(tb testing.TB) float64 {
	tb.Helper()
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		tb.Fatal(err)
	}
	one, err := strconv.ParseFloat(strings.Fields(string(raw))[0], 64)
	if err != nil {
		tb.Fatal(err)
	}
	return one
}
