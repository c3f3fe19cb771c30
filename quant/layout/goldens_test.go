package layout

import (
	"path/filepath"
	"strings"
	"testing"

	"quantscope/quant/checkpoint"
)

// kernelGoldens are the vectors of package kernels, which are checkpoints' tensors too.
const kernelGoldens = "../../kernels/testdata/golden"

// What compressed-tensors and ModelOpt made of every source that there is a vector of is
// read as they decode it, bit for bit, and no NaN, zero block or tiny scale is lost.
func TestAllGoldens(t *testing.T) {
	const nvfp4 = `{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}`
	ints := func(bits, group, more string) string {
		return ctHead + `{"num_bits":` + bits + `,"type":"int","strategy":"group","group_size":` + group + more + `}` + ctTail
	}
	const block = fp8Args + `"block","block_structure":[128,128]}`
	config := map[string]string{"nvfp4 ct": ctHead + nvfp4 + ctTail, "nvfp4 modelopt": moHead + `{"num_bits":4,"type":"float","group_size":16}` + ctTail,
		"mxfp4 ct":       ctHead + `{"num_bits":4,"type":"float","strategy":"group","group_size":32}` + ctTail,
		"mxfp4 modelopt": `{"quantization_config":{"quant_method":"modelopt","quant_algo":"mxfp4"}}`,
		"tensor":         ctHead + fp8Args + `"tensor"}` + ctTail, "channel": ctHead + fp8Args + `"channel"}` + ctTail, "block128": ctHead + block + ctTail,
		"int4_ct_asym_g128": ints("4", "128", `,"symmetric":false`), "int4_ct_asym_g32": ints("4", "32", `,"symmetric":false`), "int4_ct_sym_g128": ints("4", "128", ""),
		"int4_ct_w3_sym_g64": ints("3", "64", ""), "int4_ct_w8_sym_g128": ints("8", "128", ""),
	}
	names, err := filepath.Glob(filepath.Join(kernelGoldens, "*.safetensors"))
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	n := 0
	for _, path := range names {
		file := strings.TrimSuffix(filepath.Base(path), ".safetensors")
		for prefix, key := range map[string]string{"ct.": file, "ct32.": file, "modelopt.": file, "ct.tensor.": "tensor", "ct.channel.": "channel", "ct.block128.": "block128"} {
			maker, _, _ := strings.Cut(prefix, ".")
			switch {
			case strings.HasPrefix(file, "nvfp4_"), strings.HasPrefix(file, "mxfp4_"):
				key = file[:5] + " " + strings.TrimSuffix(maker, "32")
			case strings.HasPrefix(file, "fp8_") && key == file:
				continue
			}
			text, ok := config[key]
			if !ok {
				continue
			}
			parts, want, exact := vectorParts(t, path, prefix)
			if len(parts) == 0 || want == nil {
				continue
			}
			n++
			t.Run(file+" "+prefix, func(t *testing.T) {
				_, l := openPath(t, write(t, text, parts))
				if len(l.Modules) != 1 || len(l.Findings) != 0 {
					t.Fatalf("%d modules, findings %v", len(l.Modules), l.Findings)
				}
				got := decode(t, &l.Modules[0], l.Modules[0].RowMultiple())
				for i := range got {
					if !exact { // the vector is rounded to bf16
						got[i] = toBF16.of(got[i])
					}
					got[i], want[i] = got[i]+0, want[i]+0 // −0 as 0
				}
				sameFloats(t, l.Modules[0].Spec.Format, got, want)
			})
		}
	}
	if n < 25 {
		t.Errorf("only %d vectors", n)
	}
}

// vectorParts are a matrix's tensors of a vector, and what they decode to: in f32 where
// that is there (exact), else in bf16.
func vectorParts(t *testing.T, path, prefix string) (parts []part, want []float32, exact bool) {
	t.Helper()
	ck, err := checkpoint.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	for i := range ck.Tensors {
		x := &ck.Tensors[i]
		name, ok := strings.CutPrefix(x.Name, prefix)
		if !ok || strings.Contains(name, ".") || len(x.Shape) > 2 {
			continue
		}
		raw := make([]byte, x.Size)
		if err := ck.ReadAt(t.Context(), x, 0, raw); err != nil {
			t.Fatal(err)
		}
		p := part{proj + "." + name, x.DType, x.Shape, raw}
		switch {
		case strings.HasPrefix(name, "dequant"):
			if f32 := x.DType == checkpoint.F32; want == nil || f32 {
				want, exact = p.floats(t), f32
			}
		case strings.HasPrefix(name, "weight"):
			parts = append(parts, p)
		}
	}
	return parts, want, exact
}
