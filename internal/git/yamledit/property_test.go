package yamledit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// generator writes random YAML in all styles, by hand and not by an encoder, which would only know its own.
type generator struct {
	r       *rand.Rand
	b       strings.Builder
	eol     string
	anchors int
}

func (g *generator) pick(s ...string) string { return s[g.r.IntN(len(s))] }
func (g *generator) chance(n int) bool       { return g.r.IntN(n) == 0 }

func generate(seed uint64) []byte {
	g := &generator{r: rand.New(rand.NewPCG(seed, 1)), eol: "\n"}
	if g.chance(4) {
		g.eol = "\r\n"
	}
	if g.chance(8) {
		g.b.WriteString(bom)
	}
	docs := 1
	if g.chance(4) {
		docs = 3
	}
	for i := range docs {
		if i > 0 || g.chance(4) {
			g.b.WriteString("---" + g.eol)
		}
		if g.chance(3) {
			g.b.WriteString("# head of ä document" + g.eol)
		}
		g.anchors = 0
		g.blockMap(0, 4, fmt.Sprintf("d%d", i))
	}
	s := g.b.String()
	if g.chance(3) {
		s = strings.TrimRight(s, "\r\n")
	}
	return []byte(s)
}

func (g *generator) indent(n int) string { return strings.Repeat(" ", n) }

func (g *generator) comment() string {
	if g.chance(4) {
		return g.pick(" ", "  ", "\t") + g.pick("# c: d", "# it's \"x\" {", "#- |")
	}
	return g.pick("", "", "", " ", "\t ")
}

func (g *generator) key(i int, prefix string) string {
	k := fmt.Sprintf("%sk%d", prefix, i)
	switch g.r.IntN(6) {
	case 0:
		return `"` + k + `"`
	case 1:
		return "'" + k + "'"
	case 2:
		return k + g.pick("-x/y", "_z", "ß")
	}
	return k
}

func (g *generator) blockMap(indent, depth int, prefix string) {
	for i := range 1 + g.r.IntN(4) {
		if i > 0 || prefix != "" {
			if g.chance(5) {
				g.b.WriteString(g.indent(indent) + "# between" + g.eol)
			}
			if g.chance(6) {
				g.b.WriteString(g.eol)
			}
			g.b.WriteString(g.indent(indent))
		}
		g.b.WriteString(g.key(i, prefix) + g.pick("", "", "", " ") + ":")
		g.value(indent, indent+1+g.r.IntN(4), depth)
	}
}

// value writes what follows a colon or dash, with its line end.
func (g *generator) value(parent, indent, depth int) {
	props := ""
	if g.chance(10) {
		g.anchors++
		props = fmt.Sprintf(" &a%d", g.anchors)
	}
	kind := g.r.IntN(10)
	switch {
	case depth > 0 && kind < 2:
		g.b.WriteString(props + g.comment() + g.eol)
		g.blockMap(indent, depth-1, "n")
	case depth > 0 && kind < 4:
		g.b.WriteString(props + g.comment() + g.eol)
		g.blockSeq(indent, depth-1)
	case depth > 0 && kind < 6:
		g.b.WriteString(props + " " + g.flow(2, indent) + g.comment() + g.eol)
	case kind == 6 && props == "" && g.anchors > 0 && g.chance(2):
		g.b.WriteString(fmt.Sprintf(" *a%d", g.anchors) + g.comment() + g.eol)
	case kind == 7:
		g.b.WriteString(props)
		g.blockScalar(parent, indent)
	case kind == 8 && g.chance(2):
		g.b.WriteString(props + g.comment() + g.eol)
	default:
		g.b.WriteString(props + g.pick(" ", "  ") + g.scalar(indent) + g.comment() + g.eol)
	}
}

func (g *generator) blockSeq(indent, depth int) {
	for range 1 + g.r.IntN(3) {
		g.b.WriteString(g.indent(indent) + "-")
		if depth > 0 && g.chance(3) {
			n := 1 + g.r.IntN(3)
			g.b.WriteString(g.indent(n))
			g.blockMap(indent+n+1, depth-1, "")
			continue
		}
		g.value(indent, indent+2, depth)
	}
}

