package census

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// nearestE4M3 is the code nearest to a magnitude by trying all of them, the even
// one of two that are equally near, and 448 beyond that.
func nearestE4M3(x float64) byte {
	best, at := math.Inf(1), byte(0)
	for c := range byte(127) {
		if d := math.Abs(float64(kernels.E4M3ToF32(c)) - min(x, kernels.MaxE4M3)); d < best || d == best && c%2 == 0 {
			best, at = d, c
		}
	}
	return at
}

// Compensation is the product with the ratio, to nearest, ties to even, clamped,
// for every scale there is and either convention.
func TestCompensation(t *testing.T) {
	for _, ratio := range []float32{1e-6, 0.2, 0.25, 0.5, 0.7, 0.9375, 0.999, 1.001, 1.03125, 1.0625, 1.289, 2, 10, 1e5} {
		for _, divisor := range []bool{false, true} {
			from, to := float32(0x1p-12)*ratio, float32(0x1p-12)
			if divisor {
				from, to = 0x1p12, 0x1p12*ratio
			}
			c := export.Compensate(from, to, divisor)
			for b := range 256 {
				scale := kernels.E4M3ToF32(byte(b))
				if scale != scale {
					if got := c.Code[b]; got&0x7f != 0x7f || c.Clamped[b] || c.Underflowed[b] {
						t.Errorf("NaN becomes %#x", got)
					}
					continue
				}
				x := math.Abs(float64(scale * ratio))
				want := nearestE4M3(x) | byte(b)&0x80
				if c.Code[b] != want || c.Clamped[b] != (x > 448) || c.Underflowed[b] != (want&0x7f == 0 && scale != 0) {
					t.Errorf("%v × %v: %#x, clamped %t, underflowed %t; want %#x", scale, ratio, c.Code[b], c.Clamped[b], c.Underflowed[b], want)
				}
			}
		}
	}
}

// rel is ‖w−q‖/‖w‖.
func rel(w, q []float32) float64 {
	var e2, w2 float64
	for i := range w {
		e2 += (float64(w[i]) - float64(q[i])) * (float64(w[i]) - float64(q[i]))
		w2 += float64(w[i]) * float64(w[i])
	}
	return math.Sqrt(e2 / w2)
}

