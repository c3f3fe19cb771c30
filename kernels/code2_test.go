package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// quantizeBook chooses a codebook and quantizes with it, in chunks of rows.
func quantizeBook(t testing.TB, set Set, m Matrix, spec Spec, importance []float32, chunk int) (blocked, Spec) {
	t.Helper()
	amax, err := set.AbsMax(m)
	if err != nil {
		t.Fatal(err)
	}
	if spec.Codebook == 0 {
		r, err := set.ChooseBook(spec, StoredOperand(m), amax, importance)
		if err != nil {
			t.Fatal(err)
		}
		spec.Use(r)
	}
	return quantizeBlocks(t, set, m, spec, chunk), spec
}

// The codebook is the best of all, found by trying them element by element; the
// symmetric one the best of those, asym and mirror as they are defined; the weighed one
// by weighed errors. What the others would have cost is in the record.
func TestChooseCodebookBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	masks := allBooks()
	for trial, specs := range slices.Concat(fp4Specs(), fp4Specs()) {
		m := heavyTailed(2, 70, uint64(trial))
		w := make([]float32, m.Rows*m.Cols)
		if err := DecodeFloats(w, m.Element, m.Data); err != nil {
			t.Fatal(err)
		}
		if trial%2 == 1 { // not symmetric
			for i := range w {
				w[i] = w[i] + 0.01
			}
			m = f32Matrix(m.Rows, m.Cols, w)
		}
		f, _ := FormatByName(specs[0].Format)
		rtn := weigh(t, Best(), m, specs[0], nil)
		table := stepsOf(f.Name, rtn.global, specs[0].Convention)
		steps, factors := make([]float64, len(w)), [2][]float32{testImportance(m.Cols), make([]float32, m.Cols)}
		for i := range steps {
			steps[i] = float64(table[rtn.Scales[i/m.Cols*ceilDiv(m.Cols, f.Group)+i%m.Cols/f.Group]])
			factors[1][i%m.Cols] = 1
		}
		for i := range factors[0] {
			factors[0][i] = float32(math.Exp(2 * rng.NormFloat64()))
		}
		for weighed, f := range factors {
			importance := [2][]float32{f, nil}[weighed]
			errs, biases, whole := bookErrors(masks, w, steps, f)
			l2, sym := leastErrors(masks, errs)
			var asym uint16
			for _, method := range []string{"l2", "sym", "asym", "mirror"} {
				spec := specs[1]
				spec.Method = method
				b, chosen := quantizeBook(t, Best(), m, spec, importance, 0)
				got := chosen.Codebook
				what := fmt.Sprintf("%s/%v/%s, weighed %v: %v", spec.Format, spec.Convention, method, importance != nil, Codebook(got))
				switch method {
				case "l2":
					if !(errs[got] <= l2*(1+1e-9)) {
						t.Errorf("%s has an error of %v, the best %v", what, errs[got], l2)
					}
				case "sym":
					if mirrorBook(got) != got || !(errs[got] <= sym*(1+1e-9)) {
						t.Errorf("%s has an error of %v, the best %v", what, errs[got], sym)
					}
				case "asym":
					asym = got
					checkAsym(t, what, got, masks, errs, biases, sym)
				default:
					for i, v := range Codebook(asym) {
						if Codebook(got)[3-i] != 0-v {
							t.Errorf("%s is no mirror image of %v", what, Codebook(asym))
						}
					}
				}
				if x := b.tap.Bias; !close64(x.L2, l2/whole, 1e-6) || !close64(x.Sym, sym/whole, 1e-6) || x.Codebook != got {
					t.Errorf("%s: the record says %+v, want the errors %v and %v", what, x, l2/whole, sym/whole)
				}
				if e := b.tap.SumE2; importance == nil && math.Abs(e-errs[got]) > 1e-5*e {
					t.Errorf("%s: the record has an error of %v, want %v", what, e, errs[got])
				}
				if !bytes.Equal(b.Scales, rtn.Scales) || b.global != rtn.global {
					t.Errorf("%s: scales are not those of round to nearest", what)
				}
			}
		}
	}
}

// bookErrors are Σ f·(w−q)² and Σ(q−w) of codebooks where each element gets the nearest
// of the values, and Σ f·w², by plain loops.
func bookErrors(masks []uint16, w []float32, steps []float64, f []float32) (errs, biases map[uint16]float64, whole float64) {
	errs, biases = map[uint16]float64{}, map[uint16]float64{}
	for _, mask := range masks {
		values := nearestFirst(mask)
		for i, x := range w {
			near, least := 0.0, math.Inf(1)
			for _, v := range values {
				if d := math.Abs(float64(x) - v*steps[i]); d < least {
					near, least = v*steps[i], d
				}
			}
			errs[mask] += float64(f[i%len(f)]) * least * least
			biases[mask] += near - float64(x)
		}
	}
	for i, x := range w {
		whole += float64(f[i%len(f)]) * float64(x) * float64(x)
	}
	return errs, biases, whole
}

