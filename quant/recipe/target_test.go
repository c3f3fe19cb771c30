package recipe

import (
	"errors"
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTargets(t *testing.T) {
	const name = "model.layers.12.mlp.experts.3.down_proj.weight"
	tests := []struct {
		pattern, name string
		want          bool
	}{
		{name, name, true},
		{"*", name, true},
		{"*", "", true},
		{"model.*.weight", name, true},
		{"*down_proj*", name, true},
		{"*down_proj", name, false}, // whole names
		{"layers.12.*", name, false},
		{"model.layers.1?.*", name, true},
		{"model.layers.?.*", name, false},
		{"model.layers.[0-9][0-9].*", name, true},
		{"model.layers.[!0-9]*", name, false},
		{"model.layers.[^2-9]*", name, true},
		{"*[]x]*", "a]b", true},
		{"a[b-]c", "a-c", true},
		{"experts.gate_up_proj[3].gate", "experts.gate_up_proj[3].gate", true}, // a name as it is
		{`experts.gate_up_proj\[*\].gate`, "experts.gate_up_proj[31].gate", true},
		{"experts.gate_up_proj[3].gate", "experts.gate_up_proj3.gate", true},
		{"a**b", "a/x.y/b", true},
		{"模型.*.权?", "模型.层.0.权重", true},
		{"模型.?.0", "模型.层.0", true},
		{"re:.*down_proj", name, true},
		{"re:model.layers.1", name, true}, // from the start, not to the end
		{"re:layers", name, false},
		{"re:model|xyz", name, true},
		{"re:.*experts\\.[0-3]\\..*$", name, true},
		{"re:.*\\.up_proj", name, false},
	}
	for _, tt := range tests {
		m, err := ParseTarget(tt.pattern)
		if err != nil {
			t.Errorf("%s: %v", tt.pattern, err)
			continue
		}
		if got := m.Match(tt.name); got != tt.want {
			t.Errorf("%s on %s: %t, want %t", tt.pattern, tt.name, got, tt.want)
		}
		if m.String() != tt.pattern {
			t.Errorf("%s says it is %s", tt.pattern, m)
		}
	}
}

func TestBadTargets(t *testing.T) {
	for pattern, part := range map[string]string{
		"": "empty", "re:": "empty", "re:(": "missing", "re:(?!x)y": "look-ahead", "a[b": "not closed", "a[": "not closed", "[]": "not closed", "[z-a]": "backwards", `a\`: "backslash",
	} {
		_, err := ParseTarget(pattern)
		if !errors.Is(err, ErrPattern) || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want %q", pattern, err, part)
		}
	}
	if _, err := ParseTargets("a,,b"); err == nil {
		t.Error("an empty pattern in a list must be refused")
	}
}

func TestTargetLists(t *testing.T) {
	for list, want := range map[string]string{
		"a":                          "a",
		"a, b*":                      "a|b*",
		`re:x{1,2}y,z`:               `re:x{1,2}y|z`,
		`[a,b],c`:                    `[a,b]|c`,
		`re:(a,b),c`:                 `re:(a,b)|c`,
		`a\,b,c`:                     `a\,b|c`,
		`*.q_proj,re:.*\.experts\..`: `*.q_proj|re:.*\.experts\..`,
	} {
		ms, err := ParseTargets(list)
		if err != nil {
			t.Errorf("%s: %v", list, err)
			continue
		}
		var got []string
		for _, m := range ms {
			got = append(got, m.String())
		}
		if s := strings.Join(got, "|"); s != want {
			t.Errorf("%s: %s, want %s", list, s, want)
		}
	}
}

// On names without a slash our globs agree with path.Match, whose star stops at
// one, except that a name written out matches itself. path.Match's star steps
// by bytes and can leave half a character to what follows it, so the letter
// outside ASCII is one byte for it; TestGlobTakesWholeCharacters has the
// characters themselves.
func TestGlobAgainstPath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := rapid.StringMatching(`([ab.é]|\*|\?|\[\^?[ab][.é]\]|\\[ab*?]){1,8}`).Draw(t, "pattern")
		name := rapid.StringMatching(`[ab.é*?]{0,8}`).Draw(t, "name")
		oneByte := strings.NewReplacer("é", "e")
		want, err := path.Match(oneByte.Replace(pattern), oneByte.Replace(name))
		if err != nil {
			if _, err := ParseTarget(pattern); err == nil {
				t.Fatalf("%q is malformed and taken", pattern)
			}
			return
		}
		m, err := ParseTarget(pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(name); got != (want || name == pattern) {
			t.Fatalf("%q on %q: %t, path.Match says %t", pattern, name, got, want)
		}
	})
}

func TestGlobTakesWholeCharacters(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*[^aé]", "é", false}, {"*[^a]", "é", true}, {"*?", "é", true}, {"??", "é", false},
		{"*??", "é", false}, {"*[^é]", "éa", true}, {"*[^é]*", "éé", false},
	} {
		m, err := ParseTarget(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Match(c.name); got != c.want {
			t.Errorf("%q on %q: %t, want %t", c.pattern, c.name, got, c.want)
		}
	}
}

func FuzzTarget(f *testing.F) {
	for _, s := range []string{"*a*b*c*", "[!a-z]*", "re:^.*$", `\[x\]`, "[", "re:[", "\xff*", "é?"} {
		f.Add(s, "model.layers.0.mlp.up_proj.weight")
	}
	f.Fuzz(func(t *testing.T, list, name string) {
		ms, err := ParseTargets(list)
		if err != nil {
			if strings.Contains(err.Error(), "\n") && !strings.Contains(list, "\n") {
				t.Fatalf("more than one line: %v", err)
			}
			return
		}
		for _, m := range ms {
			m.Match(name)
			if _, isGlob := m.(*glob); isGlob && !m.Match(m.String()) {
				t.Fatalf("%q does not match itself", m)
			}
		}
	})
}
