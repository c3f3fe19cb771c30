//go:build amd64 && !noasm

package kernels

import (
	"testing"
	"unsafe"
)

// The generator of assembly knows by number where fields are, and how long a run
// can be.
func TestNVFP4Layout(t *testing.T) {
	var l nvfp4Lanes
	var c nvfp4Clips
	var n nibbleCounts
	var j nvfp4Job
	for _, f := range []struct {
		name      string
		got, want uintptr
	}{
		{"w2", unsafe.Offsetof(l.w2), 0}, {"q2", unsafe.Offsetof(l.q2), 64}, {"wq", unsafe.Offsetof(l.wq), 128},
		{"e2", unsafe.Offsetof(l.e2), 192}, {"worst", unsafe.Offsetof(l.worst), 256}, {"far", unsafe.Offsetof(l.far), 320},
		{"amax", unsafe.Offsetof(c.amax), 0}, {"raw", unsafe.Offsetof(c.raw), 1024}, {"steps", unsafe.Offsetof(c.steps), 2048},
		{"limits", unsafe.Offsetof(c.limits), 3072}, {"mass", unsafe.Offsetof(c.mass), 4096}, {"scales", unsafe.Offsetof(c.scales), 6144},
		{"crowded", unsafe.Offsetof(c.crowded), 6400}, {"bits", unsafe.Offsetof(c.bits), 6656}, {"dense", unsafe.Offsetof(c.dense), 6688}, {"counts", unsafe.Offsetof(c.counts), 6720},
		{"largest", unsafe.Offsetof(c.largest), 6784}, {"lanes", unsafe.Offsetof(c.lanes), 6848}, {"depth", unsafe.Offsetof(c.depth), 7040},
		{"step", unsafe.Offsetof(c.step), 7200}, {"wild", unsafe.Offsetof(c.wild), 7264},
		{"having", unsafe.Offsetof(n.having), 0},
		{"reciprocals", unsafe.Offsetof(j.reciprocals) - unsafe.Offsetof(j.steps), 512},
		{"run", nvfp4Chunk, 256},
	} {
		if f.got != f.want {
			t.Errorf("%s is at %d, the generator says %d", f.name, f.got, f.want)
		}
	}
}