// prove is the proof against the demo.
func prove(t testing.TB, dir string, o Options) *Report {
	t.Helper()
	ck, model := open(t, dir)
	from, fm := open(t, demo.Label)
	rep, err := Run(t.Context(), ck, model)
	if err != nil {
		t.Fatal(err)
	}
	rep, err = Prove(t.Context(), rep, ck, model, NewMaster(from, fm), o)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// On the demo: what is stored is what the layout decodes, what is served is that
// times the ratio of the scales, and compensation is the nearest scales. Sums do
// not depend on the workers.
func TestProofOfDemo(t *testing.T) {
	for _, lay := range []string{layout.ModelOpt, layout.CompressedTensors} {
		t.Run(lay, func(t *testing.T) {
			dir := exportDemo(t, "nvfp4", lay, export.PerTensor)
			calls, last := 0, Progress{}
			rep := prove(t, dir, Options{Threads: 3, Progress: func(p Progress) { calls++; last = p }})
			if rep.Pairs != 80 || rep.Differing != 80 || len(rep.Left) > 0 || rep.Proof.Members != 80 || rep.Master != demo.Label {
				t.Fatalf("%+v, %+v", rep.Totals, rep.Left)
			}
			if calls != 80 || last.Done != last.Total || last.Total == 0 {
				t.Errorf("%d calls, the last %+v", calls, last)
			}
			var sum ProofSum
			for _, l := range rep.Layers {
				for _, g := range l.Groups {
					if len(g.Proof) != 1 {
						t.Fatalf("%+v", g)
					}
					p, up := g.Proof[0], g.Members[1]
					sum.Served += p.Served
					sum.Clamped += p.Clamped
					if g.Expert%5 != 0 { // of some the figures are made again
						continue
					}
					w, q := masterOf(t, up.Name), decoded(t, dir, up.Name)
					served := slices.Clone(q)
					for i := range served {
						served[i] = float32(float64(q[i]) / up.Ratio)
					}
					if d := rel(w, q); math.Abs(p.Stored-d) > 1e-12 {
						t.Errorf("%s: stored %v, want %v", up.Name, p.Stored, d)
					}
					if d := rel(w, served); math.Abs(p.Served-d) > 1e-6 {
						t.Errorf("%s: served %v, want %v", up.Name, p.Served, d)
					}
					if d := math.Sqrt(p.Stored*p.Stored + up.Change*up.Change); math.Abs(p.Served/d-1) > 0.1 {
						t.Errorf("%s: served %v, about %v by the ratio %v", up.Name, p.Served, d, up.Ratio)
					}
					e, clamped := compensatedError(t, dir, up.Name, w, float32(g.Members[0].Scale), up.Ratio)
					if math.Abs(p.Compensated-e) > 1e-6 || p.Clamped != clamped || p.RoundingCost != p.Compensated-p.Stored {
						t.Errorf("%s: compensated %v, %d clamped; want %v, %d", up.Name, p.Compensated, p.Clamped, e, clamped)
					}
					if (up.Ratio > 1) != (clamped > 0) { // the largest block scale of each is 448
						t.Errorf("%s: ratio %v, %d clamped", up.Name, up.Ratio, clamped)
					}
				}
			}
			if p := rep.Proof; math.Abs(p.Served-sum.Served/80) > 1e-15 || p.Clamped != sum.Clamped || !(p.Stored < p.Compensated && p.Compensated < p.Served) {
				t.Errorf("%+v", p)
			}
			if s := rep.Sentence(); !strings.HasPrefix(s, "a server that uses the first scale turns rel_l2 0.0951 into 0.118 in 80 of 80 pairs; compensation brings it to 0.0986; 132 scales clamp") {
				t.Error(s)
			}
			one, err := json.Marshal(prove(t, dir, Options{Threads: 1}))
			if err != nil {
				t.Fatal(err)
			}
			if many, _ := json.Marshal(rep); string(one) != string(many) {
				t.Error("one worker has other figures than three")
			}
		})
	}
}

// compensatedError is the error of a module whose block scales are multiplied by
// a ratio, made with nothing of the code that is tested.
func compensatedError(t testing.TB, dir, module string, w []float32, scale2 float32, ratio float64) (e float64, clamped int64) {
	t.Helper()
	ck, model := open(t, dir)
	l, err := layout.Open(ck, model)
	if err != nil {
		t.Fatal(err)
	}
	m, _ := l.Lookup(module)
	var s layout.Stored
	if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
		t.Fatal(err)
	}
	q := make([]float32, m.Rows*m.Cols)
	for b, code := range s.Scales {
		x := float64(float32(float64(kernels.E4M3ToF32(code)) * ratio))
		if x > 448 {
			clamped++
		}
		step := kernels.E4M3ToF32(nearestE4M3(x)) * scale2
		for c := b * 16; c < (b+1)*16; c++ {
			q[c] = kernels.E2M1ToF32(s.Codes[c/2]>>(c%2*4)&15) * step
		}
	}
	return rel(w, q), clamped
}

