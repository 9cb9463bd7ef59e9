package spec

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// address checks a URL: its scheme, that it names a host, and that nobody wrote a password into it.
func (c *check) address(path, text string, schemes ...string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" && u.Scheme != "file":
		c.report(path, "url", fmt.Sprintf("%q is no address", redacted(text)), "write it as https://host/path")
	case !slices.Contains(schemes, u.Scheme):
		c.report(path, "url", fmt.Sprintf("scheme %q is not allowed here", u.Scheme), "use "+strings.Join(schemes, ", "))
	default:
		if password, has := u.User.Password(); has {
			d := c.doc.at(path, "url", "address holds a password", "take it out and name a secret under auth:")
			d.Source = strings.ReplaceAll(d.Source, password, "***")
			d.Column = min(d.Column, utf8.RuneCountInString(d.Source))
			*c.diags = append(*c.diags, d)
		}
	}
}

// redacted keeps what may be a password out of messages.
func redacted(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		return "…" + text[i:]
	}
	return text
}
