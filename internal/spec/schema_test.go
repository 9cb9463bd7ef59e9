package spec_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	reflector "github.com/invopop/jsonschema"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/steps"
)

// TestComments keeps the comments that the binary takes along equal to the sources.
func TestComments(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	r := &reflector.Reflector{}
	for _, dir := range []string{"./internal/spec", "./internal/plan", "./steps"} {
		if err := r.AddGoComments("github.com/davit-cd/davit", dir, reflector.WithFullComment()); err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]string{}
	configured := spec.ConfigTypes(spec.New(steps.Builtin()))
	for name, text := range r.CommentMap {
		if slices.ContainsFunc(configured, func(c string) bool { return name == c || strings.HasPrefix(name, c+".") }) {
			got[name] = strings.TrimSpace(text)
		}
	}
	path := filepath.Join("internal", "spec", "comments.json")
	if *update {
		b, err := json.MarshalIndent(got, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(b, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("comments are out of date; run: go generate ./internal/spec\n%s", diff)
	}
}

func compiled(t *testing.T, text []byte) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("davit.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("davit.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSchemaAgrees feeds every file to the schema and to the checker. What the checker refuses for its shape the
// schema refuses, and nothing else.
func TestSchemaAgrees(t *testing.T) {
	t.Parallel()
	l := spec.New(types())
	schema := compiled(t, l.Schema())
	shape := map[string]bool{}
	for _, r := range spec.Rules() {
		shape[r.Name] = r.Shape
	}
	for _, path := range append(files(t, "ok/*.yaml"), files(t, "err/*.yaml")...) {
		t.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			_, diags := load(t, l, path)
			for _, doc := range documents(t, path) {
				broken := slices.IndexFunc(diags, func(d spec.Diagnostic) bool {
					return shape[d.Rule] && d.Line >= doc.first && d.Line <= doc.last
				})
				err := schema.Validate(doc.value)
				switch {
				case broken >= 0 && err == nil:
					t.Errorf("the schema accepts what the checker refuses: %s", diags[broken])
				case broken < 0 && err != nil:
					t.Errorf("the schema refuses the document in lines %d to %d, the checker does not: %v", doc.first, doc.last, err)
				}
			}
		})
	}
}

// anyDocument is a document as plain values, and its lines.
type anyDocument struct {
	first, last int
	value       any
}

// documents reads a file without the checker. What is not YAML or holds a key twice has no plain value.
func documents(t *testing.T, path string) []anyDocument {
	t.Helper()
	var out []anyDocument
	line := 1
	for text := range strings.SplitSeq(string(read(t, path).Text), "---\n") {
		n := strings.Count(text, "\n")
		if v, ok := spec.Plain([]byte(text)); ok {
			out = append(out, anyDocument{first: line, last: line + n - 1, value: v})
		}
		line += n + 1
	}
	return out
}

func TestStepSchema(t *testing.T) {
	t.Parallel()
	l := spec.New(types())
	for _, kind := range l.StepKinds() {
		text, ok := l.StepSchema(kind)
		if !ok {
			t.Fatalf("no schema for %s", kind)
		}
		compiled(t, text)
		if strings.Contains(kind, "Approval") && !bytes.Contains(text, []byte("Groups whose members may decide")) {
			t.Error("the comments of the fields are missing")
		}
	}
	if _, ok := l.StepSchema("Nope"); ok {
		t.Error("a schema for a type that isn't there")
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	l := spec.New(types())
	for _, kind := range append(l.StepKinds(), spec.Kinds()...) {
		if text, ok := l.Explain(kind); !ok || text == "" {
			t.Errorf("no explanation of %s", kind)
		}
	}
	text, _ := l.Explain("Approval")
	golden(t, "testdata/explain-approval.txt", []byte(text))
	if _, ok := l.Explain("Nope"); ok {
		t.Error("an explanation of what isn't there")
	}
}
