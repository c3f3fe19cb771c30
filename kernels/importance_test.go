package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// testImportance is an importance of columns with groups that have none, groups
// whose columns all have the same, columns without any, and many magnitudes.
func testImportance(cols int) []float32 {
	rng := rand.New(rand.NewPCG(uint64(cols), 77))
	out := make([]float32, cols)
	for from := 0; from < cols; from += 16 {
		part, kind := out[from:min(from+16, cols)], rng.IntN(8)
		size := math.Exp2(float64(rng.IntN(40) - 20))
		for i := range part {
			switch {
			case kind == 0:
			case kind == 1:
				part[i] = float32(size)
			case kind == 2 && rng.IntN(2) == 0:
			case kind == 3:
				part[i] = float32(size * math.Exp2(float64(rng.IntN(60)-30)))
			default:
				part[i] = float32(size * math.Exp(2*rng.NormFloat64()))
			}
		}
	}
	return out
}

// beginTest begins a pass; a method that weighs errors gets testImportance.
func beginTest(t testing.TB, set Set, m Matrix, spec Spec, amax float32) *Pass {
	t.Helper()
	var p *Pass
	var err error
	if slices.Contains(Weighted(spec.Format), spec.Method) {
		p, err = set.BeginWeighted(spec, m.Element, m.Rows, m.Cols, amax, testImportance(m.Cols))
	} else {
		p, err = set.Begin(spec, m.Element, m.Rows, m.Cols, amax)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// weigh runs a pass with this importance over a whole matrix, plain methods
// without.
func weigh(t testing.TB, set Set, m Matrix, spec Spec, importance []float32) blocked {
	t.Helper()
	amax, err := set.AbsMax(m)
	if err != nil {
		t.Fatal(err)
	}
	var p *Pass
	if spec.Method == imatrix {
		p, err = set.BeginWeighted(spec, m.Element, m.Rows, m.Cols, amax, importance)
	} else {
		p, err = set.Begin(spec, m.Element, m.Rows, m.Cols, amax)
	}
	if err != nil {
		t.Fatal(err)
	}
	b := blocked{global: p.Global()}
	n := p.Sizes(m.Rows)
	b.Output = Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales), Mins: make([]byte, n.Mins)}
	if err := p.Rows(m.Data, &b.Output); err != nil {
		t.Fatal(err)
	}
	if b.tap, err = p.Finish(); err != nil {
		t.Fatal(err)
	}
	return b
}

// weightedErrors are Σ importance·(w−q)² of the groups of a matrix, group by group
// within rows; every column counts the same in a group without importance.
func weightedErrors(t testing.TB, m Matrix, spec Spec, b *blocked, importance []float32) []float64 {
	t.Helper()
	w, q := make([]float32, m.Rows*m.Cols), b.decode(t, spec, m)
	if err := DecodeFloats(w, m.Element, m.Data); err != nil {
		t.Fatal(err)
	}
	group := groupOf(t, spec.Format, m.Cols)
	var out []float64
	for r := range m.Rows {
		for from := 0; from < m.Cols; from += group {
			to := min(from+group, m.Cols)
			none := !slices.ContainsFunc(importance[from:to], func(x float32) bool { return x != 0 })
			sum := 0.0
			for c := from; c < to; c++ {
				v := float64(importance[c])
				if none {
					v = 1
				}
				e := float64(w[r*m.Cols+c]) - float64(q[r*m.Cols+c])
				if e-e == 0 {
					sum += v * e * e
				}
			}
			out = append(out, sum)
		}
	}
	return out
}

func groupOf(t testing.TB, format string, cols int) int {
	t.Helper()
	f := mustFormat(t, format)
	if f.Scope == ScopeChannel {
		return cols
	}
	return f.Group
}

// weightedSpecs are the methods that weigh errors, by every convention.
func weightedSpecs() (specs []Spec) {
	for _, f := range Formats() {
		for _, c := range Conventions(f.Name) {
			for _, m := range Weighted(f.Name) {
				specs = append(specs, Spec{Format: f.Name, Convention: c, Method: m})
			}
		}
	}
	return specs
}

// heavyTailed are weights with outliers.
func heavyTailed(rows, cols int, seed uint64) Matrix {
	rng := rand.New(rand.NewPCG(seed, 8))
	x := make([]float32, rows*cols)
	for i := range x {
		x[i] = roundBF16(float32(0.02 * rng.NormFloat64() * math.Exp(0.7*rng.NormFloat64())))
	}
	return f32Matrix(rows, cols, x)
}