// leastErrors are those of the best codebook, and of the best that is ±a, ±b.
func leastErrors(masks []uint16, errs map[uint16]float64) (l2, sym float64) {
	l2, sym = math.Inf(1), math.Inf(1)
	for _, mask := range masks {
		l2 = min(l2, errs[mask])
		if v := Codebook(mask); v[0] == -v[3] && v[1] == -v[2] {
			sym = min(sym, errs[mask])
		}
	}
	return l2, sym
}

// On data without a sign asym and mirror have about the same error, which is sym's to
// 2 %, and biases that are opposite, while sym has next to none. How large they are is
// up to what codebooks of that error there are: some 0.5 % on the scales of NVFP4 here,
// 3.7 % on MXFP4's.
func TestAsymAndMirror(t *testing.T) {
	for _, format := range []string{"code2", "code2-mxfp4"} {
		m := gaussianBF16(256, 4096, 7)
		var taps []Tap
		for _, method := range []string{"sym", "asym", "mirror"} {
			b, _ := quantizeBook(t, Best(), m, Spec{Format: format, Convention: Conventions(format)[0], Method: method}, nil, 0)
			taps = append(taps, b.tap)
		}
		sym, asym, mirror := taps[0], taps[1], taps[2]
		if r := asym.Rel2() / sym.Rel2(); math.Abs(r-1) > 0.02 {
			t.Errorf("%s: asym has %v of sym's error", format, r)
		}
		if r := mirror.Rel2() / asym.Rel2(); math.Abs(r-1) > 0.02 {
			t.Errorf("%s: mirror has %v of asym's error", format, r)
		}
		a, b, s := asym.Bias.Value(), mirror.Bias.Value(), sym.Bias.Value()
		if !(a > 0.003 && b < -0.003 && math.Abs(a+b) < 0.3*a && math.Abs(s) < 0.2*a) || 3*asym.Bias.Positive < 2*asym.Bias.Rows || 3*mirror.Bias.Positive > mirror.Bias.Rows {
			t.Errorf("%s: biases %v of asym, %v of mirror, %v of sym; rows %+v and %+v", format, a, b, s, asym.Bias, mirror.Bias)
		}
	}
}

// Only codes of the codebook are written; every set and every way to cut rows
// gives the same; the record is that of plain loops over what is decoded.
func TestCodebookPass(t *testing.T) {
	for seed := range uint64(84) {
		rng := rand.New(rand.NewPCG(seed, 6))
		spec := fp4Specs()[seed%7][1]
		f := mustFormat(t, spec.Format)
		m := wildMatrix(rng, []Element{BF16, F16, F32}[seed%3], 3, rng.IntN(300)+1)
		spec.Method = codebookMethods[seed%4]
		if seed%5 == 0 {
			spec.Use(Recoding{Codebook: []uint16{1<<1 | 1<<7 | 1<<9 | 1<<15, 1 | 1<<3 | 1<<5 | 1<<14, 1<<4 | 1<<5 | 1<<6 | 1<<7, 1<<9 | 1<<10 | 1<<11 | 1}[seed/5%4], L2: 0.1, Sym: 0.2})
		}
		want, spec := quantizeBook(t, Reference(), m, spec, testImportance(m.Cols), 0)
		decoded := want.decode(t, spec, m)
		checkBlockTap(t, m, spec, &want, decoded)
		base, _ := CodebookBase(spec.Format)
		steps := stepsOf(base, want.global, spec.Convention)
		for r := range m.Rows {
			for c := range m.Cols {
				index := want.Codes[r*ceilDiv(m.Cols, 4)+c/4] >> (c % 4 * 2) & 3
				v := Codebook(spec.Codebook)[index]
				step := steps[want.Scales[r*ceilDiv(m.Cols, f.Group)+c/f.Group]]
				if q := decoded[r*m.Cols+c]; q != v*step {
					t.Fatalf("seed %d: element %d,%d is %v, want %v of %v", seed, r, c, q, v, step)
				}
			}
		}
		for _, set := range Available() {
			for _, chunk := range []int{0, 1} {
				got, _ := quantizeBook(t, set, m, spec, nil, chunk)
				if !bytes.Equal(got.Codes, want.Codes) || !bytes.Equal(got.Scales, want.Scales) || got.tap != want.tap || !slices.Equal(got.RowE2, want.RowE2) {
					t.Errorf("seed %d: %s, %d rows at a time, gives something else\n%+v\n%+v", seed, set.Name, chunk, got.tap, want.tap)
				}
			}
			if tap, err := set.TapOf(spec, StoredOperand(m), &want.Output, want.global, 1); err != nil || tap != want.tap {
				t.Errorf("seed %d: %s: the record of given codes differs (%v)\n%+v\n%+v", seed, set.Name, err, tap, want.tap)
			}
			if mask, err := set.ChooseCodebook(spec, m, float32(want.tap.Amax), nil); err != nil {
				t.Error(err)
			} else if again, _ := Reference().ChooseCodebook(spec, m, float32(want.tap.Amax), slices.Repeat([]float32{2.5}, m.Cols)); mask != again {
				t.Errorf("seed %d: %v, weighed evenly %v", seed, Codebook(mask), Codebook(again))
			}
		}
	}
}

