package layout

import "testing"

func TestReceiptOf(t *testing.T) {
	r := Receipt{Variant: "recipe:r", Recipe: "r", Globals: "shared", Groups: []ReceiptGroup{
		{Variant: "fp8+rtn", Format: "fp8", Method: "rtn", Convention: "ct32", Targets: []string{`re:.*\blayers\.\d+\.self_attn\.(k|q)$`}},
		{Variant: "nvfp4+mse", Format: "nvfp4", Method: "mse", Convention: "ct32", Targets: []string{"model.layers.0.mlp.up", "model.layers.1.self_attn.q"}},
	}}
	for module, want := range map[string]string{"model.layers.0.self_attn.q": "fp8+rtn", "model.layers.0.mlp.up": "nvfp4+mse", "model.layers.0.mlp.up2": "", "model.layers.1.self_attn.q": ""} {
		got, ok := r.Of(module)
		if ok != (want != "") || ok && (got.Variant != want || got.Globals != "shared" || got.Recipe != "r" || got.Groups != nil) {
			t.Errorf("%s: %+v, %t", module, got, ok)
		}
	}
	if got, ok := (Receipt{Variant: "nvfp4", Format: "nvfp4"}).Of("any"); !ok || got.Variant != "nvfp4" {
		t.Errorf("%+v", got)
	}
}