func (g *generator) blockScalar(parent, indent int) {
	head := g.pick("|", ">") + g.pick("", "-", "+")
	extra := ""
	if g.chance(5) && indent-parent <= 9 {
		head += fmt.Sprint(indent - parent)
		extra = g.pick("", " ")
	}
	g.b.WriteString(" " + head + g.pick("", " # head") + g.eol)
	for i := range 1 + g.r.IntN(3) {
		g.b.WriteString(g.indent(indent) + g.pick(extra, "") + g.pick("text: x", "# no comment", "- it's", "ä\tß", "words and words") + g.eol)
		if i > 0 && g.chance(3) {
			g.b.WriteString(g.pick("", g.indent(indent)) + g.eol)
		}
	}
}

func (g *generator) scalar(indent int) string {
	next := g.eol + g.indent(indent)
	return g.pick("plain", "two words", "v1.2.3", "12", "1.50", "0x1F", "true", "~", "null", "on", "1_000", "2024-01-01",
		`"dq"`, `"1.0"`, `"a \" b"`, `"uni \u00e4 \x41"`, "'sq'", "'it''s'", "''", `""`, "http://x.example.com:80/#a",
		"a"+next+"b"+g.eol+next+"c", "\"a"+next+"b \\"+next+"c\"", "'a"+next+g.eol+next+"b'", "!vault secret", "!!str 5", "-1", "äöü 😀")
}

func (g *generator) flow(depth, indent int) string {
	space := g.pick("", " ", g.eol+g.indent(indent))
	sep := "," + g.pick(" ", "", g.eol+g.indent(indent))
	item := func() string {
		if depth > 0 && g.chance(3) {
			return g.flow(depth-1, indent)
		}
		return g.pick("a", "b c", "1", `"x, y"`, "'}'", "null", "v1", `"q"`)
	}
	var parts []string
	if g.chance(2) {
		for range g.r.IntN(4) {
			parts = append(parts, item())
		}
		return "[" + space + strings.Join(parts, sep) + space + "]"
	}
	for i := range g.r.IntN(4) {
		k := fmt.Sprintf("f%d", i)
		switch g.r.IntN(5) {
		case 0:
			parts = append(parts, `"`+k+`":`+item())
		case 1:
			parts = append(parts, k)
		default:
			parts = append(parts, k+": "+item())
		}
	}
	return "{" + space + strings.Join(parts, sep) + space + "}"
}

// paths lists the path of every value of a text that may be set.
func paths(docs []*yaml.Node, scalarsOnly bool) []string {
	var out []string
	var walk func(n *yaml.Node, at string)
	walk = func(n *yaml.Node, at string) {
		if n.Kind == yaml.ScalarNode || !scalarsOnly && n.Kind != yaml.AliasNode {
			out = append(out, at)
		}
		switch n.Kind {
		case yaml.MappingNode:
			seen := map[string]int{}
			for i := 0; i+1 < len(n.Content); i += 2 {
				seen[n.Content[i].Value]++
			}
			for i := 0; i+1 < len(n.Content); i += 2 {
				k := n.Content[i]
				if k.Kind == yaml.ScalarNode && !isMerge(k) && seen[k.Value] == 1 {
					walk(n.Content[i+1], at+"."+fmt.Sprintf("%q", k.Value))
				}
			}
		case yaml.SequenceNode:
			for i, c := range n.Content {
				walk(c, fmt.Sprintf("%s[%d]", at, i))
			}
		}
	}
	for i, d := range docs {
		walk(d.Content[0], fmt.Sprintf("$[%d]", i))
	}
	return out
}

// values are new values of every kind and every need for quotes.
func values() []any {
	return []any{"x", "1.0", "on", "", "a b", "it's \"q\"", "k: v # n", "l1\nl2\n", "l1\n\n l2", " lead", "ä\u2028ß\u0085", "\ttab", 7, -1.5, true, nil, "{x}", "a,b", "&x", "- y", "|", "'", "---"}
}

