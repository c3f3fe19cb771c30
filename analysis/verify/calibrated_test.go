package verify

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/export"
	"quantscope/quant/recipe"
)

// keptCodes are codes by the name of their matrix.
type keptCodes map[string]codes.Matrix

func (k keptCodes) Matrix(name string) (codes.Matrix, error) {
	m, ok := k[name]
	if !ok {
		return m, errors.New("codes: nowhere: has no matrix " + name)
	}
	return m, nil
}

// exportCalibrated exports codes that no quantizer makes of the weights alone: some
// are one off, as errors that moved from other columns leave them.
func exportCalibrated(t *testing.T, variant, layout string) (exported, keptCodes) {
	t.Helper()
	src := t.TempDir()
	writeSource(t, src, moe)
	ck, model := openSource(t, src)
	out, kept := exported{ck: ck, model: model, dir: filepath.Join(t.TempDir(), "out"), taps: map[string]kernels.Tap{}}, keptCodes{}
	sel, err := recipe.Select(model, "*experts*")
	if err != nil {
		t.Fatal(err)
	}
	v := variantWith(t, variant, layout)
	plan, err := export.NewPlan(ck, model, sel.Matrices, v, export.Settings{Layout: layout, Globals: export.PerTensor})
	if err != nil {
		t.Fatal(err)
	}
	w, err := export.Create(t.Context(), plan, out.dir, export.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	set := kernels.Best()
	for i := range plan.Matrices {
		m := readMatrix(t, ck, &plan.Matrices[i])
		amax, err := set.AbsMax(m)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := v.Baseline().Prepared(set, kernels.StoredOperand(m), amax, nil)
		if err != nil {
			t.Fatal(err)
		}
		pass, err := set.Begin(spec, m.Element, m.Rows, m.Cols, amax)
		if err != nil {
			t.Fatal(err)
		}
		n := pass.Sizes(m.Rows)
		o := kernels.Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales)}
		if n.Mins > 0 {
			o.Mins = make([]byte, n.Mins)
		}
		if err := pass.Rows(m.Data, &o); err != nil {
			t.Fatal(err)
		}
		global := pass.Global()
		if _, err := pass.Finish(); err != nil {
			t.Fatal(err)
		}
		for k := 0; k < len(o.Codes); k += 3 {
			o.Codes[k] ^= 1
		}
		tap, err := set.TapOf(spec, kernels.StoredOperand(m), &o, global, 1)
		if err != nil {
			t.Fatal(err)
		}
		var sums kernels.Moments
		if err := set.Moments(m, &sums); err != nil {
			t.Fatal(err)
		}
		tap.SetMoments(sums)
		name := plan.Matrices[i].Name
		out.taps[name] = tap
		kept[name] = codes.Matrix{Name: name, Rows: m.Rows, Cols: m.Cols, Codes: o.Codes, Scales: o.Scales, Mins: o.Mins, Global: global, Codebook: spec.Codebook, Effective: v.Name}
		if err := w.StoreMade(i, 0, &o, kernels.Spec{Global: global, Codebook: spec.Codebook}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out, kept
}

// fine wants a report without problems.
func fine(t *testing.T, e *exported, o Options) *Report {
	t.Helper()
	rep := e.verify(t, o)
	if !rep.OK || len(rep.Problems) > 0 {
		t.Errorf("%+v", rep.Problems)
	}
	return rep
}

// An export of a calibrated variant is good by itself, by its codes and by its
// session, in every layout; nothing says that it was made again of the weights.
func TestCalibratedExport(t *testing.T) {
	for _, c := range []struct{ variant, layout string }{
		{"nvfp4+gptq", export.ModelOpt}, {"nvfp4+mse_ge1+gptq", export.CompressedTensors}, {"nvfp4+imatrix", export.ModelOpt}, {"nvfp4+4over6+gptq", export.ModelOpt},
		{"mxfp4+gptq+act", export.CompressedTensors}, {"int4-g32+range+gptq", export.Own}, {"int4-g32-sym+gptq", export.CompressedTensors}, {"int4-channel+gptq", export.CompressedTensors},
		{"code2+sym+gptq", export.ModelOpt}, {"code2+imatrix+gptq+act", export.CompressedTensors}, {"code2+sym+imatrix", export.Own},
		{"code2-mxfp4+gptq", export.Own}, {"code2-mxfp4+sym+gptq", export.CompressedTensors},
		{"code2+sym+gptq", export.ModelOpt}, {"code2+imatrix+gptq+act", export.CompressedTensors}, {"code2+sym+imatrix", export.Own}, {"code2-mxfp4+gptq", export.Own}, {"code2-mxfp4+sym+gptq", export.CompressedTensors},
	} {
		t.Run(c.variant+" "+c.layout, func(t *testing.T) {
			t.Parallel()
			e, kept := exportCalibrated(t, c.variant, c.layout)
			rep := fine(t, &e, Options{Variant: c.variant})
			if !rep.Calibrated || rep.QuantizedReproduced != 0 || rep.QuantizedChecked != 6 || len(rep.Notes) == 0 || !strings.Contains(rep.Notes[0], "cannot be made again of the weights: they were read and decoded") {
				t.Errorf("%+v", rep)
			}
			rep = fine(t, &e, Options{Variant: c.variant, Session: e.session(c.variant)})
			if rep.RecordsCompared != 6 || rep.QuantizedReproduced != 0 {
				t.Errorf("%+v", rep)
			}
			rep = fine(t, &e, Options{Variant: c.variant, Session: e.session(c.variant), Codes: kept})
			if rep.RecordsCompared != 6 || rep.QuantizedReproduced != 6 || len(rep.Notes) != 0 {
				t.Errorf("%+v", rep)
			}
		})
	}
}

// Codes other than those that were kept, or measured, are named.
func TestCalibratedFaults(t *testing.T) {
	const name = "model.layers.0.mlp.experts.1.down_proj.weight"
	for what, c := range map[string]struct {
		change func(k keptCodes)
		taps   func(taps map[string]kernels.Tap)
		id     string
		want   string
	}{
		"a code":           {change: func(k keptCodes) { k[name].Codes[5] ^= 0x20 }, id: CodesDiffer, want: "1 codes differ from those that were kept, at [0,11]"},
		"a scale":          {change: func(k keptCodes) { k[name].Scales[1]++ }, id: ScalesDiffer, want: "1 scales differ from those that were kept"},
		"no codes":         {change: func(k keptCodes) { delete(k, name) }, id: CodesMissing, want: "has no matrix " + name},
		"another shape":    {change: func(k keptCodes) { m := k[name]; m.Rows--; k[name] = m }, id: CodesMissing, want: "has 63×32 of it"},
		"another global":   {change: func(k keptCodes) { m := k[name]; m.Global *= 2; k[name] = m }, id: GlobalDiffers, want: "beside the codes that were kept"},
		"another record":   {taps: func(taps map[string]kernels.Tap) { r := taps[name]; r.Codes[3]++; taps[name] = r }, id: RecordDiffers, want: "Codes"},
		"another error":    {taps: func(taps map[string]kernels.Tap) { r := taps[name]; r.SumE2 *= 1.001; taps[name] = r }, id: RecordDiffers, want: "SumE2"},
		"a missing record": {taps: func(taps map[string]kernels.Tap) { delete(taps, name) }, id: RecordMissing, want: name},
	} {
		t.Run(what, func(t *testing.T) {
			e, kept := exportCalibrated(t, "nvfp4+gptq", export.ModelOpt)
			if c.change != nil {
				c.change(kept)
			}
			if c.taps != nil {
				c.taps(e.taps)
			}
			rep := e.verify(t, Options{Session: e.session("nvfp4+gptq"), Variant: "nvfp4+gptq", Codes: kept})
			if rep.OK || len(rep.Problems) != 1 || rep.Problems[0].ID != c.id || !strings.Contains(rep.Problems[0].Message, c.want) {
				t.Errorf("%+v", rep.Problems)
			}
		})
	}
}
