package suite

import "testing"

// TestBuiltin reads what is built in, twice, as the same.
func TestBuiltin(t *testing.T) {
	for _, name := range Names() {
		a, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Open(name)
		if err != nil || a.SHA256 != b.SHA256 || a.Name != name || a.Path != name {
			t.Errorf("%s: %v, %s and %s", name, err, a.SHA256, b.SHA256)
		}
		n := 0
		for i := range a.Probes {
			n += a.Probes[i].Answers()
		}
		t.Logf("%s: %d probes, %d answers", name, len(a.Probes), n)
	}
}
