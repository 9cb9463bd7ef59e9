package script

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// binDir holds the program under test, under the name davit.
var binDir string

// root is the checkout.
var root string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "davit-script-")
	if err == nil {
		defer func() { _ = os.RemoveAll(dir) }()
		root, err = filepath.Abs("../..")
	}
	if err == nil {
		err = program(filepath.Join(dir, "davit"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binDir = dir
	return m.Run()
}

// program puts the program at path: the one that DAVIT_BIN names, or a new build.
func program(path string) error {
	if built := os.Getenv("DAVIT_BIN"); built != "" {
		return os.Symlink(built, path)
	}
	out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", path, "github.com/davit-cd/davit/cmd/davit").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

func TestScripts(t *testing.T) {
	t.Parallel()
	goCaches, err := caches()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 ".",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               func(env *testscript.Env) error { return setup(env, goCaches) },
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"up": up, "makedemo": makeDemo, "down": down, "crash": crash, "until": until, "await": await,
		},
	})
}

// caches are Go's, which are found through the home directory that scripts replace.
func caches() ([]string, error) {
	var vars []string
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY", "GOTOOLCHAIN"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			return nil, fmt.Errorf("go env %s: %w", name, err)
		}
		vars = append(vars, name+"="+string(out[:max(0, len(out)-1)]))
	}
	return vars, nil
}

// setup gives a script a home of its own and the example and policies as they lie in the checkout.
func setup(env *testscript.Env, goCaches []string) error {
	home := filepath.Join(env.WorkDir, "home")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	for _, folder := range []string{"examples", "policies"} {
		if err := os.CopyFS(filepath.Join(env.WorkDir, folder), os.DirFS(filepath.Join(root, folder))); err != nil {
			return err
		}
	}
	env.Vars = append(env.Vars, goCaches...)
	env.Vars = append(env.Vars,
		"HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"), "DATA="+filepath.Join(env.WorkDir, "data"),
		"PATH="+binDir+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1")
	s := &server{}
	env.Values[serverKey{}] = s
	env.Defer(func() { s.kill() })
	return nil
}
