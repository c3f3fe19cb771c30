package verify

import (
	"context"
	"testing"

	"quantscope/kernels"
)

// A good export passes, whatever it was made with, and the report says what was
// compared.
func TestGoodExport(t *testing.T) {
	for _, variant := range []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep"} {
		t.Run(variant, func(t *testing.T) {
			e := exportMoE(t, variant, "modelopt")
			var last Progress
			rep := e.verify(t, Options{
				Progress: func(p Progress) { last = p },
				Record: func(_ context.Context, name string) (kernels.Tap, bool, error) {
					tap, ok := e.taps[name]
					return tap, ok, nil
				},
			})
			if !rep.OK || len(rep.Problems) != 0 {
				t.Fatalf("problems %v", rep.Problems)
			}
			if rep.QuantizedTensors != 10 || rep.QuantizedChecked != 10 || rep.QuantizedReproduced != 10 || rep.RecordsCompared != 10 {
				t.Errorf("%+v", rep)
			}
			if rep.UntouchedTensors != 6 || rep.UntouchedIdentical != 6 || rep.UntouchedBytes != 2*(32*64+64+2*64+64+64+32*64) {
				t.Errorf("%+v", rep)
			}
			if rep.Variant != variant || rep.From != "found" || rep.Method != "modelopt" {
				t.Errorf("variant %q from %q, method %q", rep.Variant, rep.From, rep.Method)
			}
			if rep.QuantizedBytes != rep.TableBytes {
				t.Errorf("%d bytes, the table says %d", rep.QuantizedBytes, rep.TableBytes)
			}
			if last.Done != last.Total || rep.Bytes != last.Total || last.Total == 0 {
				t.Errorf("progress ends at %d of %d", last.Done, last.Total)
			}
			var e2, w2 float64
			for _, tap := range e.taps {
				e2, w2 = e2+tap.SumE2, w2+tap.SumW2
			}
			if got, want := float64(rep.MeanRel2), e2/w2; got < want/2 || got > want*2 {
				t.Errorf("mean rel2 is %v, overall it is %v", got, want)
			}
		})
	}
}
