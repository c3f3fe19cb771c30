package candidate

import "testing"

// Two candidates are the same where every tensor comes from one place.
func TestSame(t *testing.T) {
	ref := open(t, "demo")
	experts := mustParse(t, ref, "nvfp4", Options{})
	whole := mustParse(t, ref, "nvfp4@all", Options{})
	for _, c := range []struct {
		name string
		a, b *Candidate
		want bool
	}{
		{"itself", experts, experts, true},
		{"a head kept that was not quantized", must(t)(Keep(ref, experts, "lm_head.weight")), experts, true},
		{"a head kept that was", must(t)(Keep(ref, whole, "lm_head.weight")), whole, false},
		{"all kept", must(t)(Keep(ref, experts, "*")), ref, true},
		{"all kept, and the candidate", must(t)(Keep(ref, experts, "*")), experts, false},
		{"the reference's head", must(t)(WithHead(experts, ref)), experts, true},
		{"another's head", must(t)(WithHead(experts, whole)), experts, false},
		{"candidate and reference", experts, ref, false},
	} {
		if got, err := Same(c.a, c.b); err != nil || got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}
