package grade

import (
	"math/big"
	"regexp"
	"strings"
)

// A number: a sign, digits in one row or in groups of three, decimals, an exponent.
var numberForm = regexp.MustCompile(`[-+]?(?:\d{1,3}(?:[,_ '\x{00a0}\x{2009}\x{202f}]\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3}\b)?|[-+]?\.\d+`)

var (
	fraction = regexp.MustCompile(`^([-+]?)\\[dt]?frac\{?(\d{1,30})\}?\{?(\d{1,30})\}?$|^([-+]?)(\d{1,30})/(\d{1,30})$`)
	latex    = strings.NewReplacer("{,}", ",", `\,`, " ", `\!`, "", `\;`, " ", `\ `, " ", "$", "", `\%`, "", `\text`, " ", "−", "-", "–", "-", "﹣", "-", "－", "-", "٫", ".", "٬", ",")
)

const maxDigits = 120 // of a number; more is text

func (s *sheet) number() (finding, string) {
	return s.each(func(t *turn) (finding, string) {
		want, ok := value(t.want.Text)
		if !ok {
			return found(Erred, "want %s is no number", quote(t.want.Text)), ""
		}
		return s.valued(t, want)
	})
}

// valued holds the number that a text ends in against a value.
func (s *sheet) valued(t *turn, want *big.Rat) (finding, string) {
	got, ok := value(t.text)
	if !ok {
		return found(WrongAnswer, "has no number: %s", tail(t.text)), ""
	}
	if got.Cmp(want) != 0 {
		return found(WrongAnswer, "says %s, want %s: %s", rat(got), rat(want), tail(t.text)), ""
	}
	return finding{}, "says " + rat(got) + ": " + tail(t.text)
}

// value is the number that a text ends in: that of its last \boxed{}, else its last.
func value(text string) (*big.Rat, bool) {
	if in, ok := boxed(text); ok {
		in = plainDigits(latex.Replace(in))
		if v, ok := asFraction(strings.TrimSpace(in)); ok {
			return v, true
		}
		return last(in)
	}
	return last(plainDigits(latex.Replace(text)))
}

// boxed is what stands in the last \boxed{} whose braces match.
func boxed(text string) (string, bool) {
	for end := len(text); ; {
		i := strings.LastIndex(text[:end], `\boxed{`)
		if i < 0 {
			return "", false
		}
		deep, rest := 1, text[i+len(`\boxed{`):]
		for j := range len(rest) {
			switch rest[j] {
			case '{':
				deep++
			case '}':
				deep--
			}
			if deep == 0 {
				return rest[:j], true
			}
		}
		end = i
	}
}

// asFraction reads \frac{a}{b} and a/b.
func asFraction(s string) (*big.Rat, bool) {
	m := fraction.FindStringSubmatch(s)
	if m == nil {
		return nil, false
	}
	v, ok := new(big.Rat).SetString(m[1] + m[4] + m[2] + m[5] + "/" + m[3] + m[6])
	return v, ok
}

// last is the last number. A minus before it is its sign where nothing that could
// be subtracted from stands before that.
func last(text string) (*big.Rat, bool) {
	all := numberForm.FindAllStringIndex(text, -1)
	for i := len(all) - 1; i >= 0; i-- {
		from, to := all[i][0], all[i][1]
		s := text[from:to]
		if s[0] == '-' || s[0] == '+' {
			if before := strings.TrimRight(text[:from], " "); from > 0 && (wordEnd(text[from-1]) || text[from-1] == ' ' && operand(before) && to < len(text)) {
				s = s[1:]
			}
		}
		s = strings.Map(func(r rune) rune {
			if strings.ContainsRune(",_ '\u00a0\u2009\u202f", r) {
				return -1
			}
			return r
		}, s)
		if len(s) > maxDigits {
			continue
		}
		if v, ok := new(big.Rat).SetString(s); ok {
			return v, true
		}
	}
	return nil, false
}

// wordEnd says that a minus right after b is a dash or a difference.
func wordEnd(b byte) bool {
	return digit(b) || b == ')' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= 0x80
}

// operand says that a text ends in a number, from which is subtracted.
func operand(s string) bool { return s != "" && (digit(s[len(s)-1]) || s[len(s)-1] == ')') }

// zeros of the decimal digits that are read as well.
var zeros = []rune{0x0660, 0x06f0, 0x0966, 0x09e6, 0x0be6, 0x0e50, 0xff10}

// plainDigits writes digits of other scripts as ASCII.
func plainDigits(s string) string {
	return strings.Map(func(r rune) rune {
		for _, z := range zeros {
			if r >= z && r <= z+9 {
				return '0' + r - z
			}
		}
		return r
	}, s)
}

func rat(v *big.Rat) string {
	if v.IsInt() {
		return v.Num().String()
	}
	if n, exact := v.FloatPrec(); exact {
		return v.FloatString(min(n, 40))
	}
	return v.RatString()
}
