package yamledit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// file is parsed text: the nodes give line and column, lines turns them into byte offsets.
type file struct {
	src   []byte
	lines []int // byte offset of each line's first character
	docs  []*yaml.Node
	eol   string // the line end that new lines get
	json  bool   // the whole text is JSON and must stay so
}

const bom = "\ufeff"

// parseFile reads every document of the text.
func parseFile(src []byte) (*file, error) {
	if len(src) > MaxBytes {
		return nil, promo.Errorf(promo.CodeConfiguration, "the file has %d bytes", len(src)).
			WithHint("at most %d are read", MaxBytes)
	}
	if !utf8.Valid(src) || bytes.IndexByte(src, 0) >= 0 {
		return nil, promo.Errorf(promo.CodeConfiguration, "the file isn't UTF-8 text").WithHint("only UTF-8 is edited")
	}
	docs, err := parseDocuments(src)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "not readable as YAML: %w", err)
	}
	f := &file{src: src, docs: docs, eol: "\n", json: json.Valid(src)}
	f.index()
	return f, nil
}

// parseDocuments turns the parser's panics into errors: it reads files that anyone may have written.
func parseDocuments(src []byte) (docs []*yaml.Node, err error) {
	defer func() {
		if r := recover(); r != nil {
			docs, err = nil, fmt.Errorf("the parser gave up: %v", r)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for {
		var n yaml.Node
		if err := dec.Decode(&n); errors.Is(err, io.EOF) {
			return docs, nil
		} else if err != nil {
			return nil, err
		}
		docs = append(docs, &n)
	}
}

// index finds the line starts. The parser's lines end at CR, LF, CRLF, NEL, LS and PS.
func (f *file) index() {
	start := 0
	if bytes.HasPrefix(f.src, []byte(bom)) {
		start = len(bom)
	}
	f.lines = []int{start}
	for i := start; i < len(f.src); {
		n := f.breakAt(i)
		if n == 0 {
			i++
			continue
		}
		if len(f.lines) == 1 && f.src[i] != 0xC2 && f.src[i] != 0xE2 {
			f.eol = string(f.src[i : i+n])
		}
		i += n
		f.lines = append(f.lines, i)
	}
}

// breakAt returns the length of the line break at i, 0 if there is none.
func (f *file) breakAt(i int) int {
	if i >= len(f.src) {
		return 0
	}
	switch f.src[i] {
	case '\n':
		return 1
	case '\r':
		if i+1 < len(f.src) && f.src[i+1] == '\n' {
			return 2
		}
		return 1
	case 0xC2:
		if bytes.HasPrefix(f.src[i:], []byte("\u0085")) {
			return 2
		}
	case 0xE2:
		if bytes.HasPrefix(f.src[i:], []byte("\u2028")) || bytes.HasPrefix(f.src[i:], []byte("\u2029")) {
			return 3
		}
	}
	return 0
}

// offset turns a node's line and column into a byte offset.
func (f *file) offset(line, column int) (int, error) {
	if line < 1 || line > len(f.lines) {
		return 0, f.lost(line, column)
	}
	i := f.lines[line-1]
	for range column - 1 {
		if i >= len(f.src) {
			return 0, f.lost(line, column)
		}
		_, n := utf8.DecodeRune(f.src[i:])
		i += n
	}
	return i, nil
}

// lost reports a place that could not be found again in the text: our mistake, and no edit is made.
func (f *file) lost(line, column int) error {
	return promo.Errorf(promo.CodeInternal, "line %d, column %d: the extent of the value there can't be told", line, column).
		WithHint("nothing was changed; write the value in a simpler style")
}

func (f *file) lostAt(i int) error {
	line, column := f.position(i)
	return f.lost(line, column)
}

// position is the inverse of offset.
func (f *file) position(i int) (line, column int) {
	line = max(1, sort.Search(len(f.lines), func(n int) bool { return f.lines[n] > i }))
	start := min(f.lines[line-1], i)
	return line, utf8.RuneCount(f.src[start:i]) + 1
}

// lineStart returns the start of the line that holds i.
func (f *file) lineStart(i int) int {
	line, _ := f.position(i)
	return f.lines[line-1]
}

// lineEnd returns where the text of the line that holds i ends, before its break.
func (f *file) lineEnd(i int) int {
	for i < len(f.src) && f.breakAt(i) == 0 {
		i++
	}
	return i
}

// nextLine returns the start of the line after the one that holds i, or the end of the text.
func (f *file) nextLine(i int) int {
	i = f.lineEnd(i)
	return i + f.breakAt(i)
}

// spaceAt returns the length of the white space or line break at i, 0 if there is none.
func (f *file) spaceAt(i int) int {
	if i < len(f.src) && (f.src[i] == ' ' || f.src[i] == '\t') {
		return 1
	}
	if bytes.HasPrefix(f.src[min(i, len(f.src)):], []byte(bom)) {
		return len(bom)
	}
	return f.breakAt(i)
}

// skip passes white space, line breaks and comments.
func (f *file) skip(i int) int {
	for i < len(f.src) {
		if n := f.spaceAt(i); n > 0 {
			i += n
		} else if f.src[i] == '#' {
			i = f.lineEnd(i)
		} else {
			break
		}
	}
	return i
}

// blank reports whether from..to holds only white space and line breaks.
func (f *file) blank(from, to int) bool {
	for i := from; i < to; {
		n := f.spaceAt(i)
		if n == 0 {
			return false
		}
		i += n
	}
	return true
}

func (f *file) at(i int) byte {
	if i < 0 || i >= len(f.src) {
		return 0
	}
	return f.src[i]
}