// The choice does not depend on how rows come, nor on how they are stored.
func TestCodebookOfChunks(t *testing.T) {
	m := heavyTailed(50, 300, 3)
	spec := Spec{Format: "code2", Method: "l2"}
	importance := testImportance(m.Cols)
	amax, err := Best().AbsMax(m)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Reference().ChooseCodebook(spec, m, amax, importance)
	if err != nil {
		t.Fatal(err)
	}
	w := Dense{Rows: m.Rows, Cols: m.Cols, Stride: m.Cols, Data: make([]float32, m.Rows*m.Cols)}
	if err := DecodeFloats(w.Data, m.Element, m.Data); err != nil {
		t.Fatal(err)
	}
	for _, set := range Available() {
		if got, err := set.ChooseCodebookOf(spec, DenseOperand(w), amax, importance); err != nil || got != want {
			t.Errorf("%s: of a dense one %v (%v), want %v", set.Name, Codebook(got), err, Codebook(want))
		}
		c, err := set.BeginCodebook(spec, m.Element, m.Cols, amax, importance)
		if err != nil {
			t.Fatal(err)
		}
		for r := range m.Rows {
			if err := c.Rows(m.Data[r*4*m.Cols : (r+1)*4*m.Cols]); err != nil {
				t.Fatal(err)
			}
		}
		if got := c.Choose(); got != want {
			t.Errorf("%s: row by row %v, want %v", set.Name, Codebook(got), Codebook(want))
		}
		if err := c.Rows(m.Data[:5]); !errors.Is(err, ErrShape) {
			t.Errorf("half a row: %v", err)
		}
	}
}

// l2 is never worse than sym, and both are worse than all fifteen values.
func TestCodebooksInOrder(t *testing.T) {
	for seed := range uint64(20) {
		m := heavyTailed(8, 256, seed)
		l2, _ := quantizeBook(t, Best(), m, Spec{Format: "code2", Method: "l2"}, nil, 0)
		sym, spec := quantizeBook(t, Best(), m, Spec{Format: "code2", Method: "sym"}, nil, 0)
		rtn := weigh(t, Best(), m, Spec{Format: "nvfp4", Method: "rtn"}, nil)
		if !(l2.tap.SumE2 <= sym.tap.SumE2*(1+1e-12) && rtn.tap.SumE2 < l2.tap.SumE2) {
			t.Errorf("seed %d: errors %v (l2), %v (sym), %v (nvfp4)", seed, l2.tap.SumE2, sym.tap.SumE2, rtn.tap.SumE2)
		}
		if v := Codebook(spec.Codebook); v[0] != -v[3] || v[1] != -v[2] {
			t.Errorf("seed %d: sym chooses %v", seed, v)
		}
	}
}

// Ties go to the smaller magnitude, those at 0 to the positive value.
func TestCodebookTies(t *testing.T) {
	spec := Spec{Format: "code2", Method: "l2", Codebook: 1<<4 | 1<<6 | 1<<12 | 1<<14, Global: 1} // ±2, ±4
	row := make([]float32, 16)
	copy(row, []float32{6, 3, -3, 0, float32(math.Copysign(0, -1)), 2.999, 3.001, -6, 5, -1})
	m := f32Matrix(1, 16, row)
	b, _ := quantizeBook(t, Best(), m, spec, nil, 0)
	if got := b.decode(t, spec, m)[:10]; !slices.Equal(got, []float32{4, 2, -2, 2, -2, 2, 4, -4, 4, -2}) {
		t.Errorf("%v", got)
	}
	// Reach is 4 scales: 6 is a third too deep.
	if b.tap.Deep != 1 || b.tap.DeepL2 != 36+36+25 || b.tap.Depth[6] != 1 {
		t.Errorf("clipping: %+v", b.tap)
	}
}

