package yamledit

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

func TestSet(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		in     string
		path   string
		value  any
		want   string
	}{
		"Plain":            {"a plain string stays plain", "a: x # c\nb: y\n", "a", "z", "a: z # c\nb: y\n"},
		"PlainNeedsQuotes": {"a version that reads as a number is quoted", "tag: v1\n", "tag", "1.0", "tag: \"1.0\"\n"},
		"PlainOn":          {"a boolean of YAML 1.1 is quoted", "tag: v1\n", "tag", "on", "tag: \"on\"\n"},
		"PlainNull":        {"null as a string is quoted", "tag: v1\n", "tag", "null", "tag: \"null\"\n"},
		"PlainExponent":    {"a commit that reads as a number is quoted", "tag: v1\n", "tag", "12e3456", "tag: \"12e3456\"\n"},
		"PlainOctal":       {"leading zeros stay a string", "tag: v1\n", "tag", "0123", "tag: \"0123\"\n"},
		"PlainColon":       {"a string with a colon and space is quoted", "tag: v1\n", "tag", "a: b", "tag: \"a: b\"\n"},
		"PlainComment":     {"a string that looks like a comment is quoted", "tag: v1\n", "tag", "a #b", "tag: \"a #b\"\n"},
		"PlainImage":       {"an image reference needs no quotes", "image: a\n", "image", "reg.example.com:5000/a/b:v1@sha256:ab", "image: reg.example.com:5000/a/b:v1@sha256:ab\n"},
		"Double":           {"double quotes stay", `a: "x"` + "\n", "a", "y", `a: "y"` + "\n"},
		"Single":           {"single quotes stay", "a: 'x'\n", "a", "it's", "a: 'it''s'\n"},
		"SingleToDouble":   {"what single quotes can't hold gets double ones", "a: 'x'\n", "a", "l1\nl2", `a: "l1\nl2"` + "\n"},
		"Number":           {"a number stays a number", "replicas: 3 # pods\n", "replicas", 5, "replicas: 5 # pods\n"},
		"FloatWhole":       {"JSON's 5.0 is 5", "replicas: 3\n", "replicas", 5.0, "replicas: 5\n"},
		"Float":            {"fractions stay", "w: 3\n", "w", 0.25, "w: 0.25\n"},
		"StringOverNumber": {"a string of digits is written as a string", "tag: 3\n", "tag", "5", "tag: \"5\"\n"},
		"Bool":             {"booleans", "on: yes\nenabled: false\n", "enabled", true, "on: yes\nenabled: true\n"},
		"Same":             {"an equal value changes nothing", "a: 0x10\n", "a", 16, "a: 0x10\n"},
		"CRLF":             {"line ends stay", "a:\r\n  b: x\r\nc: y\r\n", "a.b", "z", "a:\r\n  b: z\r\nc: y\r\n"},
		"CRLFNewKey":       {"new lines get the file's line end", "a:\r\n  b: x\r\nc: y\r\n", "a.d", "z", "a:\r\n  b: x\r\n  d: z\r\nc: y\r\n"},
		"BOM":              {"a byte order mark stays", "\ufeffa: x\nb: y\n", "a", "z", "\ufeffa: z\nb: y\n"},
		"NoFinalBreak":     {"a missing final line break stays missing", "a: x", "a", "z", "a: z"},
		"NoFinalBreakKey":  {"also behind a new key", "a: x", "b", "z", "a: x\nb: z"},
		"TrailingSpace":    {"trailing white space stays", "a: x  \t\nb: y\n", "a", "z", "a: z  \t\nb: y\n"},
		"TabInValue":       {"tabs around stay", "a:\tx\n", "a", "w", "a:\tw\n"},
		"Flow":             {"flow style", "a: {b: c, d: [e, f]}\n", "a.d[1]", "g", "a: {b: c, d: [e, g]}\n"},
		"FlowQuoted":       {"what flow style forbids is quoted", "a: {b: c}\n", "a.b", "x, y", "a: {b: \"x, y\"}\n"},
		"FlowNewKey":       {"new key in flow style", "a: {b: c}\n", "a.d", "e", "a: {b: c, d: e}\n"},
		"FlowEmpty":        {"new key in an empty flow map", "a: {}\n", "a.b.c", 1, "a: {b: {c: 1}}\n"},
		"FlowSpaces":       {"inner spaces stay", "a: { b: c }\n", "a.d", "e", "a: { b: c, d: e }\n"},
		"FlowMultiLine":    {"one entry a line stays so", "a: {\n  b: c, # x\n  d: e # y\n}\n", "a.f", "g", "a: {\n  b: c, # x\n  d: e, # y\n  f: g\n}\n"},
		"FlowTrailing":     {"a trailing comma stays", "a: [\n  b,\n  c,\n]\nd: {\n  x: y,\n}\n", "d.z", 1, "a: [\n  b,\n  c,\n]\nd: {\n  x: y,\n  z: 1,\n}\n"},
		"FlowNull":         {"a key without a colon gets a value", "a: {b, c: d}\n", "a.b", "x", "a: {b: x, c: d}\n"},
		"FlowNullColon":    {"an empty value gets one", "a: {b: , c: d}\n", "a.b", "x", "a: {b: x , c: d}\n"},
		"JSON":             {"JSON stays JSON", "{\"a\": {\"b\": 1}}\n", "a.b", "on", "{\"a\": {\"b\": \"on\"}}\n"},
		"JSONNewKey":       {"new keys of JSON are quoted", "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n", "a.c", "v", "{\n  \"a\": {\n    \"b\": 1,\n    \"c\": \"v\"\n  }\n}\n"},
		"JSONTight":        {"compact JSON stays compact", `{"a":1,"b":2}`, "c", 3, `{"a":1,"b":2,"c":3}`},
		"JSONList":         {"values in JSON", `{"a": [1]}`, "a[0]", "x", `{"a": ["x"]}`},
		"Literal":          {"a literal block keeps header and indentation", "a: |  # note\n    one\n    two\n\nb: 1\n", "a", "three\nfour\n", "a: |  # note\n    three\n    four\n\nb: 1\n"},
		"LiteralStrip":     {"the sign for final breaks follows the value", "a: |\n  one\nb: 1\n", "a", "two", "a: |-\n  two\nb: 1\n"},
		"LiteralCRLF":      {"blocks get the file's line end", "a: |\r\n  one\r\nb: 1\r\n", "a", "x\ny\n", "a: |\r\n  x\r\n  y\r\nb: 1\r\n"},
		"LiteralIndicator": {"an explicit indentation stays", "a: |2\n   one\nb: 1\n", "a", " two\nthree\n", "a: |2\n   two\n  three\nb: 1\n"},
		"LiteralKeep":      {"kept final breaks are part of the value", "a: |+\n  one\n\n\nb: 1\n", "a", "x\n\n", "a: |+\n  x\n\nb: 1\n"},
		"LiteralOdd":       {"a value that no block can hold is quoted", "a: |\n  one\nb: 1\n", "a", "x\u0007", "a: \"x\\u0007\"\nb: 1\n"},
		"Folded":           {"folded text", "a: >-\n  one\n  two\nb: 1\n", "a", "x\ny", "a: >-\n  x\n\n  y\nb: 1\n"},
		"MultiLinePlain":   {"plain text of several lines", "a: one\n  two\n\n  three # c\nb: 1\n", "a", "x", "a: x # c\nb: 1\n"},
		"MultiLineDouble":  {"quoted text of several lines", "a: \"one \\\n  two\\\"\n  three\" # c\nb: 1\n", "a", "x", "a: \"x\" # c\nb: 1\n"},
		"MultiLineSingle":  {"", "a: 'one\n\n  it''s' # c\nb: 1\n", "a", "x", "a: 'x' # c\nb: 1\n"},
		"List":             {"list items by index", "a:\n- x\n- y\n", "a[1]", "z", "a:\n- x\n- z\n"},
		"ListMatch":        {"list items by name", "c:\n  - image: a:1 # first\n    name: web\n  - name: db\n    image: b\n", "c[name=web].image", "a:2", "c:\n  - image: a:2 # first\n    name: web\n  - name: db\n    image: b\n"},
		"ListMatchQuoted":  {"selectors may be quoted", "c:\n- {name: 'a]b', v: 1}\n", `c[name="a]b"].v`, 2, "c:\n- {name: 'a]b', v: 2}\n"},
		"ListNested":       {"lists of lists", "- - a\n  - b\n- - c\n", "[0][1]", "x", "- - a\n  - x\n- - c\n"},
		"ListNewKey":       {"a new key in an item", "c:\n- name: a\n- name: b\n", "c[0].v", 1, "c:\n- name: a\n  v: 1\n- name: b\n"},
		"QuotedKey":        {"keys with dots", "a:\n  b.c: x\n  'b.d': y\n", `a."b.d"`, "z", "a:\n  b.c: x\n  'b.d': z\n"},
		"NumberKey":        {"keys that are numbers", "ports:\n  80: a\n", "ports.80", "b", "ports:\n  80: b\n"},
		"Empty":            {"an empty text", "", "a.b", 1, "a:\n  b: 1\n"},
		"OnlyComment":      {"a text of comments", "# hi\n", "a", 1, "# hi\na: 1\n"},
		"OnlyMarker":       {"an empty document", "---\n", "a.b", 1, "---\na:\n  b: 1\n"},
		"NullValue":        {"a key without value", "a: # c\nb: 1\n", "a", "x", "a: x # c\nb: 1\n"},
		"NullAtEnd":        {"a key without value at the end", "a:", "a", "x", "a: x"},
		"NullToMap":        {"a key without value gets a map below", "s:\n    x: 1\na: # c\nb: 1\n", "a.k", "v", "s:\n    x: 1\na: # c\n    k: v\nb: 1\n"},
		"TildeToMap":       {"null gives way to a map", "a: ~\nb: 1\n", "a.k", "v", "a:\n  k: v\nb: 1\n"},
		"TildeCommentMap":  {"and keeps its comment", "a: ~ # c\nb: 1\n", "a.k", "v", "a:  # c\n  k: v\nb: 1\n"},
		"ItemNullToMap":    {"an empty item gets a map", "a:\n-\n- x\n", "a[0].k", "v", "a:\n- k: v\n- x\n"},
		"DeepNewKeys":      {"several missing keys", "a:\n   b: 1\n", "a.c.d.e", "x", "a:\n   b: 1\n   c:\n      d:\n         e: x\n"},
		"NewKeyNested":     {"behind a nested last value, before the next key", "a:\n  b:\n    c: 1 # x\n  # foot\nz: 1\n", "a.m", 2, "a:\n  b:\n    c: 1 # x\n  m: 2\n  # foot\nz: 1\n"},
		"NewKeyQuotes":     {"neighbours' quotes", "a:\n  b: 'x'\n  c: 'y'\n", "a.d", "z", "a:\n  b: 'x'\n  c: 'y'\n  d: 'z'\n"},
		"NewKeyBlock":      {"behind a block scalar", "a: |\n  x\n\nb: |\n  y\n", "c", 1, "a: |\n  x\n\nb: |\n  y\nc: 1\n"},
		"NewMap":           {"a new map with a list", "a: 1\n", "b", map[string]any{"l": []any{"x", map[string]any{"k": "v", "j": 2}}, "e": []any{}}, "a: 1\nb:\n  e: []\n  l:\n  - x\n  - j: 2\n    k: v\n"},
		"ReplaceMap":       {"a whole map", "a:\n  b: 1\n  c: 2\nd: 3\n", "a", map[string]any{"x": "w"}, "a:\n  x: w\nd: 3\n"},
		"ReplaceList":      {"a whole list", "a:\n- 1\n- 2\nd: 3\n", "a", []string{"x", "w"}, "a:\n- x\n- w\nd: 3\n"},
		"ReplaceEmpty":     {"an empty list", "a: # c\n- 1\n- 2\nd: 3\n", "a", []any{}, "a: [] # c\nd: 3\n"},
		"Anchor":           {"the node's own anchor stays", "a: &t v1\nb: *t\n", "a", "v2", "a: &t v2\nb: *t\n"},
		"AnchorNull":       {"an anchored null", "a: &t\nb: *t\n", "a", "v2", "a: &t v2\nb: *t\n"},
		"BelowAnchor":      {"a value below an anchor is changed where it is written", "a: &t\n  i: v1\nb: *t\n", "a.i", "v2", "a: &t\n  i: v2\nb: *t\n"},
		"Merge":            {"an own key overrides an inherited one", "b: &b {i: 1}\na:\n  <<: *b\n", "a.i", 2, "b: &b {i: 1}\na:\n  <<: *b\n  i: 2\n"},
		"Tag":              {"tags of others stay", "a: !vault old\n", "a", "new", "a: !vault new\n"},
		"StrTag":           {"the string tag stays", "a: !!str 5\n", "a", "x", "a: !!str x\n"},
		"Documents":        {"the document that has the key", "a: 1\n---\nb: 1\n...\n---\nc: 1\n", "b", 2, "a: 1\n---\nb: 2\n...\n---\nc: 1\n"},
		"DocumentIndex":    {"a document by index", "a: 1\n---\na: 1\n", "$[1].a", 2, "a: 1\n---\na: 2\n"},
		"Explicit":         {"explicit keys", "? a\n: x\n? b\n: y\n", "a", "z", "? a\n: z\n? b\n: y\n"},
		"Unicode":          {"columns count characters", "{ä: ö, ü: 😀, x: y}\n", "x", "ß", "{ä: ö, ü: 😀, x: ß}\n"},
		"URL":              {"colons and hashes inside words", "u: http://a/b#c\nv: 1\n", "u", "http://x:80/#y", "u: http://x:80/#y\nv: 1\n"},
		"Raw":              {"source text goes in as it is", "a: \"x\" # c\n", "a", Raw("0x1F"), "a: 0x1F # c\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Set([]byte(tc.in), tc.path, tc.value)
			if err != nil {
				t.Fatalf("%s: Set(%q, %v): %v", tc.reason, tc.path, tc.value, err)
			}
			if d := cmp.Diff(tc.want, string(got)); d != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, d)
			}
		})
	}
}

func TestSetRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		in     string
		path   string
		value  any
		code   promo.Code
		text   string
	}{
		"MapForScalar":   {"kinds", "a: 1\nb: x\n", "b", map[string]any{"c": 1}, promo.CodeConfiguration, "line 2, column 4"},
		"ScalarForMap":   {"kinds", "a:\n  b: 1\n", "a", "x", promo.CodeConfiguration, "line 2, column 3"},
		"ListForMap":     {"kinds", "a: {}\n", "a", []any{1}, promo.CodeConfiguration, "line 1, column 4"},
		"ThroughScalar":  {"a scalar has no keys", "a: x\n", "a.b", 1, promo.CodeConfiguration, "line 1, column 4"},
		"KeyOfList":      {"a list has no keys", "a: [x]\n", "a.b", 1, promo.CodeConfiguration, "is a list"},
		"IndexOfMap":     {"a map has no items", "a: {b: 1}\n", "a[0]", 1, promo.CodeConfiguration, "is a map"},
		"NoItem":         {"items aren't made", "a: [x]\n", "a[1]", 1, promo.CodeNotFound, "1 items"},
		"NoMatch":        {"the names there are listed", "a: [{name: x}]\n", "a[name=y]", 1, promo.CodeNotFound, `"x"`},
		"TwoMatches":     {"ambiguous selectors", "a: [{name: x}, {name: x}]\n", "a[name=x].v", 1, promo.CodeConfiguration, "two items"},
		"Alias":          {"an alias is another's value", "a: &x 1\nb: *x\n", "b", 2, promo.CodeConfiguration, "alias *x"},
		"ThroughAlias":   {"also on the way", "a: &x {k: 1}\nb: *x\n", "b.k", 2, promo.CodeConfiguration, "line 1"},
		"ThroughMerge":   {"an own map would hide the inherited one", "a: &x {k: {l: 1, m: 2}}\nb:\n  <<: *x\n", "b.k.l", 2, promo.CodeConfiguration, "merge key"},
		"LostAnchor":     {"an anchor that others need", "a:\n  k: &x 1\nb: *x\n", "a", map[string]any{}, promo.CodeConfiguration, "&x would be lost"},
		"Tag":            {"an explicit type", "a: !!int 5\n", "a", "x", promo.CodeConfiguration, "explicit tag"},
		"TwoDocuments":   {"ambiguous documents", "a: 1\n---\na: 1\n", "a", 2, promo.CodeConfiguration, "$[0].a"},
		"NoDocument":     {"absent documents", "a: 1\n", "$[3].a", 2, promo.CodeNotFound, "document 3"},
		"Duplicate":      {"duplicate keys", "a: 1\na: 2\n", "a", 3, promo.CodeConfiguration, "lines 1 and 2"},
		"NotYAML":        {"templates aren't YAML", "a: {{ .Values.x }}: y: z\n", "a", 3, promo.CodeConfiguration, "mapping values"},
		"Binary":         {"binary files", "a: \xff\xfe\n", "a", 3, promo.CodeConfiguration, "UTF-8"},
		"Huge":           {"huge files", "a: " + strings.Repeat("x", MaxBytes), "a", 3, promo.CodeConfiguration, "bytes"},
		"BadPath":        {"paths", "a: 1\n", "a..b", 3, promo.CodeConfiguration, "character 3"},
		"OpenBracket":    {"paths", "a: 1\n", "a[0", 3, promo.CodeConfiguration, "isn't closed"},
		"EmptyPath":      {"paths", "a: 1\n", "", 3, promo.CodeConfiguration, "missing"},
		"Unsupported":    {"types", "a: 1\n", "a", struct{}{}, promo.CodeConfiguration, "struct"},
		"BadString":      {"invalid text", "a: 1\n", "a", "\xff", promo.CodeConfiguration, "UTF-8"},
		"JSONNaN":        {"JSON has no NaN", `{"a": 1}`, "a", math.NaN(), promo.CodeInternal, "JSON"},
		"RawOtherMeans":  {"raw text that changes more than its value", "a: x\nb: y\n", "a", Raw("x\nc: z"), promo.CodeInternal, ""},
		"RawThroughKind": {"raw needs an existing value", "a: x\n", "c", Raw("x"), promo.CodeNotFound, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Set([]byte(tc.in), tc.path, tc.value)
			check(t, tc.reason, err, tc.code, tc.text)
		})
	}
}

