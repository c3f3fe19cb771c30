package kernels

import (
	"math"
	"testing"
)

func TestTapFigures(t *testing.T) {
	// w = (3, 4), q = (3, 3)
	tap := Tap{SumW2: 25, SumQ2: 18, SumWQ: 21, SumE2: 1}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"cos", tap.Cos(), 21 / (5 * math.Sqrt(18))},
		{"rel2", tap.Rel2(), 0.04},
		{"rel_l2", tap.RelL2(), 0.2},
		{"sqnr", tap.SQNR(), 10 * math.Log10(25)},
	} {
		if math.Abs(c.got-c.want) > 1e-15*math.Abs(c.want) {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}
	if gap := tap.IdentityGap(); gap > 1e-15 {
		t.Errorf("identity gap %v", gap)
	}
	tap.SumE2 = 2
	if gap := tap.IdentityGap(); math.Abs(gap-0.04) > 1e-15 {
		t.Errorf("a dishonest record has a gap of %v", gap)
	}
	var zero Tap
	if zero.Cos() != 1 || zero.Rel2() != 0 || zero.IdentityGap() != 0 || !math.IsInf(zero.SQNR(), 1) {
		t.Errorf("a zero matrix has cos %v, rel2 %v, gap %v, SQNR %v", zero.Cos(), zero.Rel2(), zero.IdentityGap(), zero.SQNR())
	}
	flushed := Tap{SumW2: 1, SumE2: 1}
	if !math.IsNaN(flushed.Cos()) || flushed.Rel2() != 1 {
		t.Errorf("a flushed matrix has cos %v, rel2 %v", flushed.Cos(), flushed.Rel2())
	}
}

