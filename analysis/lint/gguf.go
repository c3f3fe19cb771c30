package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/gguf"
)

// fileType is what a general.file_type asks for: the type of most matrices, and
// those that llama-quantize's mix of it uses beside.
type fileType struct {
	name string
	main kernels.GGUFType
	mix  []kernels.GGUFType
}

// kTypes are what mixes of K and IQ types are made of.
var kTypes = []kernels.GGUFType{kernels.GGUFQ2_K, kernels.GGUFQ3_K, kernels.GGUFQ4_K, kernels.GGUFQ5_K, kernels.GGUFQ6_K, kernels.GGUFQ8_0, kernels.GGUFIQ2XXS, kernels.GGUFIQ2XS, kernels.GGUFIQ2S, kernels.GGUFIQ3XXS, kernels.GGUFIQ3S, kernels.GGUFIQ4NL, kernels.GGUFIQ4XS}

// fileTypes are the values of general.file_type (enum llama_ftype).
var fileTypes = map[uint64]fileType{
	0: {"F32", kernels.GGUFF32, nil}, 1: {"F16", kernels.GGUFF16, nil}, 32: {"BF16", kernels.GGUFBF16, nil},
	2: {"Q4_0", kernels.GGUFQ4_0, []kernels.GGUFType{kernels.GGUFQ4_1}}, 3: {"Q4_1", kernels.GGUFQ4_1, nil}, 7: {"Q8_0", kernels.GGUFQ8_0, nil},
	8: {"Q5_0", kernels.GGUFQ5_0, []kernels.GGUFType{kernels.GGUFQ5_1}}, 9: {"Q5_1", kernels.GGUFQ5_1, nil},
	10: {"Q2_K", kernels.GGUFQ2_K, kTypes}, 21: {"Q2_K_S", kernels.GGUFQ2_K, kTypes},
	11: {"Q3_K_S", kernels.GGUFQ3_K, kTypes}, 12: {"Q3_K_M", kernels.GGUFQ3_K, kTypes}, 13: {"Q3_K_L", kernels.GGUFQ3_K, kTypes},
	14: {"Q4_K_S", kernels.GGUFQ4_K, kTypes}, 15: {"Q4_K_M", kernels.GGUFQ4_K, kTypes},
	16: {"Q5_K_S", kernels.GGUFQ5_K, kTypes}, 17: {"Q5_K_M", kernels.GGUFQ5_K, kTypes}, 18: {"Q6_K", kernels.GGUFQ6_K, nil},
	19: {"IQ2_XXS", kernels.GGUFIQ2XXS, kTypes}, 20: {"IQ2_XS", kernels.GGUFIQ2XS, kTypes}, 28: {"IQ2_S", kernels.GGUFIQ2XS, kTypes}, 29: {"IQ2_M", kernels.GGUFIQ2S, kTypes},
	22: {"IQ3_XS", kernels.GGUFIQ3S, kTypes}, 23: {"IQ3_XXS", kernels.GGUFIQ3XXS, kTypes}, 26: {"IQ3_S", kernels.GGUFIQ3S, kTypes}, 27: {"IQ3_M", kernels.GGUFIQ3S, kTypes},
	24: {"IQ1_S", kernels.GGUFIQ1S, kTypes}, 31: {"IQ1_M", kernels.GGUFIQ1M, kTypes},
	25: {"IQ4_NL", kernels.GGUFIQ4NL, kTypes}, 30: {"IQ4_XS", kernels.GGUFIQ4XS, kTypes},
	36: {"TQ1_0", kernels.GGUFTQ1_0, []kernels.GGUFType{kernels.GGUFQ4_K}}, 37: {"TQ2_0", kernels.GGUFTQ2_0, []kernels.GGUFType{kernels.GGUFQ4_K}},
	38: {"MXFP4_MOE", kernels.GGUFMXFP4, []kernels.GGUFType{kernels.GGUFQ8_0}}, 39: {"NVFP4", kernels.GGUFNVFP4, []kernels.GGUFType{kernels.GGUFQ8_0}},
}

// guessed is set in a file_type that the program made up.
const guessed = 1024

// gguf looks at types, blocks, tokenizer and importance; it reads the header.
func (r *run) gguf() error {
	r.ggufTypes()
	r.ggufBlocks()
	r.ggufTexts()
	return nil
}

// partOf is the file of a tensor.
func (r *run) partOf(t *gguf.Tensor) string { return r.GGUF.Parts[t.Part].Name }

