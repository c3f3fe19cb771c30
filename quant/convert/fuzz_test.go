package convert

import (
	"context"
	"path/filepath"
	"testing"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// Whatever a config says, a conversion is refused, or is what it promises: nothing panics,
// and no report is bad.
func FuzzConfig(f *testing.F) {
	for _, quant := range []string{
		gptqQuant(4, 32, true, false, "gptq"), gptqQuant(4, 32, false, false, "gptq_v2"), gptqQuant(4, -1, true, true, ""), gptqQuant(2, 64, true, false, "gptq"),
		`{"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": false, "desc_act": false, "checkpoint_format": "gptq_v2", "dynamic": {"+:.*q_proj$": {"bits": 4, "group_size": 64}, "-:.*": {}}}`,
		`{"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}`, `null`, `{}`, `[]`, `{"quant_method": 1}`,
		`{"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": true, "version": "gemm", "modules_to_not_convert": ["[", "re:("]}`,
		`{"quant_method": "gptq", "bits": 4, "group_size": 32, "checkpoint_format": "gptq", "quantscope": {"converted": {"from": "gptq", "checkpoint_format": "gptq_v2"}}}`,
	} {
		f.Add(quant, uint8(0))
		f.Add(quant, uint8(1))
		f.Add(quant, uint8(2))
	}
	parts := small(sym4)
	dir := folder(f, "null", parts)
	f.Fuzz(func(t *testing.T, quant string, to uint8) {
		mine := filepath.Join(t.TempDir(), "in")
		link(t, dir, mine)
		putFile(t, mine, "config.json", `{"model_type": "llama", "quantization_config": `+quant+`}`)
		ck, err := checkpoint.Open(mine)
		if err != nil {
			return
		}
		defer ck.Close()
		model, err := topology.FromCheckpoint(ck)
		if err != nil {
			return
		}
		l, err := layout.Open(ck, model)
		if err != nil {
			return
		}
		p, err := New(context.Background(), ck, model, l, Options{Layout: Layouts()[int(to)%len(Layouts())]})
		if err != nil {
			return
		}
		out := filepath.Join(t.TempDir(), "out")
		if _, _, err := p.Write(context.Background(), out, WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		r, err := p.Check(context.Background(), out, 1)
		if err != nil || !r.OK() {
			t.Fatalf("%v: %+v", err, r)
		}
	})
}
