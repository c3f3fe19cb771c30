package grade

import (
	"strings"
	"testing"

	"quantscope/analysis/gates/suite"
)

// One is not many.
func TestOneCharacter(t *testing.T) {
	for text, want := range map[string]string{
		"a\ufffdb":       "1 character that is none, the first at byte 1",
		"a\ufffd\ufffdb": "2 characters that are none, the first at byte 1",
		"a\x00b":         "1 control character, the first at byte 1",
		"a\x00\x01b":     "2 control characters, the first at byte 1",
		"a":              `1 character, want 3: "a"`,
		"ab":             `2 characters, want 3: "ab"`,
	} {
		v := Grade(probe("clean", nil), asked(&suite.Want{MinRunes: 3}), answer(text), nil)
		if v.Passed || !strings.HasPrefix(v.Reason, want) {
			t.Errorf("%q: %q, want %q", text, v.Reason, want)
		}
	}
}
