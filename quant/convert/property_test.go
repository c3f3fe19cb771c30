package convert

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout/layouttest"
)

// packed are the tensors of a random matrix in the layout of GPTQ or AWQ.
func packed(name string, p layouttest.Packed, f layouttest.Form) []part {
	groups := []int64{int64(p.Groups), int64(p.Rows)}
	out := []part{
		{name + ".qweight", checkpoint.I32, p.QweightShape, p.Qweight},
		{name + ".qzeros", checkpoint.I32, p.QzerosShape, p.Qzeros},
		{name + ".scales", checkpoint.F16, groups, p.Scales},
	}
	if !f.AWQ {
		out = append(out, part{name + ".g_idx", checkpoint.I32, []int64{int64(p.Cols)}, p.Index})
	}
	return out
}

// Random packs of any bits, groups, order and label become words whose values are the
// matrix's that they were packed from, and GPTQ's come back byte for byte.
func TestRandomPacks(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		f := layouttest.Form{
			AWQ: rapid.Bool().Draw(r, "awq"), Bits: rapid.SampledFrom([]int{2, 3, 4, 8}).Draw(r, "bits"), Group: rapid.SampledFrom([]int{32, 64, -1}).Draw(r, "group"),
			Sym: rapid.Bool().Draw(r, "sym"), V2: rapid.Bool().Draw(r, "v2"), Order: rapid.Bool().Draw(r, "order"),
		}
		rows, cols := 32*rapid.IntRange(1, 5).Draw(r, "rows"), 64*rapid.IntRange(1, 3).Draw(r, "cols")
		if f.AWQ {
			f.Bits, f.Sym, f.Order = 4, false, false
		}
		w := make([]float32, rows*cols)
		seed := rapid.Uint64().Draw(r, "seed")
		for i := range w {
			seed = seed*6364136223846793005 + 1442695040888963407
			w[i] = float32(int32(seed>>32)) / (1 << 30)
		}
		p := layouttest.Pack(w, rows, cols, f, seed)
		quant := f.Config()
		if f.AWQ {
			quant["modules_to_not_convert"] = []string{"lm_head", "mlp"}
		} else {
			quant["dynamic"] = map[string]any{"-:.*gate_proj$": map[string]any{}}
		}
		text, err := json.Marshal(quant)
		if err != nil {
			t.Fatal(err)
		}
		dir := folder(t, string(text), packed(proj, p, f))
		out, report := convertTo(t, dir, CompressedTensors)
		if report.Values.Differ != report.Values.Rounded {
			r.Fatalf("%+v", report.Values)
		}
		_, _, l := open(t, out)
		m, _ := l.Lookup(proj)
		got := make([]float32, rows*cols)
		var x ints
		if err := m.Dequantize(t.Context(), got, 0, &x.Stored); err != nil {
			t.Fatal(err)
		}
		for i := range got {
			if want := toF16(p.Decoded[i]); !same(got[i], want) {
				r.Fatalf("element %d is %v, want %v", i, got[i], want)
			}
		}
		ck, model, l := open(t, out)
		plan, err := New(t.Context(), ck, model, l, Options{Layout: GPTQ})
		if err != nil {
			t.Fatal(err)
		}
		if f.AWQ || plan.facts.zero && !f.V2 { // labelled otherwise, so that no reader borrows
			return
		}
		back, _ := convertTo(t, out, GPTQ)
		sameFiles(t, "back", dir, back)
	})
}