// isMatrix says whether a tensor is one that llama-quantize quantizes by the type
// that was asked for: no vector, router or convolution, and neither embedding nor
// head, which have types of their own.
func isMatrix(t *gguf.Tensor) bool {
	name, isWeight := strings.CutSuffix(t.Name, ".weight")
	if !isWeight || len(t.Shape) < 2 || !strings.HasPrefix(name, "blk.") {
		return false
	}
	for _, part := range []string{"_norm", "ffn_gate_inp", "ssm_conv1d", "altup", "laurel", "shortconv", "time_mix", "attn_rel_b", "pos_embd"} {
		if strings.Contains(name, part) {
			return false
		}
	}
	return true
}

// ggufTypes holds types against general.file_type by share of parameters.
func (r *run) ggufTypes() {
	label, stated := uintOf(r.GGUF, "general.file_type")
	ft, known := fileTypes[label&^guessed]
	known = known && stated
	var s shares
	type sum struct {
		n      int
		params int64
		first  *gguf.Tensor
		cols   int64
	}
	var total, main int64
	fallback := map[kernels.GGUFType]*sum{}
	unknown := map[kernels.GGUFType]*sum{}
	count := func(m map[kernels.GGUFType]*sum, t *gguf.Tensor, cols int64) {
		x := m[t.Type]
		if x == nil {
			x = &sum{first: t, cols: cols}
			m[t.Type] = x
		}
		x.n++
		x.params += t.Elements()
	}
	for i := range r.GGUF.Tensors {
		t := &r.GGUF.Tensors[i]
		cols := int64(1)
		if len(t.Shape) > 0 {
			cols = t.Shape[len(t.Shape)-1]
		}
		if !t.Type.Known() {
			count(unknown, t, cols)
			continue
		}
		if !isMatrix(t) || !known {
			continue
		}
		n := t.Elements()
		total += n
		block, _ := ft.main.Block()
		fell := false
		switch {
		case t.Type == ft.main || slices.Contains(ft.mix, t.Type) && cols%int64(block) == 0:
			main += n
		case cols%int64(block) != 0:
			fell = true
			count(fallback, t, cols)
		}
		s.add("general.file_type", ft.name, t.Type.String(), t.Name, n, fell || t.Type != ft.main && !slices.Contains(ft.mix, t.Type))
	}
	for _, t := range sortedTypes(unknown) {
		x := unknown[t]
		r.add("gguf-type-unknown", Finding{
			File: r.partOf(x.first), Tensor: x.first.Name, Message: fmt.Sprintf("%s of type %d, which is not known: neither size nor values can be told", counted(x.n, "tensor"), uint32(t)),
			Evidence: []Evidence{{"type", fmt.Sprint(uint32(t))}, {"tensors", fmt.Sprint(x.n)}},
		})
	}
	r.rep.Effective = append(r.rep.Effective, s.list()...)
	var fell int64
	for _, t := range sortedTypes(fallback) {
		fell += fallback[t].params
	}
	for _, t := range sortedTypes(fallback) {
		x := fallback[t]
		block, _ := ft.main.Block()
		f := Finding{
			File: r.partOf(x.first), Tensor: x.first.Name,
			Message:  fmt.Sprintf("%s, %s of the parameters of matrices, are %s: their rows, as of %d, are no multiple of the block of %d that %s has", counted(x.n, "tensor"), percent(x.params, total), t, x.cols, block, ft.name),
			Evidence: []Evidence{{"requested", ft.name}, {"effective", t.String()}, {"tensors", fmt.Sprint(x.n)}, {"share", percent(x.params, total)}, {"columns", fmt.Sprint(x.cols)}},
		}
		if 2*fell < total {
			f.Severity = Warning
		}
		r.add("gguf-fallback", f)
	}
	if known && total > 0 && fell == 0 && 2*main < total {
		var said []string
		for _, row := range s.list() {
			said = append(said, fmt.Sprintf("%s %.1f %%", row.Effective, 100*row.Share))
		}
		r.add("gguf-types-differ", Finding{
			File: r.GGUF.Path, Message: fmt.Sprintf("general.file_type says %s, and the parameters of matrices are %s", ft.name, strings.Join(said, ", ")),
			Evidence: []Evidence{{"requested", ft.name}, {"share of it", percent(main, total)}},
		})
	}
	r.importance()
}

