package kernels

import (
	"bytes"
	"errors"
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

// bookError is Σ f·(w−q)² where each finite element gets the nearest of the
// values of a codebook, by plain loops.
func bookError(w []float32, steps []float32, f []float32, values []float32) float64 {
	sum := 0.0
	for i, x := range w {
		least := math.Inf(1)
		for _, v := range values {
			least = min(least, math.Abs(float64(x)-float64(v)*float64(steps[i])))
		}
		sum += float64(f[i]) * least * least
	}
	return sum
}

// The codebook is the best of all, found by trying them element by element; the
// symmetric one the best of those; the weighed one by weighed errors.
func TestChooseCodebookBruteForce(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for trial := range 8 {
		conv := []Convention{ModelOpt, ModelOptStatic, CT32, CT}[trial%4]
		m := heavyTailed(3, 70, uint64(trial))
		w := make([]float32, m.Rows*m.Cols)
		if err := DecodeFloats(w, m.Element, m.Data); err != nil {
			t.Fatal(err)
		}
		if trial > 3 { // not symmetric
			for i := range w {
				w[i] = w[i] + 0.01
			}
			m = f32Matrix(m.Rows, m.Cols, w)
		}
		importance := make([]float32, m.Cols)
		for i := range importance {
			importance[i] = float32(math.Exp(2 * rng.NormFloat64()))
		}
		rtn := weigh(t, Best(), m, Spec{Format: "nvfp4", Convention: conv, Method: "rtn"}, nil)
		steps, even, weighed := make([]float32, len(w)), make([]float32, len(w)), make([]float32, len(w))
		for i := range w {
			r, c := i/m.Cols, i%m.Cols
			steps[i] = nvfp4Step(rtn.Scales[r*ceilDiv(m.Cols, 16)+c/16], rtn.global, conv)
			even[i], weighed[i] = 1, importance[c]
		}
		for _, method := range []string{"l2", "sym"} {
			for _, f := range []struct {
				importance, factors []float32
			}{{nil, even}, {importance, weighed}} {
				spec := Spec{Format: "code2", Convention: conv, Method: method}
				b, chosen := quantizeBook(t, Best(), m, spec, f.importance, 0)
				got, least, tried := bookError(w, steps, f.factors, Codebook(chosen.Codebook)), math.Inf(1), 0
				for mask := range uint16(1 << 15) {
					mask = mask&0xff | mask&0x7f00<<1 // no −0
					values := Codebook(mask)
					if bits.OnesCount16(mask) != 4 || method == "sym" && (values[0] != -values[3] || values[1] != -values[2]) {
						continue
					}
					tried++
					least = min(least, bookError(w, steps, f.factors, values))
				}
				if want := map[string]int{"l2": 1365, "sym": 21}[method]; tried != want {
					t.Fatalf("%d codebooks of %s, want %d", tried, method, want)
				}
				if !(got <= least*(1+1e-9)) {
					t.Errorf("trial %d, %s: %v has an error of %v, the best %v", trial, method, Codebook(chosen.Codebook), got, least)
				}
				if e := b.tap.SumE2; f.importance == nil && math.Abs(e-got) > 1e-5*got {
					t.Errorf("trial %d, %s: the record has an error of %v, want %v", trial, method, e, got)
				}
				if !bytes.Equal(b.Scales, rtn.Scales) || b.global != rtn.global {
					t.Errorf("trial %d, %s: scales are not those of round to nearest", trial, method)
				}
			}
		}
	}
}

// Only codes of the codebook are written; every set and every way to cut rows
// gives the same; the record is that of plain loops over what is decoded.
func TestCodebookPass(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 6))
		m := wildMatrix(rng, []Element{BF16, F16, F32}[seed%3], 3, rng.IntN(300)+1)
		spec := Spec{Format: "code2", Convention: Convention(seed % 4), Method: []string{"l2", "sym"}[seed/4%2]}
		if seed%5 == 0 {
			spec.Use(Recoding{Codebook: []uint16{1<<1 | 1<<7 | 1<<9 | 1<<15, 1 | 1<<3 | 1<<5 | 1<<14, 1<<4 | 1<<5 | 1<<6 | 1<<7, 1<<9 | 1<<10 | 1<<11 | 1}[seed/5%4], L2: 0.1, Sym: 0.2})
		}
		want, spec := quantizeBook(t, Reference(), m, spec, testImportance(m.Cols), 0)
		decoded := want.decode(t, spec, m)
		checkBlockTap(t, m, spec, &want, decoded)
		for r := range m.Rows {
			for c := range m.Cols {
				index := want.Codes[r*ceilDiv(m.Cols, 4)+c/4] >> (c % 4 * 2) & 3
				v := Codebook(spec.Codebook)[index]
				step := nvfp4Step(want.Scales[r*ceilDiv(m.Cols, 16)+c/16], want.global, spec.Convention)
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
	if got := b.decode(t, spec, m)[:10]; !slices.Equal(got, []float32{4, 2, -2, 2, 2, 2, 4, -4, 4, -2}) {
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