// No block has more weighed error than under any method that does not weigh, but
// for what the rounding of the sums that are compared explains.
func TestWeightedIsNeverWorse(t *testing.T) {
	for _, spec := range weightedSpecs() {
		for seed := range uint64(3) {
			m := heavyTailed(4, []int{256, 300, 144}[seed], seed)
			importance := testImportance(m.Cols)
			b := weigh(t, Best(), m, spec, importance)
			got := weightedErrors(t, m, spec, &b, importance)
			sum, rtnSum := 0.0, 0.0
			for _, method := range Methods(spec.Format) {
				if method == "4over6" {
					continue // another global scale
				}
				other := spec
				other.Method = method
				o := weigh(t, Best(), m, other, nil)
				for i, e := range weightedErrors(t, m, other, &o, importance) {
					if got[i] > e*(1+1e-5) {
						t.Errorf("%s, group %d of seed %d: a weighed error of %v, %s has %v", specName(spec), i, seed, got[i], method, e)
						break
					}
					if method == "rtn" {
						rtnSum += e
						sum += got[i]
					}
				}
			}
			if sum > 0.97*rtnSum {
				t.Errorf("%s: all in all %v of round to nearest's %v", specName(spec), sum, rtnSum)
			}
		}
	}
}

// Where all columns count the same, imatrix of nvfp4 is the plain sweep, record
// and all; where a block has no importance, too.
func TestWeighedEvenlyIsTheSweep(t *testing.T) {
	m := wildMatrix(rand.New(rand.NewPCG(3, 3)), F32, 9, 1000)
	for conv := ModelOpt; conv <= CT; conv++ {
		spec := Spec{Format: "nvfp4", Convention: conv, Method: "sweep"}
		want := weigh(t, Reference(), m, spec, nil)
		spec.Method = imatrix
		for _, x := range []float32{1, 0, 3.7, 0x1p-149, math.MaxFloat32} {
			for _, set := range Available() {
				got := weigh(t, set, m, spec, slices.Repeat([]float32{x}, m.Cols))
				if !bytes.Equal(got.Scales, want.Scales) || !bytes.Equal(got.Codes, want.Codes) || got.tap != want.tap {
					t.Errorf("%s %v, importance %v: %s", set.Name, conv, x, firstDiff(got.Scales, want.Scales))
				}
			}
		}
	}
}

// The scales are those that trying all gives. The least error is that of f64;
// scales that come within the rounding of sums are as good.
func TestWeighedBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 34))
	for _, spec := range weightedSpecs() {
		f := mustFormat(t, spec.Format)
		if f.Element != "e2m1" {
			continue
		}
		for trial := range 30 {
			m := heavyTailed(3, 3*f.Group, uint64(trial))
			importance := make([]float32, m.Cols)
			for i := range importance {
				importance[i] = float32(math.Exp(3 * rng.NormFloat64()))
				if trial%3 == 0 && rng.IntN(3) == 0 {
					importance[i] = 0
				}
			}
			b := weigh(t, Best(), m, spec, importance)
			got := weightedErrors(t, m, spec, &b, importance)
			least := slices.Repeat([]float64{math.Inf(1)}, len(got))
			try := b
			for code := range 255 {
				if f.Scale == "e4m3" && (code == 0 || code >= nanE4M3) || f.Scale == "e8m0" && code > maxCodeMXF4 {
					continue
				}
				try.Scales = bytes.Repeat([]byte{byte(code)}, len(b.Scales))
				try.Codes = nearestCodes(t, m, spec, &try)
				for i, e := range weightedErrors(t, m, spec, &try, importance) {
					least[i] = min(least[i], e)
				}
			}
			for i := range got {
				if got[i] > least[i]*(1+1e-5) {
					t.Fatalf("%s, trial %d: group %d has an error of %v, the best scale %v", specName(spec), trial, i, got[i], least[i])
				}
			}
		}
	}
}

