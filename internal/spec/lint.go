package spec

// Source is a file's name and text.
type Source struct {
	Name string
	Text []byte
}

// Lint parses the sources and checks them together, and reports every problem at once: what `davit lint` and
// `davit apply` do. existing is as in Check.
func (l *Language) Lint(sources []Source, existing *Definitions) ([]*File, Diagnostics) {
	var files []*File
	var diags Diagnostics
	for _, s := range sources {
		f, found := l.Parse(s.Name, s.Text)
		files = append(files, f)
		diags = append(diags, found...)
	}
	diags = append(diags, l.Check(files, existing)...)
	return files, diags.sorted()
}