// sortedTypes are the keys of a map in order.
func sortedTypes[V any](m map[kernels.GGUFType]V) []kernels.GGUFType {
	var out []kernels.GGUFType
	for t := range m {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b kernels.GGUFType) int { return cmp.Compare(a, b) })
	return out
}

// lowTypes lose much without importance data.
var lowTypes = []kernels.GGUFType{kernels.GGUFIQ1S, kernels.GGUFIQ1M, kernels.GGUFIQ2XXS, kernels.GGUFIQ2XS, kernels.GGUFIQ2S}

// importance looks for the traces of an importance matrix where types need one.
func (r *run) importance() {
	if _, ok := r.GGUF.Metadata["quantize.imatrix.file"]; ok {
		return
	}
	for i := range r.GGUF.Tensors {
		t := &r.GGUF.Tensors[i]
		if slices.Contains(lowTypes, t.Type) {
			r.add("gguf-imatrix-missing", Finding{File: r.partOf(t), Tensor: t.Name, Message: fmt.Sprintf("is %s, and no key quantize.imatrix.file says which importance matrix it was made with", t.Type)})
			return
		}
	}
}

// uintOf reads a whole number of the metadata.
func uintOf(f *gguf.File, key string) (uint64, bool) {
	switch v := f.Metadata[key].V.(type) {
	case uint64:
		return v, true
	case int64:
		return uint64(max(v, 0)), v >= 0
	}
	return 0, false
}

// ggufBlocks looks for blocks that are declared and not stored, and for MTP blocks.
func (r *run) ggufBlocks() {
	arch, _ := r.GGUF.Metadata["general.architecture"].V.(string)
	n, ok := uintOf(r.GGUF, arch+".block_count")
	if !ok || n > 1<<14 {
		return
	}
	mtp, _ := uintOf(r.GGUF, arch+".nextn_predict_layers")
	have, next := map[int]bool{}, map[int]bool{}
	for i := range r.GGUF.Tensors {
		rest, ok := strings.CutPrefix(r.GGUF.Tensors[i].Name, "blk.")
		digits, tail, ok2 := strings.Cut(rest, ".")
		var b int
		if _, err := fmt.Sscanf(digits, "%d", &b); !ok || !ok2 || err != nil {
			continue
		}
		have[b] = true
		if strings.HasPrefix(tail, "nextn.") {
			next[b] = true
		}
	}
	var missing []int
	for b := range int(n) {
		if !have[b] {
			missing = append(missing, b)
		}
	}
	if len(missing) > 0 && len(have) > 0 {
		r.add("gguf-layers-missing", Finding{
			File: r.GGUF.Path, Message: fmt.Sprintf("block_count is %d, and %s not stored: %s", n, counted(len(missing), "block"), ranges(missing)),
			Evidence: []Evidence{{"block_count", fmt.Sprint(n)}, {"missing", ranges(missing)}, {"nextn_predict_layers", fmt.Sprint(mtp)}},
		})
	}
	if mtp > 0 && len(next) == 0 {
		r.add("mtp-missing", Finding{File: r.GGUF.Path, Message: fmt.Sprintf("nextn_predict_layers is %d, and no nextn tensor is stored", mtp), Fix: "convert again with the MTP blocks, or declare none"})
	}
}

// ggufTexts looks at what the file says of its tokenizer.
func (r *run) ggufTexts() {
	text := func(key string) string { s, _ := r.GGUF.Metadata["tokenizer."+key].V.(string); return s }
	if _, ok := r.GGUF.Metadata["tokenizer.ggml.pre"]; !ok && text("ggml.model") == "gpt2" {
		r.add("gguf-pre-missing", Finding{File: r.GGUF.Path, Message: "tokenizer.ggml.model is gpt2 and tokenizer.ggml.pre is missing"})
	}
	template := text("chat_template")
	bos := ""
	if id, ok := uintOf(r.GGUF, "tokenizer.ggml.bos_token_id"); ok {
		if tokens, _ := r.GGUF.Metadata["tokenizer.ggml.tokens"].List.([]string); id < uint64(len(tokens)) {
			bos = tokens[id]
		}
	}
	if adds, _ := r.GGUF.Metadata["tokenizer.ggml.add_bos_token"].V.(bool); adds && beginsWithBOS(template, bos) {
		r.add("bos-added-twice", Finding{
			File: r.GGUF.Path, Message: "tokenizer.ggml.add_bos_token is true and the chat template begins with the begin token as well",
			Evidence: []Evidence{{"begin token", bos}, {"template begins", firstLine(template)}},
		})
	}
}