// nearestCodes are the E2M1 codes that are nearest under the scales of b, all of
// which have the same code.
func nearestCodes(t testing.TB, m Matrix, spec Spec, b *blocked) []byte {
	t.Helper()
	one := blocked{global: b.global}
	one.Codes = []byte{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc, 0xfe}
	one.Scales = b.Scales[:1]
	values := one.decode(t, spec, Matrix{Element: F32, Rows: 1, Cols: 16})
	w := make([]float32, m.Rows*m.Cols)
	if err := DecodeFloats(w, m.Element, m.Data); err != nil {
		t.Fatal(err)
	}
	codes := make([]byte, len(b.Codes))
	for i, x := range w {
		best := 0
		for c, v := range values {
			if math.Abs(float64(x)-float64(v)) < math.Abs(float64(x)-float64(values[best])) {
				best = c
			}
		}
		codes[i/2] |= byte(best) << (i % 2 * 4)
	}
	return codes
}

// Only ratios matter: an importance times a power of two gives the same bits.
func TestImportanceHasNoUnit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		specs := weightedSpecs()
		spec := specs[rapid.IntRange(0, len(specs)-1).Draw(rt, "spec")]
		m := heavyTailed(2, rapid.IntRange(1, 300).Draw(rt, "cols"), rapid.Uint64().Draw(rt, "seed"))
		importance := testImportance(m.Cols)
		times := float32(math.Ldexp(1, rapid.IntRange(-40, 40).Draw(rt, "times")))
		other := make([]float32, m.Cols)
		for i, x := range importance {
			other[i] = x * times
		}
		a, b := weigh(t, Best(), m, spec, importance), weigh(t, Best(), m, spec, other)
		if !bytes.Equal(a.Codes, b.Codes) || !bytes.Equal(a.Scales, b.Scales) || !bytes.Equal(a.Mins, b.Mins) || a.tap != b.tap {
			rt.Fatalf("%s: importance times %v gives other bits", specName(spec), times)
		}
	})
}

// A group does not know what stands beside it: the columns of one alone, with
// their importance and the same global scale, give the same bits. So it is for
// GPTQ, which takes a group at a time.
func TestGroupsAreWeighedAlone(t *testing.T) {
	for _, spec := range weightedSpecs() {
		f := mustFormat(t, spec.Format)
		if f.Scope != ScopeGroup {
			continue
		}
		m := heavyTailed(3, 5*f.Group+8, 9)
		importance := testImportance(m.Cols)
		all := weigh(t, Best(), m, spec, importance)
		spec.Global = all.global
		perRow := ceilDiv(m.Cols, f.Group)
		for g := range perRow {
			from, to := g*f.Group, min((g+1)*f.Group, m.Cols)
			part := Matrix{Element: m.Element, Rows: m.Rows, Cols: to - from}
			for r := range m.Rows {
				part.Data = append(part.Data, m.Data[4*(r*m.Cols+from):4*(r*m.Cols+to)]...)
			}
			b := weigh(t, Best(), part, spec, importance[from:to])
			size := len(b.Scales) / m.Rows
			for r := range m.Rows {
				at := (r*perRow + g) * size
				if want := all.Scales[at : at+size]; !bytes.Equal(b.Scales[r*size:(r+1)*size], want) {
					t.Errorf("%s: group %d of row %d has the scale %x, among others %x", specName(spec), g, r, b.Scales[r*size:(r+1)*size], want)
				}
			}
		}
	}
}

// What weighs nothing, or cannot be weighed with, is refused by name.
func TestImportanceRefused(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	nvfp4 := Spec{Format: "nvfp4", Method: imatrix}
	for _, c := range []struct {
		spec       Spec
		importance []float32
		want       error
		says       string
	}{
		{nvfp4, []float32{1, 2}, ErrShape, "2 columns for 3"},
		{nvfp4, nil, ErrShape, "0 columns for 3"},
		{nvfp4, []float32{1, nan, 1}, nil, "column 1 is NaN"},
		{nvfp4, []float32{1, 1, inf}, nil, "column 2 is +Inf"},
		{nvfp4, []float32{-0.5, 1, 1}, nil, "column 0 is -0.5"},
		{Spec{Format: "nvfp4", Method: "sweep"}, []float32{1, 1, 1}, ErrUnsupported, `"sweep" weighs nothing`},
		{Spec{Format: "fp8", Method: imatrix}, []float32{1, 1, 1}, ErrUnsupported, `"imatrix"`},
		{Spec{Format: "fp8-block128", Convention: DeepSeek}, []float32{1, 1, 1}, ErrUnsupported, "weighs nothing"},
	} {
		_, err := Best().BeginWeighted(c.spec, F32, 2, 3, 1, c.importance)
		if err == nil || !strings.Contains(err.Error(), c.says) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%v with %v: %v", c.spec, c.importance, err)
		}
		var which *ImportanceError
		if c.want == nil && !errors.As(err, &which) {
			t.Errorf("%v: %v names no column", c.importance, err)
		}
	}
	for _, spec := range weightedSpecs() {
		if _, err := Best().Begin(spec, F32, 2, 3, 1); !errors.Is(err, ErrNeedsImportance) {
			t.Errorf("%s without importance: %v", specName(spec), err)
		}
		if labels := MultiplierLabels(spec.Format, spec.Method); len(labels) != MultBins {
			t.Errorf("%s: %d labels", specName(spec), len(labels))
		}
	}
}

