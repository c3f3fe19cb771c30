package kernels

import (
	"bytes"
	"slices"
	"testing"
)

// Four over six equals nvidia-modelopt's: testdata/make/four_over_six.py.
func TestNVFP4FourOverSixGolden(t *testing.T) {
	g := golden(t, "golden/nvfp4_four_over_six.safetensors")
	for _, set := range Available() {
		for _, name := range []string{"gaussian", "heavy_tail", "zero_blocks", "range24"} {
			t.Run(set.Name+"/"+name, func(t *testing.T) {
				m := need(t, g, name+".w").matrix(t)
				q := quantize(t, set, m, NVFP4Options{Method: NVFP4FourOverSix})
				if want := need(t, g, name+".weight_scale_2").f32()[0]; q.GlobalScale != want {
					t.Errorf("weight_scale_2 %v, want %v", q.GlobalScale, want)
				}
				if want := need(t, g, name+".weight_scale").data; !bytes.Equal(q.Scales, want) {
					t.Errorf("scales: %s", firstDiff(q.Scales, want))
				}
				if want := need(t, g, name+".weight").data; !bytes.Equal(q.Codes, want) {
					t.Errorf("codes: %s", firstDiff(q.Codes, want))
				}
				decoded := q.decode(t, ModelOpt)
				if got, want := bitsOf(decoded), bitsOf(need(t, g, name+".dequant_f32").f32()); !slices.Equal(got, want) {
					t.Errorf("decoded: %s", firstDiff(got, want))
				}
				t.Log(q.tap.Multipliers[:2])
				checkTap(t, q, decoded)
			})
		}
	}
}
