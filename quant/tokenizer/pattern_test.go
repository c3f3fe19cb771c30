package tokenizer

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Patterns without look-ahead and possessive repetition mean in Go's regexp what
// they mean here: of alternatives the first, greedy.
func TestPatternAgainstRegexp(t *testing.T) {
	atom := rapid.SampledFrom([]string{"a", "b", "é", ".", `\d`, `[ab]`, `[^a]`, `[a-c1]`, `\p{L}`, `\p{Lu}`, `\P{L}`, `[^\d\p{L}]`, `\x{4f60}`, " ", `\n`})
	count := rapid.SampledFrom([]string{"", "", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,1}"})
	var build func(depth int) *rapid.Generator[string]
	build = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			var alts []string
			for range rapid.IntRange(1, 3).Draw(t, "alternatives") {
				seq := ""
				for range rapid.IntRange(0, 3).Draw(t, "items") {
					if depth > 0 && rapid.IntRange(0, 3).Draw(t, "group") == 0 {
						seq += "(?:" + build(depth-1).Draw(t, "inner") + ")" + count.Draw(t, "count")
					} else {
						seq += atom.Draw(t, "atom") + count.Draw(t, "count")
					}
				}
				alts = append(alts, seq)
			}
			return strings.Join(alts, "|")
		})
	}
	text := rapid.StringOfN(rapid.SampledFrom([]rune("ab1é A\n你")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		pat, s := build(2).Draw(t, "pattern"), text.Draw(t, "text")
		want, err := regexp.Compile(pat)
		if err != nil {
			return // regexp repeats no more than a thousand times in all
		}
		p, err := compile(pat)
		if err != nil {
			t.Fatal(err)
		}
		var m matcher
		start, end, ok := p.find(&m, s, 0)
		loc := want.FindStringIndex(s)
		if ok != (loc != nil) || ok && (start != loc[0] || end != loc[1]) {
			t.Fatalf("%q in %q: %d %d %t, want %v", pat, s, start, end, ok, loc)
		}
		// A match that remembers states finds the same.
		if ok && p.alts[0].first == nil {
			for i := range p.alts {
				a, fa, _ := m.try(p.alts[i].prog, s, 0, map[state]bool{})
				b, fb, done := m.try(p.alts[i].prog, s, 0, nil)
				m.stack = m.stack[:0]
				if done && (a != b || fa != fb) {
					t.Fatalf("%q in %q: %d %t with memory, %d %t without", pat, s, a, fa, b, fb)
				}
			}
		}
	})
}

// Patterns that make other matchers run away end here.
func TestPatternDoesNotRunAway(t *testing.T) {
	for _, pat := range []string{`(a*)*b`, `(a|a)*b`, `(?:a?){30}a{30}b`, `\s*\s*\s*\s*\s*\s*x`, `(a+)+(?!a)b`, `(?:(?:a*)*)*c`, `(?=(a*)*b)a`, `(?>a*a*a*)b`} {
		p, err := compile(pat)
		if err != nil {
			t.Fatal(pat, err)
		}
		var m matcher
		if _, ok := p.match(&m, strings.Repeat("a", 2000), 0); ok {
			t.Errorf("%s matches", pat)
		}
	}
}