// The bins of choices say what they are called.
func TestWeighedChoices(t *testing.T) {
	for offset, label := range map[int]string{0: "0", 1: "+1", -1: "-1", -13: "-13", -14: "≤-14", -90: "≤-14", 2: "+1"} {
		if got := exponentLabels[exponentBin(offset)]; got != label {
			t.Errorf("%d powers of two: %s", offset, got)
		}
	}
	for ratio, label := range map[float64]string{1: "1.0", 0.99: "1.0", 0.97: "0.95", 0.5: "0.5", 0.01: "≤0.3", 1.04: "≥1.05", 7: "≥1.05"} {
		if got := stepRatioLabels[stepRatioBin(ratio)]; got != label {
			t.Errorf("%v steps: %s", ratio, got)
		}
	}
	// One column counts, and it is a third of the largest: the scale is a third.
	row := make([]float32, 32)
	row[3], row[9] = 6, 1.5
	importance := make([]float32, 32)
	importance[9] = 1
	b := weigh(t, Best(), f32Matrix(1, 32, row), Spec{Format: "mxfp4", Convention: CT32, Method: imatrix}, importance)
	if fmt.Sprint(b.tap.Multipliers[exponentBin(0)]) != "1" {
		t.Errorf("1.5 is among the codes of the scale 1 already: %v", b.tap.Multipliers)
	}
	row[9] = 0.2
	b = weigh(t, Best(), f32Matrix(1, 32, row), Spec{Format: "mxfp4", Convention: CT32, Method: imatrix}, importance)
	if q := b.decode(t, Spec{Format: "mxfp4", Convention: CT32}, f32Matrix(1, 32, row)); math.Abs(float64(q[9])-0.2) > 0.02 || b.tap.Deep != 1 {
		t.Errorf("0.2 becomes %v, %+v", q[9], b.tap)
	}
}

// The search for int4 comes near what trying 61×61 ranges gives, whose ends move
// independently, and often beats it, since scales and minima are fitted.
func TestWeighedInt4NearExhaustive(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, format := range []string{"int4-g32", "int4-g128", "int4-g128-sym"} {
		for _, conv := range Conventions(format) {
			k := &int4Weighted{int4Chooser: int4Chooser{conv: conv, symmetric: strings.HasSuffix(format, "sym")}, weighedError: Best().blocks.weighedError}
			k.rule = int4Rule(conv, k.symmetric)
			n := mustFormat(t, format).Group
			w, f := make([]float32, n), make([]float32, n)
			found, grid := 0.0, 0.0
			for range 40 {
				for i := range w {
					w[i] = roundBF16(float32(0.02 * rng.NormFloat64()))
					f[i] = float32(math.Exp(1.5 * rng.NormFloat64()))
				}
				var c blockChoice
				r := finiteRange(w)
				k.chooseWeighted(w, f, r, &c)
				found += float64(k.least)
				k.least = float32(math.Inf(1))
				for a := range 61 {
					for b := range 61 {
						if !k.symmetric || a == b {
							k.try(k.params(r.lo*float32(120-a)/120, r.hi*float32(120-b)/120))
						}
					}
				}
				k.evaluate()
				grid += float64(k.least)
			}
			t.Logf("%s %v: %.4f of the grid's error", format, conv, found/grid)
			if found > 1.03*grid {
				t.Errorf("%s %v: %.4f of the grid's error", format, conv, found/grid)
			}
		}
	}
}
