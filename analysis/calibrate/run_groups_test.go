package calibrate

import (
	"bytes"
	"slices"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/export"
)

// TestGroupsOfMovedWeights: a run's codes are those of GPTQ under the Hessian that it
// measured, with group parameters of the weights as earlier errors moved them, and
// of the weights as they are where columns are taken in another order.
func TestGroupsOfMovedWeights(t *testing.T) {
	ref := demoReference(t)
	for _, name := range []string{"int4-g32+gptq", "nvfp4+gptq", "mxfp4+gptq", "int4-g32+gptq+act"} {
		s := setup(t, ref, name, `re:model\.layers\.1\.mlp\.experts\.3\.`, 8)
		s.Globals = export.PerTensor
		hessians := map[string]kernels.Dense{}
		otherwise := 0
		calibrated(t, s, Sink{
			Moments: func(m *Moments) error {
				h := m.H
				h.Data = slices.Clone(h.Data)
				hessians[m.At.String()] = h
				return nil
			},
			Matrix: func(r Result) error {
				amax, err := s.Set.AbsMax(r.Source)
				if err != nil {
					return err
				}
				h, act := hessians[r.Trade.Input], s.Variant.ActOrder
				var o kernels.FactorOptions
				if act {
					o.Order = falling(h)
				}
				f, err := s.Set.Factorize(h, o)
				if err != nil {
					return err
				}
				for _, static := range []bool{act, true} {
					out := kernels.Output{Codes: make([]byte, len(r.Codes.Codes)), Scales: make([]byte, len(r.Codes.Scales)), Mins: make([]byte, len(r.Codes.Mins))}
					if _, err := s.Set.GPTQ(kernels.StoredOperand(r.Source), f, kernels.GPTQOptions{Spec: s.Variant.Spec, Amax: amax, Static: static}, &out); err != nil {
						return err
					}
					switch same := bytes.Equal(out.Codes, r.Codes.Codes) && bytes.Equal(out.Scales, r.Codes.Scales) && bytes.Equal(out.Mins, r.Codes.Mins); {
					case static == act && !same:
						t.Errorf("%s: %s has other codes than its Hessian makes of it", name, r.Codes.Name)
					case static != act && !same:
						otherwise++
					}
				}
				return nil
			},
		})
		if !s.Variant.ActOrder && otherwise != 3 {
			t.Errorf("%s: groups that are static make other codes of %d matrices, want 3", name, otherwise)
		}
	}
}