// setAndBack checks, for one value, that a set changes only its own lines and that setting the old source
// text back restores every byte. It reports whether the value could be set.
func setAndBack(t *testing.T, src []byte, path string, value any) bool {
	t.Helper()
	_, pos, err := Get(src, path)
	if err != nil {
		if promo.CodeOf(err) == promo.CodeInternal {
			t.Fatalf("Get(%q): %v\n%s", path, err, src)
		}
		return false
	}
	out, err := Set(src, path, value)
	if promo.CodeOf(err) == promo.CodeConfiguration && err != nil {
		return false // an explicit tag, an anchor
	}
	if err != nil {
		t.Fatalf("Set(%q, %#v): %v\n%s", path, value, err, src)
	}
	if !sameElsewhere(t, src, out, path) {
		return false
	}
	again, err := Set(out, path, value)
	if err != nil || !bytes.Equal(again, out) {
		t.Fatalf("Set(%q, %#v) twice differs: %v\n%s\n---\n%s", path, value, err, out, again)
	}
	back, err := Set(out, path, pos.Raw)
	if err != nil {
		t.Fatalf("setting %q back to %q: %v\nfrom:\n%s\nto:\n%s", path, pos.Raw, err, src, out)
	}
	if !bytes.Equal(back, src) {
		t.Fatalf("set %q to %#v and back to %q:\n%q\nbecame\n%q", path, value, pos.Raw, src, back)
	}
	return true
}

// sameElsewhere demands that everything before and after the value is the same bytes. It returns false for a
// key in braces that has got its colon ("{a}" to "{a: 1}"): that one stays when the value goes.
func sameElsewhere(t *testing.T, src, out []byte, path string) bool {
	t.Helper()
	colon := false
	extent := func(b []byte) span {
		p, err := parsePath(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parseFile(b)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := f.document(p)
		if err != nil {
			t.Fatal(err)
		}
		w, err := f.walk(doc, p)
		if err != nil {
			t.Fatal(err)
		}
		s, err := f.span(w.place)
		if err != nil {
			t.Fatal(err)
		}
		colon = w.place.colon || !w.place.flow
		return s
	}
	b, a := extent(out), extent(src)
	if a.start == a.end {
		b.props = a.props
	}
	if !bytes.Equal(src[:a.props], out[:b.props]) || !bytes.Equal(src[a.end:], out[b.end:]) {
		t.Fatalf("setting %q changed bytes outside the value:\n%q\nbecame\n%q", path, src, out)
	}
	return colon || a.start != a.end
}

func TestSetAndBackOnRandomFiles(t *testing.T) {
	t.Parallel()
	files := 3000
	if testing.Short() {
		files = 300
	}
	done := 0
	for seed := range files {
		src := generate(uint64(seed))
		docs, err := parseDocuments(src)
		if err != nil {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(seed), 2))
		all := paths(docs, true)
		for range min(len(all), 6) {
			if setAndBack(t, src, all[r.IntN(len(all))], values()[r.IntN(len(values()))]) {
				done++
			}
		}
	}
	if done < files {
		t.Errorf("only %d values of %d files could be set: the generator is broken", done, files)
	}
}

// TestBackByValue sets a value of the same kind and then the old value itself, not its source text: where
// the style can hold both and the old one was written the usual way, that restores every byte too.
func TestBackByValue(t *testing.T) {
	t.Parallel()
	for old, value := range map[string]any{
		"plain": "other", `"1.0"`: "2.0", "'it''s'": "x", "12": 13, "true": false, "null": "x", "|\n  l1\n  l2": "x\ny\n",
		">-\n  l1": "x", "|+\n  l1\n": "x\n\n", "[a, b]": []any{"c"}, "{a: 1}": map[string]any{"b": 2},
	} {
		src := []byte("k:\n a: " + strings.ReplaceAll(old, "\n", "\n ") + "\n b: 1 # end\n")
		src = bytes.ReplaceAll(src, []byte("\n \n"), []byte("\n\n"))
		v, _, err := Get(src, "k.a")
		if err != nil {
			t.Fatal(err)
		}
		out, err := Set(src, "k.a", value)
		if err != nil {
			t.Fatal(err)
		}
		back, err := Set(out, "k.a", v)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(back, src) {
			t.Errorf("%q set to %v and back by value: %q, by way of %q", src, value, back, out)
		}
	}
}

