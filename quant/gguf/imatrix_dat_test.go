package gguf

import "testing"

// Chunks become tokens, and means stay what they are: Σx² grows with the count.
func TestCounted(t *testing.T) {
	old, err := ReadImatrix(imatrixFile("mixtral.dat"))
	if err != nil {
		t.Fatal(err)
	}
	const chunk = 64 // a power of two: products are exact
	now := old.Counted(chunk)
	if now.Legacy || !old.Legacy || now.ChunkSize != chunk || now.ChunkCount != old.ChunkCount || len(now.Entries) != len(old.Entries) {
		t.Fatalf("legacy %v, chunks of %d, %d entries", now.Legacy, now.ChunkSize, len(now.Entries))
	}
	for i := range now.Entries {
		a, b := &old.Entries[i], &now.Entries[i]
		if b.Counts[0] != chunk*a.Counts[0] {
			t.Fatalf("%s: %v chunks are %v tokens", a.Name, a.Counts[0], b.Counts[0])
		}
		for k := range a.Sum2 {
			if b.Sum2[k] != chunk*a.Sum2[k] {
				t.Fatalf("%s: sum %d is %v of %v", a.Name, k, b.Sum2[k], a.Sum2[k])
			}
		}
	}
}