func check(t *testing.T, reason string, err error, code promo.Code, text string) {
	t.Helper()
	var e *promo.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Error(), text) {
		t.Errorf("%s: got error %v, want code %s with %q", reason, err, code, text)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ in, path, want string }{
		"Key":            {"a: 1\nb: 2 # c\nc: 3\n", "b", "a: 1\nc: 3\n"},
		"Nested":         {"a:\n  b:\n    c: 1\n  d: 2\n", "a.b", "a:\n  d: 2\n"},
		"Last":           {"a:\n  b: 1\nc: 2\n", "a.b", "a: {}\nc: 2\n"},
		"LastComment":    {"a: # x\n  b: 1\nc: 2\n", "a.b", "a: {} # x\nc: 2\n"},
		"LastRoot":       {"a: 1\n", "a", "{}\n"},
		"LastItem":       {"a:\n- b\n", "a[0]", "a: []\n"},
		"LastItemOfMap":  {"- a: 1\n", "[0].a", "- {}\n"},
		"Block":          {"a: |\n  x\n  y\nb: 1\n", "a", "b: 1\n"},
		"FirstOfItem":    {"- a: 1\n  b: 2\n- c: 3\n", "[0].a", "- b: 2\n- c: 3\n"},
		"FirstCommented": {"- a: 1 # x\n  b: 2\n", "[0].a", "-  # x\n  b: 2\n"},
		"Item":           {"a:\n- x\n- y # c\n- z\n", "a[1]", "a:\n- x\n- z\n"},
		"Match":          {"a:\n- name: x\n  v: 1\n- name: y\n", "a[name=x]", "a:\n- name: y\n"},
		"EndNoBreak":     {"a: 1\nb: 2", "b", "a: 1"},
		"EndNoBreakCRLF": {"a: 1\r\nb: 2", "b", "a: 1"},
		"FlowFirst":      {"{a: 1, b: 2, c: 3}\n", "a", "{b: 2, c: 3}\n"},
		"FlowLast":       {"[1, 2, 3]\n", "[2]", "[1, 2]\n"},
		"FlowOnly":       {"a: { b: 1 }\n", "a.b", "a: {}\n"},
		"JSON":           {"{\n  \"a\": 1,\n  \"b\": 2\n}\n", "b", "{\n  \"a\": 1\n}\n"},
		"FlowComments":   {"{\n  a: 1, # x\n  b: 2 # y\n}\n", "b", "{\n  a: 1 # x\n   # y\n}\n"},
		"Alias":          {"a: &x 1\nb: *x\n", "b", "a: &x 1\n"},
		"SecondDocument": {"a: 1\n---\nb: 1\nc: 2\n", "c", "a: 1\n---\nb: 1\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Remove([]byte(tc.in), tc.path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, string(got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	_, err := Remove([]byte("a: 1\n"), "b.c")
	check(t, "absent", err, promo.CodeNotFound, `key "b"`)
	_, err = Remove([]byte("a: &x 1\nb: *x\n"), "a")
	check(t, "needed anchor", err, promo.CodeConfiguration, "alias at line 2")
	_, err = Remove([]byte("a: &x {k: 1}\nb: {<<: *x}\n"), "b.k")
	check(t, "inherited", err, promo.CodeConfiguration, "merge key")
	_, err = Remove([]byte("a: 1\n"), "$")
	check(t, "whole document", err, promo.CodeConfiguration, "")
}

func TestAppend(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		in, path string
		value    any
		want     string
	}{
		"Block":       {"a:\n  - x # c\nb: 1\n", "a", "w", "a:\n  - x # c\n  - w\nb: 1\n"},
		"Map":         {"a:\n- name: x\n", "a", map[string]any{"name": "w", "v": 1}, "a:\n- name: x\n- name: w\n  v: 1\n"},
		"Flow":        {"a: [x, y]\n", "a", "z", "a: [x, y, z]\n"},
		"FlowEmpty":   {"a: []\n", "a", map[string]any{"k": "v"}, "a: [{k: v}]\n"},
		"FlowLines":   {"a: [\n  x,\n  y\n]\n", "a", "z", "a: [\n  x,\n  y,\n  z\n]\n"},
		"Absent":      {"l:\n  - 1\nb: 1\n", "a", "x", "l:\n  - 1\nb: 1\na:\n  - x\n"},
		"Null":        {"a:\nb: 1\n", "a", "x", "a:\n- x\nb: 1\n"},
		"Quotes":      {"a:\n- \"x\"\n- \"y\"\n", "a", "z", "a:\n- \"x\"\n- \"y\"\n- \"z\"\n"},
		"NoBreak":     {"a:\n- x", "a", "w", "a:\n- x\n- w"},
		"Nested":      {"- - a\n- - b\n", "[0]", "c", "- - a\n  - c\n- - b\n"},
		"JSON":        {`{"a": ["x"]}`, "a", map[string]any{"k": 1}, `{"a": ["x", {"k": 1}]}`},
		"BehindBlock": {"a:\n- |\n  x\n\n", "a", "w", "a:\n- |\n  x\n- w\n\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Append([]byte(tc.in), tc.path, tc.value)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, string(got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	_, err := Append([]byte("a: {}\n"), "a", 1)
	check(t, "not a list", err, promo.CodeConfiguration, "line 1, column 4")
}

func TestKustomizeImage(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		in   string
		img  Image
		want string
	}{
		"Tag":    {"resources: [a]\nimages:\n- name: app # main\n  newTag: v1\n- name: b\n  newTag: v9\n", Image{Name: "app", NewTag: "v2"}, "resources: [a]\nimages:\n- name: app # main\n  newTag: v2\n- name: b\n  newTag: v9\n"},
		"Absent": {"resources:\n- a\n", Image{Name: "app", NewName: "r.example.com/app", NewTag: "1.0"}, "resources:\n- a\nimages:\n- name: app\n  newName: r.example.com/app\n  newTag: \"1.0\"\n"},
		"Add":    {"images:\n  - name: b\n    newTag: x\n", Image{Name: "app", NewTag: "v1"}, "images:\n  - name: b\n    newTag: x\n  - name: app\n    newTag: v1\n"},
		"Digest": {"images:\n- name: app\n  newTag: v1\n", Image{Name: "app", Digest: "sha256:ab"}, "images:\n- name: app\n  digest: sha256:ab\n"},
		"ToTag":  {"images:\n- name: app\n  digest: sha256:ab\n", Image{Name: "app", NewTag: "v1"}, "images:\n- name: app\n  newTag: v1\n"},
		"Empty":  {"", Image{Name: "app", NewTag: "v1"}, "images:\n- name: app\n  newTag: v1\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := KustomizeImage([]byte(tc.in), tc.img)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, string(got)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	_, err := KustomizeImage([]byte("images: []\n"), Image{Name: "a"})
	check(t, "nothing to set", err, promo.CodeConfiguration, "newTag")
	_, err = KustomizeImage([]byte("- a\n"), Image{Name: "a", NewTag: "b"})
	check(t, "not a kustomization", err, promo.CodeConfiguration, "a list")
}

func TestGet(t *testing.T) {
	t.Parallel()
	src := []byte("a: &x {k: [1, 0x10]}\nb:\n  <<: *x\n  c: 'it''s'\n---\nd:\n")
	cases := map[string]struct {
		want any
		pos  Position
	}{
		"a.k[1]":   {16, Position{1, 15, "0x10"}},
		"b.k[0]":   {1, Position{1, 12, ""}},
		"b.c":      {"it's", Position{4, 6, "'it''s'"}},
		"$[1].d":   {nil, Position{6, 3, ""}},
		"a.k":      {[]any{1, 16}, Position{1, 11, "[1, 0x10]"}},
		"$[1]":     {map[string]any{"d": nil}, Position{6, 1, "d:"}},
		`$[0]."b"`: {map[string]any{"k": []any{1, 16}, "c": "it's"}, Position{3, 3, "<<: *x\n  c: 'it''s'"}},
	}
	for path, tc := range cases {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			got, pos, err := Get(src, path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("value: -want +got:\n%s", d)
			}
			if d := cmp.Diff(tc.pos, pos); d != "" {
				t.Errorf("position: -want +got:\n%s", d)
			}
		})
	}
	_, _, err := Get(src, "b.nope")
	check(t, "absent", err, promo.CodeNotFound, `key "nope"`)
}