func TestCodebookRefused(t *testing.T) {
	m := heavyTailed(2, 32, 1)
	set := Best()
	if _, err := set.Begin(Spec{Format: "code2"}, F32, 2, 32, 1); !errors.Is(err, ErrNeedsCodebook) {
		t.Errorf("no codebook: %v", err)
	}
	for mask, says := range map[uint16]string{1: "want 4", 0x1f: "want 4", 0x107 | 1<<12: "none for −0", 0x10f: "want 4"} {
		if _, err := set.Begin(Spec{Format: "code2", Codebook: mask}, F32, 2, 32, 1); !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), says) {
			t.Errorf("%#x: %v", mask, err)
		}
	}
	if _, err := set.Begin(Spec{Format: "nvfp4", Codebook: 15}, F32, 2, 32, 1); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a codebook of nvfp4: %v", err)
	}
	if _, err := set.ChooseCodebook(Spec{Format: "mxfp4", Convention: CT32}, m, 1, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("a codebook of mxfp4: %v", err)
	}
	if _, err := set.ChooseCodebook(Spec{Format: "code2", Method: "rtn"}, m, 1, nil); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "l2, sym") {
		t.Errorf("an unknown method: %v", err)
	}
	if _, err := set.ChooseCodebook(Spec{Format: "code2"}, m, 1, make([]float32, 31)); !errors.Is(err, ErrShape) {
		t.Errorf("too little importance: %v", err)
	}
	if _, err := set.BeginWeighted(Spec{Format: "code2", Codebook: 15}, F32, 2, 32, 1, make([]float32, 32)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("weighed: %v", err)
	}
	m.Data = m.Data[1:]
	if _, err := set.ChooseCodebook(Spec{Format: "code2"}, m, 1, nil); !errors.Is(err, ErrShape) {
		t.Errorf("short data: %v", err)
	}
	zeros := f32Matrix(2, 20, make([]float32, 40))
	mask, err := set.ChooseCodebook(Spec{Format: "code2"}, zeros, 0, nil)
	if err != nil || mask&1 == 0 {
		t.Errorf("of zeros: %v, %v", Codebook(mask), err)
	}
	for _, shape := range [][2]int{{0, 16}, {3, 0}} {
		mask, err := set.ChooseCodebook(Spec{Format: "code2"}, Matrix{Element: F32, Rows: shape[0], Cols: shape[1]}, 0, nil)
		if err != nil || bits.OnesCount16(mask) != 4 {
			t.Errorf("of nothing: %v, %v", Codebook(mask), err)
		}
	}
}

// Elements under a scale of 0 are lost whole, and count in what a choice is worth: here
// all of them are.
func TestCodebookWithoutSteps(t *testing.T) {
	x := make([]float32, 2*32)
	for i := range x {
		x[i] = math.SmallestNonzeroFloat32
	}
	spec := Spec{Format: "code2", Convention: ModelOpt, Global: math.SmallestNonzeroFloat32}
	r, err := Best().ChooseBook(spec, StoredOperand(f32Matrix(2, 32, x)), x[0], nil)
	if err != nil || r.L2 != 1 || r.Sym != 1 {
		t.Errorf("%+v, %v, want errors of 1", r, err)
	}
}

// A cell holds what is above its lower border, in magnitude, up to its upper one.
func TestBookCell(t *testing.T) {
	inf := float32(math.Inf(1))
	for x, want := range map[float32]int{0: 28, 0x1p-149: 28, 0.25: 28, 0.26: 29, 0.5: 29, 6: 51, 6.75: 54, 6.76: 55, 7: 55, 7.1: 55, 1e30: 55, inf: 55,
		-0x1p-149: 27, -0.25: 27, -0.26: 26, -6: 4, -6.8: 0, -7: 0, -9: 0, -inf: 0} {
		if got := bookCell(x); got != want {
			t.Errorf("%v is in cell %d, want %d", x, got, want)
		}
	}
	if got := bookCell(float32(math.Copysign(0, -1))); got != 27 {
		t.Errorf("−0 is in cell %d", got)
	}
	rng := rand.New(rand.NewPCG(3, 9))
	for range 20000 {
		x := float32(rng.NormFloat64() * 3)
		lower := float64(bookCell(x)-28) / 4
		if y := float64(x); !(y > 0 && (lower < y && y <= lower+0.25 || lower == 6.75 && y > 7) || y < 0 && (lower <= y && y < lower+0.25 || lower == -7 && y < -7)) {
			t.Fatalf("%v is in the cell from %v", x, lower)
		}
	}
}