func TestPatternRefuses(t *testing.T) {
	for pat, want := range map[string]string{
		`(a`: "not closed", `a)`: "not opened", `[a`: "not closed", `[]`: "empty class", `*a`: "nothing to repeat", `a**`: "repetition of a repetition", `a{2}+`: "repetition of a repetition",
		`a+?`: "lazy", `(?<=a)b`: `group "(?<=a"`, `(?<n>a)`: "group", `(?P<n>a)`: "group", `\1`: `\1 is not known`, `\k<n>`: `\k`, `\Qa`: `\Q`, `\h`: `\h`, `\p{Klingon}`: `"Klingon"`, `\p{C}`: `"C"`, `\p{L`: "not closed",
		`a{3,2}`: "{3,2}", `a{5000}`: "{5000}", `a{x}`: "{x}", `a{`: "not closed", `\`: "backslash at the end", `[a-\d]`: "range", `[z-a]`: "range", `[[:upper:]]`: "class", `(?i:é)`: "more than ASCII", `(?i:\p{L})`: "more than ASCII",
		`(?i:[^a])`: "more than ASCII", `(?i:ss)`: "pair of letters", `a(?i)b`: "(?i)", `(?x)a`: "group", `\x{110000}`: `\x`, `\xZZ`: `\x`, `\u12`: `\u`, `(?>a)+`: "atomic",
		strings.Repeat("(", 40) + strings.Repeat(")", 40): "deep", strings.Repeat("[", 40) + "a" + strings.Repeat("]", 40): "deep",
		`(((a{1000}){1000}){1000}){1000}b|(((ab){1000}){1000}){1000}`: "too large", strings.Repeat("a", maxPattern+1): "bytes", "\xff": "bytes",
	} {
		_, err := compile(pat)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.60s: %v, want %q", pat, err, want)
		}
	}
	if _, err := compile(`(?<=a)b`); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown group is %v", err)
	}
}

func FuzzPattern(f *testing.F) {
	for _, p := range []string{gpt2Pattern, splitLlama3, splitGPT4o, splitDeepSeek3, `(?i:a|b)*(?!c)`, `[a-z&&[^b]]++`, `(?=(\d{3})+(?!\d))`} {
		f.Add(p, "Hello 123, you're\n\n  here é你")
	}
	f.Fuzz(func(t *testing.T, pat, s string) {
		p, err := compile(pat)
		if err != nil || len(s) > 200 {
			return
		}
		var m matcher
		at := 0
		(&finder{re: p}).each(&m, s, func(from, to int, _ bool) {
			if from != at || to < from {
				t.Fatalf("%q: a part of %q from %d to %d after %d", pat, s, from, to, at)
			}
			at = to
		})
		if at != len(s) {
			t.Fatalf("%q: %d of %d bytes of %q", pat, at, len(s), s)
		}
	})
}

// What Go's regexp does not have: look-ahead, possessive and atomic parts,
// intersections, case.
func TestPatternMatches(t *testing.T) {
	for _, c := range []struct {
		pat, text string
		want      int // end of the match at 0, -1 for none
	}{
		{`a++a`, "aaa", -1}, {`a+a`, "aaa", 3}, {`a*+ab|b`, "aab", -1}, {`a?+ab`, "ab", -1}, {`(?:ab)++a`, "ababa", 5}, {`(?:ab|a)++b`, "ab", -1}, {`(?>ab|a)b`, "ab", -1}, {`(?:ab|a)b`, "ab", 2}, {`(?>a+)b`, "aab", 3},
		{`\s+(?!\S)`, "   x", 2}, {`\s+(?!\S)`, "   ", 3}, {`\s+(?!\S)`, " x", -1}, {`a(?=b)`, "ab", 1}, {`a(?=b)`, "ac", -1}, {`(?=a)`, "a", 0},
		{`[a-z&&[^b]]+`, "acb", 2}, {`[^a-z&&[^b]]`, "b", 1}, {`[^a-z&&[^b]]`, "a", -1}, {`[\p{L}&&[^a-z]]+`, "ÀÉa", 4},
		{`(?i:ab)c`, "ABc", 3}, {`(?i:ab)c`, "ABC", -1}, {`(?i:k)`, "\u212a", 3}, {`(?i:s)`, "\u017f", 2}, {`(?i)a|b`, "B", 1},
		{`\bab\b`, "ab c", 2}, {`\Bb`, "b", -1}, {`^a$`, "a\nb", 1}, {`a\z`, "a\n", -1}, {`\Aa`, "a", 1}, {`.`, "\n", -1}, {`.`, "é", 2},
		{`a{2,3}`, "aaaa", 3}, {`a{,2}`, "aaa", 2}, {`a{2}`, "a", -1}, {`\x41\x{4e00}\u4e01`, "A\u4e00\u4e01", 7}, {`[\]\-\\^]+`, `]-\^`, 4}, {`[a\-z]+`, "a-zb", 3}, {`\P{L}\p{^L}`, "12", 2},
	} {
		p, err := compile(c.pat)
		if err != nil {
			t.Errorf("%s: %v", c.pat, err)
			continue
		}
		var m matcher
		end, ok := p.match(&m, c.text, 0)
		if !ok {
			end = -1
		}
		if end != c.want {
			t.Errorf("%s on %q ends at %d, want %d", c.pat, c.text, end, c.want)
		}
		if len(m.stack) != 0 {
			t.Errorf("%s on %q leaves %d states behind", c.pat, c.text, len(m.stack))
		}
	}
}
