package recipe

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Encode writes a recipe as YAML that ParseFile reads back. Text that is not
// UTF-8 is refused, since YAML cannot hold it.
func (f *File) Encode() ([]byte, error) {
	w := &fileWriter{}
	for line := range strings.SplitSeq(strings.TrimRight(f.Comment, "\n"), "\n") {
		if f.Comment != "" {
			w.line("%s", strings.TrimRight("# "+strings.Map(printableOr, line), " "))
		}
	}
	if f.Name != "" {
		w.line("name: %s", w.quote(f.Name))
	}
	if f.Source != "" {
		w.line("source: %s", w.quote(f.Source))
	}
	if f.Origin != "" {
		w.line("origin: %s", w.quote(f.Origin))
	}
	w.line("groups:")
	for _, g := range f.Groups {
		w.line("  - scheme: %s", w.quote(g.Scheme))
		if len(g.Methods) > 0 {
			quoted := make([]string, len(g.Methods))
			for i, m := range g.Methods {
				quoted[i] = w.quote(m)
			}
			w.line("    methods: [%s]", strings.Join(quoted, ", "))
		}
		w.line("    targets:")
		for _, t := range g.Targets {
			w.line("      - %s", w.quote(t))
		}
	}
	w.patterns("ignore", f.Ignore)
	w.patterns("exemptions", f.Exemptions)
	return []byte(w.text.String()), w.err
}

type fileWriter struct {
	text strings.Builder
	err  error
}

func (w *fileWriter) line(format string, args ...any) { fmt.Fprintf(&w.text, format+"\n", args...) }

func (w *fileWriter) patterns(key string, list []string) {
	if len(list) == 0 {
		return
	}
	w.line("%s:", key)
	for _, p := range list {
		w.line("  - %s", w.quote(p))
	}
}

func printableOr(r rune) rune {
	if !unicode.IsPrint(r) {
		return '�'
	}
	return r
}

// quote leaves plain words as they are, puts what can be printed in single
// quotes, where a backslash is a backslash, and all else in double ones.
func (w *fileWriter) quote(s string) string {
	if !utf8.ValidString(s) {
		w.err = fmt.Errorf("%w: %q is not UTF-8, which YAML cannot hold", ErrFile, s)
		return "''"
	}
	plain, printable := s != "" && isLetter(rune(s[0])), true
	for _, r := range s {
		printable = printable && unicode.IsPrint(r)
		plain = plain && (isLetter(r) || r >= '0' && r <= '9' || r == '-' || r == '_')
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		plain = false
	}
	switch {
	case plain:
		return s
	case printable:
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r <= 0xffff:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			fmt.Fprintf(&b, `\U%08X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }
