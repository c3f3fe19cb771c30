package verify

import (
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// What a chooser makes of an FP4 source is made again, whether it is named or found,
// in place and packed.
func TestRecodedReproduced(t *testing.T) {
	for _, where := range []string{export.ModelOpt, export.CompressedTensors} {
		base := exportMoE(t, "nvfp4", where)
		ck, model := openSource(t, base.dir)
		l := openedModel(t, ck)
		out := base.copied(t)
		taps := map[string]kernels.Tap{}
		for i := range l.Modules {
			m := &l.Modules[i]
			var s layout.Stored
			if err := m.Read(t.Context(), &s, 0, m.Rows); err != nil {
				t.Fatal(err)
			}
			fp4 := kernels.FP4{Format: m.Spec.Format, Convention: m.Spec.Convention, Rows: m.Rows, Cols: m.Cols, Codes: s.Codes, Scales: s.Scales, Global: s.Global}
			r, err := kernels.Best().ChooseRecoding(fp4, "sym", nil)
			if err != nil {
				t.Fatal(err)
			}
			bytesOf(t, out.dir, m.CodeTensor().Name, func(raw []byte) {
				tap, err := kernels.Best().Recode(raw, fp4, r)
				if err != nil {
					t.Fatal(err)
				}
				taps[m.CodeTensor().Name] = tap
			})
		}
		e := exported{ck: ck, model: model, dir: out.dir, taps: taps}
		rep := e.verify(t, Options{})
		if !rep.OK || rep.Variant != "code2+sym" || rep.From != "found" || rep.QuantizedReproduced != len(taps) || rep.Recoded != len(taps) {
			t.Errorf("%s: %+v", where, rep)
		}
		rep = e.verify(t, Options{Variant: "code2+sym", Session: e.session("code2+sym")})
		if !rep.OK || rep.From != "options" || rep.QuantizedReproduced != len(taps) || rep.RecordsCompared != len(taps) {
			t.Errorf("%s: %+v", where, rep)
		}
		if rep = e.verify(t, Options{Variant: "code2+asym"}); rep.OK || !slices.ContainsFunc(rep.Problems, func(p Problem) bool {
			return p.ID == CodesDiffer && strings.Contains(p.Message, "not what code2+asym makes")
		}) {
			t.Errorf("%s: %+v", where, rep.Problems)
		}
		tap := taps[l.Modules[3].CodeTensor().Name]
		tap.SumE2 *= 2
		taps[l.Modules[3].CodeTensor().Name] = tap
		if rep = e.verify(t, Options{Variant: "code2+sym", Session: e.session("code2+sym")}); rep.OK || rep.Problems[0].ID != RecordDiffers || rep.Problems[0].Tensor != l.Modules[3].CodeTensor().Name {
			t.Errorf("%s: %+v", where, rep.Problems)
		}
	}
}
