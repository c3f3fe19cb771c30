package candidate

import (
	"slices"
	"strings"
	"testing"
)

// Each tensor in which a variant differs is in one part, and what is not is in
// none: a part alone has the sizes of both.
func TestParts(t *testing.T) {
	ref, err := Open(t.Context(), "demo", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	for _, c := range []struct {
		spec string
		want []string
	}{
		{"ref", nil},
		{"nvfp4", []string{"layer 1", "layer 2", "layer 3", "layer 4"}},
		{"nvfp4@linear", []string{"attention", "MLP", "experts", "shared experts"}},
		{"nvfp4@all", []string{"embedding", "attention", "MLP", "experts", "shared experts", "head"}},
		{"nvfp4@*.layers.2.mlp.experts.*", nil},
	} {
		v, err := Parse(t.Context(), ref, c.spec, Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.spec, err)
		}
		parts, err := Parts(ref, v)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		saved := int64(0)
		for _, p := range parts {
			names = append(names, p.Name)
			only, err := Only(ref, v, p)
			if err != nil {
				t.Fatal(err)
			}
			if only.Label != v.Label+" only "+p.Name || only.Bytes >= ref.Bytes {
				t.Errorf("%s: %s has %d bytes, the reference %d", c.spec, only.Label, only.Bytes, ref.Bytes)
			}
			saved += ref.Bytes - only.Bytes
		}
		if !slices.Equal(names, c.want) {
			t.Errorf("%s: parts %q, want %q", c.spec, strings.Join(names, ", "), c.want)
		}
		if len(parts) > 0 && saved != ref.Bytes-v.Bytes {
			t.Errorf("%s: parts save %d bytes, the whole %d", c.spec, saved, ref.Bytes-v.Bytes)
		}
	}
}
