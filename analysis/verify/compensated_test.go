package verify

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/census"
	"quantscope/kernels"
	"quantscope/quant/export"
)

// repair mends an export whose matrices have second-level scales of their own,
// by compensation, and says how many groups and matrices that was.
func (e *exported) repair(t testing.TB) (out exported, groups, matrices int) {
	t.Helper()
	ck, model := openSource(t, e.dir)
	rep, err := census.Run(t.Context(), ck, model)
	if err != nil {
		t.Fatal(err)
	}
	out = *e
	out.dir = filepath.Join(t.TempDir(), "fixed")
	rep, fixed, err := census.Fix(t.Context(), rep, ck, model, nil, out.dir, census.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range rep.Layers {
		for _, g := range l.Groups {
			for _, m := range g.Members {
				if g.Fix != nil && m.Name != g.Fix.Kept && m.Scale != g.Fix.Scale {
					matrices++
				}
			}
		}
	}
	return out, fixed.Compensated, matrices
}

func exportPerTensor(t testing.TB, variant, layout string, conv kernels.Convention) exported {
	t.Helper()
	src := t.TempDir()
	writeSource(t, src, moe)
	ck, model := openSource(t, src)
	v := variantWith(t, variant, layout)
	v.Spec.Convention = conv
	return exportAs(t, ck, model, filepath.Join(t.TempDir(), "out"), "*_proj*", v, layout, export.PerTensor)
}

// What a census mended by compensation is proven bit for bit: by every method, in
// both layouts, with and without a receipt, and against the session that measured
// the matrices under their own scales.
func TestCompensated(t *testing.T) {
	for _, c := range []struct {
		variant, layout string
		conv            kernels.Convention
	}{
		{"nvfp4", export.ModelOpt, kernels.ModelOpt},
		{"nvfp4", export.ModelOpt, kernels.ModelOptStatic},
		{"nvfp4+mse", export.ModelOpt, kernels.ModelOpt},
		{"nvfp4+4over6", export.ModelOpt, kernels.ModelOpt},
		{"nvfp4", export.CompressedTensors, kernels.CT32},
		{"nvfp4+sweep", export.CompressedTensors, kernels.CT},
	} {
		t.Run(c.variant+" "+c.conv.String(), func(t *testing.T) {
			whole := exportPerTensor(t, c.variant, c.layout, c.conv)
			e, groups, matrices := whole.repair(t)
			if groups != 3 || matrices != 4 { // q, k and v; gate and up of two experts
				t.Fatalf("%d groups and %d matrices were compensated", groups, matrices)
			}
			rep := e.verify(t, Options{Session: e.session(c.variant)})
			if !rep.OK || rep.UntouchedIdentical != 6 {
				t.Errorf("%+v", rep)
			}
			if rep.QuantizedCompensated != matrices || rep.QuantizedReproduced != rep.QuantizedTensors-matrices || rep.RecordsCompared != rep.QuantizedTensors {
				t.Errorf("%d compensated, %d made again, %d records, of %d", rep.QuantizedCompensated, rep.QuantizedReproduced, rep.RecordsCompared, rep.QuantizedTensors)
			}
			jsonOf(t, e.dir, "config.json", func(m map[string]any) { delete(m["quantization_config"].(map[string]any), "quantscope") })
			if rep := e.verify(t, Options{Variant: c.variant}); !rep.OK || rep.QuantizedCompensated != matrices {
				t.Errorf("without a receipt: %d compensated, %+v", rep.QuantizedCompensated, rep.Problems)
			}
		})
	}
}

// A fault in what was compensated is still one, said once and in its place.
func TestFaultsOfCompensated(t *testing.T) {
	whole := exportPerTensor(t, "nvfp4", export.ModelOpt, kernels.ModelOpt)
	mended, _, _ := whole.repair(t)
	var all []string // that were compensated, to a larger scale and to a smaller one
	for _, p := range []string{"self_attn.q", "self_attn.k", "self_attn.v", "mlp.experts.0.gate", "mlp.experts.0.up", "mlp.experts.1.gate", "mlp.experts.1.up"} {
		name := "model.layers.0." + p + "_proj"
		if tensorBytes(t, whole.dir, name+".weight_scale") != tensorBytes(t, mended.dir, name+".weight_scale") {
			all = append(all, name)
		}
	}
	if len(all) != 4 {
		t.Fatalf("block scales of %q have changed", all)
	}
	for _, name := range all {
		e := mended.copied(t)
		bytesOf(t, e.dir, name+".weight_scale", func(raw []byte) { raw[7] ^= 1 })
		if rep := e.verify(t, Options{}); len(rep.Problems) != 1 || rep.Problems[0].ID != ScalesDiffer || rep.Problems[0].Tensor != name+".weight_scale" {
			t.Errorf("a block scale of %s: %+v", name, rep.Problems)
		}
	}
	moved := all[len(all)-1]
	for _, c := range []struct {
		name, tensor, id, says string
		change                 func(t *testing.T, dir string)
	}{
		{"a block scale", moved + ".weight_scale", ScalesDiffer, "1 scales differ from what nvfp4 by modelopt, compensated, makes", func(t *testing.T, dir string) {
			bytesOf(t, dir, moved+".weight_scale", func(raw []byte) { raw[5] ^= 1 })
		}},
		{"a code", moved + ".weight", CodesDiffer, "1 codes differ", func(t *testing.T, dir string) {
			bytesOf(t, dir, moved+".weight", func(raw []byte) { raw[9] ^= 1 })
		}},
		{"another second-level scale", moved + ".weight_scale_2", GlobalDiffers, "", func(t *testing.T, dir string) {
			bytesOf(t, dir, moved+".weight_scale_2", func(raw []byte) { raw[0] ^= 64 })
		}},
		{"more groups in the receipt", "", "config-contradicts", "the receipt says 4, there are 3", func(t *testing.T, dir string) {
			jsonOf(t, dir, "config.json", func(m map[string]any) { receiptOf(m)["fixed"] = map[string]any{"compensated": 4} })
		}},
		{"no repair in the receipt", "", "config-contradicts", "the receipt says 0, there are 3", func(t *testing.T, dir string) {
			jsonOf(t, dir, "config.json", func(m map[string]any) { delete(receiptOf(m), "fixed") })
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mended.copied(t)
			c.change(t, e.dir)
			rep := e.verify(t, Options{})
			if rep.OK || len(rep.Problems) != 1 {
				t.Fatalf("problems %+v", rep.Problems)
			}
			if p := rep.Problems[0]; p.ID != c.id || p.Tensor != c.tensor || !strings.Contains(p.Message, c.says) {
				t.Errorf("%+v, want %s of %s: %s", p, c.id, c.tensor, c.says)
			}
		})
	}
}

// Block scales that were moved to a scale that nothing fused with the matrix has
// are no repair.
func TestMovedToAnotherScale(t *testing.T) {
	e := exportPerTensor(t, "nvfp4", export.ModelOpt, kernels.ModelOpt)
	const name = "model.layers.0.self_attn.o_proj" // is fused with nothing
	own := math.Float32frombits(binary.LittleEndian.Uint32([]byte(tensorBytes(t, e.dir, name+".weight_scale_2"))))
	table := export.Compensate(own, own*1.25, false)
	bytesOf(t, e.dir, name+".weight_scale", func(raw []byte) { table.Apply(raw, raw) })
	bytesOf(t, e.dir, name+".weight_scale_2", func(raw []byte) { binary.LittleEndian.PutUint32(raw, math.Float32bits(own*1.25)) })
	rep := e.verify(t, Options{})
	if len(rep.Problems) != 1 || rep.Problems[0].ID != GlobalDiffers || rep.Problems[0].Tensor != name+".weight_scale_2" || rep.QuantizedCompensated != 0 {
		t.Errorf("%+v, %d compensated", rep.Problems, rep.QuantizedCompensated)
	}
}

func receiptOf(config map[string]any) map[string]any {
	return config["quantization_config"].(map[string]any)["quantscope"].(map[string]any)
}

func tensorBytes(t testing.TB, dir, name string) (out string) {
	t.Helper()
	bytesOf(t, dir, name, func(raw []byte) { out = string(raw) })
	return out
}