// What cannot be held against the master is listed, and weights that are no
// numbers are left out of the sums.
func TestProofLeavesOut(t *testing.T) {
	const m = "model.layers.0.mlp."
	gate, up := floats(8*32, 1, 0.02), floats(8*32, 2, 0.03)
	dir := writeFiles(t, "", slices.Concat(packed(t, m+"gate_proj", layout.ModelOpt, gate, 8, 32, 0), packed(t, m+"up_proj", layout.ModelOpt, up, 8, 32, 0)))
	bad := slices.Clone(up)
	bad[5], bad[77] = float32(math.NaN()), float32(math.Inf(-1))
	for _, c := range []struct {
		name, reason string
		shard        []stored
	}{
		{"missing", "no such matrix", []stored{bf16(t, m+"gate_proj.weight", gate, 8, 32)}},
		{"of another shape", "is 8×32, in the master 16×16", []stored{bf16(t, m+"gate_proj.weight", gate, 8, 32), bf16(t, m+"up_proj.weight", up, 16, 16)}},
		{"of another type", "the master stores it as F8_E4M3", []stored{bf16(t, m+"gate_proj.weight", gate, 8, 32), {m + "up_proj.weight", checkpoint.F8E4M3, []int64{8, 32}, make([]byte, 256)}}},
		{"zero", "0 throughout", []stored{bf16(t, m+"gate_proj.weight", gate, 8, 32), bf16(t, m+"up_proj.weight", make([]float32, 256), 8, 32)}},
		{"not finite", "", []stored{bf16(t, m+"gate_proj.weight", gate, 8, 32), bf16(t, m+"up_proj.weight", bad, 8, 32)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ck, model := open(t, dir)
			from, fm := open(t, writeFiles(t, "", c.shard))
			rep, err := Run(t.Context(), ck, model)
			if err == nil {
				rep, err = Prove(t.Context(), rep, ck, model, NewMaster(from, fm), Options{})
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := json.Marshal(rep); err != nil {
				t.Error(err)
			}
			if c.reason != "" {
				if len(rep.Left) != 1 || rep.Left[0].Name != m+"up_proj" || !strings.Contains(rep.Left[0].Reason, c.reason) || rep.Proof != nil {
					t.Errorf("%+v, %+v", rep.Left, rep.Proof)
				}
				return
			}
			if len(rep.Left) != 0 || rep.Layers[0].Groups[0].Proof[0].NonFinite != 2 || !(rep.Proof.Stored < 0.15) {
				t.Errorf("%+v, %+v", rep.Left, rep.Layers[0].Groups[0])
			}
		})
	}
}

// A block scale that is NaN is a reason, not a figure.
func TestProofOfNaNScales(t *testing.T) {
	const m = "model.layers.0.mlp."
	gate, up := floats(8*32, 1, 0.02), floats(8*32, 2, 0.03)
	p := packed(t, m+"up_proj", layout.ModelOpt, up, 8, 32, 0)
	p[1].data[3] = 0x7f
	ck, model := open(t, writeFiles(t, "", slices.Concat(packed(t, m+"gate_proj", layout.ModelOpt, gate, 8, 32, 0), p)))
	from, fm := open(t, writeFiles(t, "", []stored{bf16(t, m+"gate_proj.weight", gate, 8, 32), bf16(t, m+"up_proj.weight", up, 8, 32)}))
	rep, err := Run(t.Context(), ck, model)
	if err == nil {
		rep, err = Prove(t.Context(), rep, ck, model, NewMaster(from, fm), Options{Fix: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	if rep.Proof != nil || len(rep.Left) != 1 || rep.Left[0].Reason != "16 of its weights decode to no finite number" {
		t.Errorf("%+v, %+v", rep.Left, rep.Proof)
	}
	if f := rep.Layers[0].Groups[0].Fix; f == nil || f.By != ByRequantization { // which mends that as well
		t.Errorf("%+v", f)
	}
}

// Masters that keep experts in one tensor, either way round, are found too.
func TestMasterWithFusedExperts(t *testing.T) {
	ck, model := open(t, casePath("C26-fused-experts"))
	master := NewMaster(ck, model)
	for i := range model.Matrices {
		x := &model.Matrices[i]
		name, err := export.Module(x)
		if err != nil {
			t.Fatal(err)
		}
		for _, module := range []string{name, strings.TrimSuffix(x.Name, ".weight")} {
			if strings.HasSuffix(module, "gate") || strings.HasSuffix(module, "up") {
				continue // a half of a tensor, which no module is called
			}
			r, why := master.of(&layout.Module{Name: module, Rows: x.Rows, Cols: x.Cols})
			if why != "" || r.m.Name != x.Name {
				t.Errorf("%s: %v, %q", module, r, why)
			}
		}
	}
}

// Columns and strides: rows of every kind of matrix are the elements that its
// strides name.
func TestMatrixReader(t *testing.T) {
	ck, model := open(t, casePath("C26-fused-experts"))
	for i := range model.Matrices {
		m := model.Matrices[i]
		x, _ := ck.Lookup(m.Tensor)
		raw := make([]byte, x.Size)
		if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
			t.Fatal(err)
		}
		kinds := []struct {
			rowStride, colStride int64
			rows, cols           int
		}{{m.RowStride, m.ColStride, m.Rows, m.Cols}, {1, int64(m.Cols), m.Cols, m.Rows}, {2 * int64(m.Cols), 1, m.Rows / 2, m.Cols}}
		for _, k := range kinds {
			m := m
			m.RowStride, m.ColStride, m.Rows, m.Cols = k.rowStride, k.colStride, k.rows, k.cols
			r := matrixReader{ck: ck, t: x, m: &m, elem: kernels.BF16}
			for first := 0; first < m.Rows; first += 3 {
				n := min(3, m.Rows-first)
				got, err := r.rows(t.Context(), first, n)
				if err != nil {
					t.Fatal(err)
				}
				for e := range n * m.Cols {
					at := int(m.Offset) + 2*((first+e/m.Cols)*int(m.RowStride)+e%m.Cols*int(m.ColStride))
					if got[2*e] != raw[at] || got[2*e+1] != raw[at+1] {
						t.Fatalf("%s, strides %d and %d: element %d from row %d", m.Name, m.RowStride, m.ColStride, e, first)
					}
				}
			}
		}
	}
}

// The end of the context ends the proof, with its error.
func TestProofThatIsCancelled(t *testing.T) {
	dir := exportDemo(t, "nvfp4", layout.ModelOpt, export.PerTensor)
	ck, model := open(t, dir)
	from, fm := open(t, demo.Label)
	rep, err := Run(t.Context(), ck, model)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Prove(ctx, rep, ck, model, NewMaster(from, fm), Options{Threads: 2, Progress: func(p Progress) {
		if p.Done > p.Total/4 {
			cancel()
		}
	}})
	if err != context.Canceled {
		t.Error(err)
	}
}