func TestDisjointEditsCommute(t *testing.T) {
	t.Parallel()
	done := 0
	for seed := range uint64(1500) {
		src := generate(seed)
		docs, err := parseDocuments(src)
		if err != nil {
			continue
		}
		all := paths(docs, true)
		if len(all) < 2 {
			continue
		}
		r := rand.New(rand.NewPCG(seed, 3))
		a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
		va, vb := values()[r.IntN(len(values()))], values()[r.IntN(len(values()))]
		if a == b {
			continue
		}
		one, err1 := both(src, a, va, b, vb)
		two, err2 := both(src, b, vb, a, va)
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%q and %q: %v but %v the other way round\n%s", a, b, err1, err2, src)
		}
		if !bytes.Equal(one, two) {
			t.Fatalf("%q=%#v and %q=%#v don't commute on\n%q\n%q\n%q", a, va, b, vb, src, one, two)
		}
		done++
	}
	if done < 500 {
		t.Errorf("only %d pairs were tried", done)
	}
}

func both(src []byte, a string, va any, b string, vb any) ([]byte, error) {
	out, err := Set(src, a, va)
	if err != nil {
		return nil, err
	}
	return Set(out, b, vb)
}

// TestMakeAndRemove adds a key to every map and an item to every list, and removes it again.
func TestMakeAndRemove(t *testing.T) {
	t.Parallel()
	done := 0
	for seed := range uint64(1500) {
		src := generate(seed)
		docs, err := parseDocuments(src)
		if err != nil {
			continue
		}
		for _, path := range paths(docs, false) {
			old, _, err := Get(src, path)
			if err != nil {
				continue
			}
			var out []byte
			made := path + ".brandNew"
			switch v := old.(type) {
			case map[string]any:
				out, err = Set(src, made, "x")
			case []any:
				made = fmt.Sprintf("%s[%d]", path, len(v))
				out, err = Append(src, path, map[string]any{"x": 1, "z": "w"})
			default:
				continue
			}
			if promo.CodeOf(err) == promo.CodeConfiguration && err != nil {
				continue // an implicit pair in brackets
			}
			if err != nil {
				t.Fatalf("adding %q: %v\n%s", made, err, src)
			}
			back, err := Remove(out, made)
			if err != nil {
				t.Fatalf("removing %q: %v\n%s", made, err, out)
			}
			if !bytes.Equal(back, src) && !emptyish(old) && !bytes.ContainsAny(out[max(0, len(src)-200):], "|>") {
				t.Fatalf("added and removed %q:\n%q\n%q\n%q", made, src, out, back)
			}
			done++
		}
	}
	if done < 1000 {
		t.Errorf("only %d collections were tried", done)
	}
}

func emptyish(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return false
}

// FuzzSet feeds any text: whatever parses can be set and set back, or is refused with a reason.
func FuzzSet(f *testing.F) {
	for seed := range uint64(40) {
		f.Add(generate(seed), uint16(seed), uint8(seed))
	}
	for _, s := range []string{"? a\n: b\n", "a: !<tag:yaml.org,2002:str> x\n", "- - - a\n", "%YAML 1.1\n---\na: b\n", "{? a : b, : c}", "[a: b, c]", "\"a\":b\n"} {
		f.Add([]byte(s), uint16(0), uint8(0))
	}
	f.Fuzz(func(t *testing.T, src []byte, which uint16, value uint8) {
		file, err := parseFile(src)
		if err != nil {
			return
		}
		all := paths(file.docs, true)
		if len(all) == 0 || len(src) > 10_000 {
			return
		}
		path, v := all[int(which)%len(all)], values()[int(value)%len(values())]
		out, err := Set(src, path, v)
		if err != nil {
			return // refused, and nothing was changed
		}
		if !sameElsewhere(t, src, out, path) {
			return
		}
		_, pos, err := Get(src, path)
		if err != nil || pos.Raw == "" && strings.HasSuffix(path, "]") && strings.Count(path, "[") == 1 {
			return // an empty document that got a value has nothing that it could be cut off from
		}
		back, err := Set(out, path, pos.Raw)
		if err == nil && !bytes.Equal(back, src) {
			t.Fatalf("%q set to %#v and back:\n%q\n%q\n%q", path, v, src, out, back)
		}
	})
}
