package git

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/davit-cd/davit/internal/promo"
)

// maxPath is the longest path that all common systems can check out.
const maxPath = 4096

// splitPath checks a path from outside and cuts it into names. "" and "." are the root and give none.
func splitPath(p string) ([]string, error) {
	trimmed := strings.TrimSuffix(p, "/")
	if p == "" || trimmed == "." {
		return nil, nil
	}
	switch {
	case len(p) > maxPath:
		return nil, promo.Errorf(promo.CodeConfiguration, "path %q… is longer than %d bytes", p[:64], maxPath)
	case strings.HasPrefix(p, "/"):
		return nil, promo.Errorf(promo.CodeConfiguration, "path %q is absolute", p).WithHint("paths are from the repository's root, without a slash at the start")
	case !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return nil, promo.Errorf(promo.CodeConfiguration, "path %q holds a control character, a backslash or broken UTF-8", p)
	case path.Clean(trimmed) != trimmed || trimmed == ".." || strings.HasPrefix(trimmed, "../"):
		return nil, promo.Errorf(promo.CodeConfiguration, "path %q leaves the repository or is not in its shortest form", p)
	}
	names := strings.Split(trimmed, "/")
	for _, name := range names {
		if isDotGit(name) {
			return nil, promo.Errorf(promo.CodeConfiguration, "path %q has %q in it, which belongs to git itself", p, name)
		}
	}
	return names, nil
}

// isDotGit reports whether some file system would take the name for ".git": letter case, dots and spaces at the
// end, short names, streams and characters that are ignored.
func isDotGit(name string) bool {
	visible := strings.Map(func(r rune) rune {
		switch {
		case r >= 0x200c && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x206a && r <= 0x206f, r == 0xfeff:
			return -1 // what HFS+ leaves out when it compares names
		}
		return r
	}, name)
	visible, _, _ = strings.Cut(visible, ":") // NTFS streams
	visible = strings.TrimRight(visible, ". ")
	return strings.EqualFold(visible, ".git") || strings.EqualFold(visible, "git~1")
}

// under reports whether p is dir or below it; every path is under the root.
func under(p, dir string) bool {
	dir = strings.TrimSuffix(dir, "/")
	return dir == "" || dir == "." || p == dir || strings.HasPrefix(p, dir+"/")
}