// Clip depth is told apart where it should be: a block is built whose scale
// rounds down, one whose scale is forced down, and one with a subnormal scale.
func TestTapClipping(t *testing.T) {
	const g = 0x1p-10 // weight_scale_2
	block := func(amax float32) []float32 {
		x := make([]float32, BlockNVFP4)
		x[0], x[1], x[2] = amax, -amax, amax/2
		return x
	}
	for _, c := range []struct {
		name                     string
		amax                     float32
		shallow, deep, subnormal int64
		bin                      int
	}{
		{"exact", 6 * 32 * g, 0, 0, 0, -1},
		{"rounded up", 6 * 35 * g, 0, 0, 0, -1},
		{"rounded down", 6 * 33.9 * g, 1, 0, 0, 1},  // to 32: depth 1 − 32/33.9 = 0.056
		{"just deep", 6 * 480 * g, 0, 1, 0, 1},      // to 448: depth 1 − 448/480 = 0.067
		{"clamped", 6 * 640 * g, 0, 1, 0, 6},        // to 448: depth 0.3
		{"subnormal", 6 * 0x1.6p-9 * g, 0, 0, 1, 5}, // 1.375 to 1 unit of 2⁻⁹: depth 1 − 1/1.375 = 0.2727
	} {
		for _, set := range Available() {
			tap, err := set.NVFP4(f32Matrix(1, BlockNVFP4, block(c.amax)), NVFP4Options{GlobalScale: g}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tap.Shallow != c.shallow || tap.Deep != c.deep || tap.SubnormalClipped != c.subnormal {
				t.Errorf("%s %s: %d shallow, %d deep, %d subnormal", set.Name, c.name, tap.Shallow, tap.Deep, tap.SubnormalClipped)
			}
			for bin, n := range tap.Depth {
				if (n != 0) != (bin == c.bin) {
					t.Errorf("%s %s: depths %v", set.Name, c.name, tap.Depth)
				}
			}
			want := 0.0
			if c.bin >= 0 {
				want = 2 * float64(c.amax) * float64(c.amax)
			}
			if got := tap.ShallowL2 + tap.DeepL2 + tap.SubnormalClippedL2; !close64(got, want, 1e-15) {
				t.Errorf("%s %s: clipped mass %v, want %v", set.Name, c.name, got, want)
			}
			if wantHigh := c.deep == 1; (tap.ScaleHigh == 1) != wantHigh {
				t.Errorf("%s %s: %d scales clamped high", set.Name, c.name, tap.ScaleHigh)
			}
		}
	}
}

// A scale counts as clamped low where rounding alone would have made it 0, the
// tie at half of the smallest scale included.
func TestTapScaleLow(t *testing.T) {
	const g = 0x1p-10
	for amax, want := range map[float32]int64{
		6 * 0x1p-10 * g: 1, math.Nextafter32(6*0x1p-10*g, 1): 0, 6 * 0x1p-9 * g: 0, 6 * 0x1p-20 * g: 1, 0: 0,
	} {
		for _, set := range Available() {
			tap, err := set.NVFP4(f32Matrix(1, 1, []float32{amax}), NVFP4Options{GlobalScale: g}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tap.ScaleLow != want || tap.ScaleHigh != 0 {
				t.Errorf("%s: amax %v: %d clamped low, want %d", set.Name, amax, tap.ScaleLow, want)
			}
			if amax != 0 && (tap.ScaleMin != MinE4M3 || tap.ScaleSubnormal != 1 || tap.Scales[0] != 1) {
				t.Errorf("%s: amax %v: scale %v", set.Name, amax, tap.ScaleMin)
			}
		}
	}
}

func TestFloorF32Bits(t *testing.T) {
	for x, want := range map[float64]float32{
		0: 0, 1: 1, 1 + 0x1p-25: 1, 1 + 0x1.8p-24: 1, 1 + 0x1.8p-23: 1 + 0x1p-23, 1e39: math.MaxFloat32, 0x1p-150: 0, 0x1.8p-149: 0x1p-149,
	} {
		if got := math.Float32frombits(floorF32Bits(x)); got != want {
			t.Errorf("%v: %v, want %v", x, got, want)
		}
	}
}

// Errors are binned in steps of the block, by the sixteenth.
func TestTapErrors(t *testing.T) {
	x := []float32{6, 5, 0.25, 2.4, -2.4, 3.0625, -7.5, 0, 0.5}
	want := [ErrorBins]int64{0: 3, 1: 1, 4: 1, 6: 2, 16: 2}
	for _, set := range Available() {
		// A scale of 448 and a step of 1, so that −7.5 is clipped.
		x := append([]float32{}, x...)
		tap, err := set.NVFP4(f32Matrix(1, len(x), x), NVFP4Options{GlobalScale: 1.0 / 448}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tap.ScaleMax != 448 || tap.Errors != want {
			t.Errorf("%s: scale %v, errors %v, want %v", set.Name, tap.ScaleMax, tap.Errors, want)
		}
	}
}

func TestSets(t *testing.T) {
	sets := Available()
	if sets[0].Name != Reference().Name || Reference().Name != "go" {
		t.Errorf("the reference is not first: %s", sets[0].Name)
	}
	if Best().Name != sets[len(sets)-1].Name {
		t.Errorf("the best is %s, the last %s", Best().Name, sets[len(sets)-1].Name)
	}
	seen := map[string]bool{}
	for _, s := range sets {
		if seen[s.Name] || s.Name == "" || s.absMax == nil || s.blockAmax == nil || s.nvfp4Choose == nil || s.nvfp4Count == nil || s.nvfp4Encode == nil {
			t.Errorf("set %q is not complete or not alone of its name", s.Name)
		}
		seen[s.Name] = true
	}
}

func TestNames(t *testing.T) {
	for _, m := range allMethods {
		if n := len(m.Labels()); n == 0 || n > MultBins {
			t.Errorf("%v has %d labels", m, n)
		}
		if search, ok := m.search(); !ok || len(search.multipliers) > 0 && len(search.multipliers) != len(m.Labels()) {
			t.Errorf("%v has %d multipliers and %d labels", m, len(search.multipliers), len(m.Labels()))
		}
	}
	for want, got := range map[string]string{
		"rtn": NVFP4RTN.String(), "mse": NVFP4MSE.String(), "mse_ge1": NVFP4MSEGE1.String(), "sweep": NVFP4Sweep.String(), "4over6": NVFP4FourOverSix.String(),
		"modelopt": ModelOpt.String(), "modelopt-static": ModelOptStatic.String(), "ct32": CT32.String(), "ct": CT.String(),
		"bf16": BF16.String(), "f16": F16.String(), "f32": F32.String(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
