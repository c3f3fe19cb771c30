package ggufmake

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/gguf"
)

// Every matrix gets what was asked for; vectors stay; names and expressions change
// it, the first that matches.
func TestTypesOfTensors(t *testing.T) {
	s := openSource(t, ggufFile(t, nil))
	var overrides []Override
	for _, text := range []string{`attn_(q|k)=Q8_0`, `ATTN_K=q4_0`, `^blk\.0\.ffn_down=q5_1`} {
		o, err := ParseOverride(text)
		if err != nil {
			t.Fatal(err)
		}
		overrides = append(overrides, o)
	}
	p, err := NewPlan(s, Request{Type: kernels.GGUFQ6_K, Overrides: overrides, Output: ptr(kernels.GGUFF16)})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]kernels.GGUFType{
		"token_embd.weight": kernels.GGUFQ6_K, "output.weight": kernels.GGUFF16, "blk.0.attn_q.weight": kernels.GGUFQ8_0, "blk.0.attn_k.weight": kernels.GGUFQ8_0,
		"blk.0.attn_v.weight": kernels.GGUFQ6_K, "blk.0.ffn_down.weight": kernels.GGUFQ5_1, "blk.0.attn_norm.weight": kernels.GGUFF32,
	} {
		if x := target(p, name); x.Effective != want || x.Requested != want {
			t.Errorf("%s is %s, want %s", name, x.Effective, want)
		}
	}
	var share float64
	var params, bytes int64
	for _, x := range p.Types() {
		share, params, bytes = share+x.Share, params+x.Params, bytes+x.Bytes
	}
	if math.Abs(share-1) > 1e-12 || params != p.Params || bytes > p.Size || p.Types()[0].Effective != "q6_k" {
		t.Errorf("share %g, %d params of %d, %d bytes of %d", share, params, p.Params, bytes, p.Size)
	}
	o, err := ParseOverride(`nothing=q8_0`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewPlan(s, Request{Type: kernels.GGUFQ6_K, Overrides: []Override{o}}); err == nil || !strings.Contains(err.Error(), `"nothing=q8_0" matches no tensor`) {
		t.Errorf("%v", err)
	}
}

// Rows that are no whole blocks are refused by name, with both lengths (C17); with
// leave they get what llama.cpp gives them, and are counted by parameters.
func TestRowsThatAreNoBlocks(t *testing.T) {
	s := openSource(t, ggufFile(t, nil))
	for asked, want := range map[kernels.GGUFType]kernels.GGUFType{kernels.GGUFQ4_K: kernels.GGUFQ5_0, kernels.GGUFQ5_K: kernels.GGUFQ5_1, kernels.GGUFQ6_K: kernels.GGUFQ8_0, kernels.GGUFIQ4XS: kernels.GGUFIQ4NL} {
		p, err := NewPlan(s, Request{Type: asked})
		if !errors.Is(err, ErrFallback) {
			t.Fatalf("%s: %v", asked, err)
		}
		for _, word := range []string{"source.gguf", "blk.0.ffn_down.weight", "320", "256", "--allow-fallback"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not mention %s", err, word)
			}
		}
		if p.Size != 0 || len(p.Fallbacks) != 1 {
			t.Errorf("%d bytes, %+v", p.Size, p.Fallbacks)
		}
		if p, err = NewPlan(s, Request{Type: asked, AllowFallback: true}); err != nil {
			t.Fatal(err)
		}
		x := target(p, "blk.0.ffn_down.weight")
		f := p.Fallbacks[0]
		if x.Effective != want || x.Requested != asked || f.Params != 320*256 || math.Abs(f.Share-float64(320*256)/float64(p.Params)) > 1e-12 || f.Effective != strings.ToLower(want.String()) {
			t.Errorf("%s, %+v", x.Effective, f)
		}
	}
	if got := instead(kernels.GGUFQ4_0, 33); got != kernels.GGUFF16 {
		t.Errorf("rows of 33 get %s", got)
	}
}

// A source in blocks is refused, but for tensors that have the type already.
func TestRequantizing(t *testing.T) {
	f, _, _ := write(t, openSource(t, ggufFile(t, nil)), Request{Type: kernels.GGUFQ8_0}, 1)
	s := openSource(t, f.Path)
	if _, err := NewPlan(s, Request{Type: kernels.GGUFQ4_0}); !errors.Is(err, ErrQuantized) || !strings.Contains(err.Error(), "Q8_0") || !strings.Contains(err.Error(), "--allow-requantize") {
		t.Errorf("%v", err)
	}
	if _, err := NewPlan(s, Request{Type: kernels.GGUFQ4_0, AllowRequantize: true}); err != nil {
		t.Error(err)
	}
	p, err := NewPlan(s, Request{Type: kernels.GGUFQ8_0})
	if err != nil || !target(p, "blk.0.attn_q.weight").copied() {
		t.Errorf("%v", err)
	}
}

// Names that are not known list the known ones.
func TestNames(t *testing.T) {
	for _, text := range []string{"q9_k", "q4_k+gptq", "q8_0+imatrix", "iq1_s", "q4_k+", ""} {
		if _, _, err := ParseVariant(text); err == nil || !strings.Contains(err.Error(), "known") && !strings.Contains(err.Error(), "q4_k") {
			t.Errorf("%q: %v", text, err)
		}
	}
	typ, imp, err := ParseVariant("Q4_K+imatrix")
	if err != nil || typ != kernels.GGUFQ4_K || !imp || VariantName(typ, imp) != "q4_k+imatrix" {
		t.Errorf("%v %v %v", typ, imp, err)
	}
	for _, text := range []string{"a", "=q8_0", "(=q8_0", "a=q9"} {
		if _, err := ParseOverride(text); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	list, err := ParseOverrides([]byte("# a comment\nattn_q=q8_0  attn_k=q4_0\n\nffn=f16\n"))
	if err != nil || len(list) != 3 || list[1].Type != kernels.GGUFQ4_0 {
		t.Errorf("%v %v", list, err)
	}
	if _, err := ParseOverrides([]byte("a=q8_0\nb\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("%v", err)
	}
	for _, n := range Types() {
		if _, err := ParseType(n); err != nil {
			t.Error(err)
		}
		if typ, _ := ParseType(n); fileTypes[typ] == 0 && typ != kernels.GGUFF32 {
			t.Errorf("%s has no general.file_type", n)
		}
	}
}

// NVFP4 has a scale beside each weight that llama.cpp multiplies by it, and nowhere
// else; embeddings have none, and neither type takes them without being told.
func TestScalesBeside(t *testing.T) {
	s := openSource(t, ggufFile(t, nil))
	p, err := NewPlan(s, Request{Type: kernels.GGUFNVFP4})
	if err != nil {
		t.Fatal(err)
	}
	if target(p, "token_embd.weight").Effective != kernels.GGUFQ8_0 || target(p, "output.weight").Effective != kernels.GGUFQ8_0 || target(p, "blk.0.ffn_down.weight").scaled < 0 || len(p.scales) != 7 {
		t.Errorf("%d scales", len(p.scales))
	}
	for arch, c := range map[string]map[string]bool{
		"llama": {"blk.3.ffn_up_exps.weight": true, "blk.12.attn_k.weight": true, "blk.0.attn_kv_b.weight": false, "output.weight": true}, "qwen2": {"blk.0.ffn_up.weight": false, "blk.0.attn_q.weight": true},
		"glm4moe": {"blk.1.ffn_up_exps.weight": false, "blk.1.attn_q.weight": true, "blk.46.attn_q.weight": false}, "unheard": {"blk.0.attn_q.weight": false, "output.weight": false},
	} {
		for name, want := range c {
			if appliesScale(arch, name, 46) != want {
				t.Errorf("%s %s: %t", arch, name, !want)
			}
		}
	}
	s.Arch = "gemma3" // its feed-forward leaves scales out
	if p, err = NewPlan(s, Request{Type: kernels.GGUFNVFP4, AllowFallback: true}); err != nil {
		t.Fatal(err)
	}
	if len(p.Fallbacks) != 3 || target(p, "blk.0.ffn_up.weight").Effective != kernels.GGUFQ8_0 || !strings.Contains(p.Fallbacks[0].Reason, "gemma3") {
		t.Errorf("%+v", p.Fallbacks)
	}
}

// imatrix of the fixture: every matrix of the layer, as llama-imatrix has it.
func imatrixOf(change func(m *gguf.Imatrix)) *gguf.Imatrix {
	m := &gguf.Imatrix{Datasets: []string{"text.txt"}, ChunkCount: 5, ChunkSize: 512}
	for name, cols := range map[string]int{"attn_q": 256, "attn_k": 256, "attn_v": 256, "attn_output": 256, "ffn_gate": 256, "ffn_up": 256, "ffn_down": 320} {
		e := gguf.ImatrixEntry{Name: "blk.0." + name + ".weight", Cols: cols, Matrices: 1, Counts: []float32{10}, Sum2: make([]float32, cols)}
		for i := range e.Sum2 {
			e.Sum2[i] = float32(1 + i%7*i%7)
		}
		m.Entries = append(m.Entries, e)
	}
	slices.SortFunc(m.Entries, func(a, b gguf.ImatrixEntry) int { return strings.Compare(a.Name, b.Name) })
	if change != nil {
		change(m)
	}
	return m
}

// What an imatrix lacks is a fallback, but for embedding and head, which it lacks by
// its nature.
func TestImatrix(t *testing.T) {
	s := openSource(t, ggufFile(t, nil))
	r := Request{Type: kernels.GGUFQ4_0, Importance: true, Imatrix: imatrixOf(nil), ImatrixFile: "m.imatrix"}
	p, err := NewPlan(s, r)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(p.Unweighted, []string{"token_embd.weight", "output.weight"}) || !target(p, "blk.0.ffn_down.weight").Weighted() {
		t.Errorf("%v", p.Unweighted)
	}
	if w := target(p, "blk.0.attn_q.weight").importance[0]; w[0] != 0.1 || len(w) != 256 {
		t.Errorf("%v", w[:4])
	}
	keys := map[string]any{}
	for _, x := range p.Pairs {
		keys[x.Key] = x.Value.V
	}
	if keys["quantize.imatrix.file"] != "m.imatrix" || keys["quantize.imatrix.dataset"] != "text.txt" || keys["quantize.imatrix.entries_count"] != uint64(7) || keys["quantize.imatrix.chunks_count"] != uint64(5) || keys["general.file_type"] != uint64(2) {
		t.Errorf("%v", keys)
	}
	for what, c := range map[string]struct {
		change func(m *gguf.Imatrix)
		say    string
	}{
		"missing":  {func(m *gguf.Imatrix) { m.Entries = m.Entries[1:] }, "no entry"},
		"size":     {func(m *gguf.Imatrix) { m.Entries[0].Cols, m.Entries[0].Sum2 = 64, m.Entries[0].Sum2[:64] }, "64 columns"},
		"no token": {func(m *gguf.Imatrix) { m.Entries[0].Counts[0] = 0 }, "no token"},
		"zeros":    {func(m *gguf.Imatrix) { clear(m.Entries[0].Sum2) }, "no token"},
	} {
		r.Imatrix, r.AllowFallback = imatrixOf(c.change), false
		_, err := NewPlan(s, r)
		if !errors.Is(err, ErrFallback) || !strings.Contains(err.Error(), "blk.0.attn_k.weight") || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v", what, err)
		}
		r.AllowFallback = true
		p, err := NewPlan(s, r)
		if err != nil || len(p.Fallbacks) != 1 || target(p, "blk.0.attn_k.weight").Weighted() || p.Fallbacks[0].Requested != "q4_0+imatrix" || p.Fallbacks[0].Effective != "q4_0" {
			t.Errorf("%s: %v, %+v", what, err, p.Fallbacks)
		}
	}
	r.Imatrix = imatrixOf(func(m *gguf.Imatrix) {
		for i := range m.Entries {
			m.Entries[i].Name = "x" + m.Entries[i].Name
		}
	})
	if _, err := NewPlan(s, r); err == nil || !strings.Contains(err.Error(), "none of its tensors") {
		t.Errorf("another model's: %v", err)
	}
	list, missing, bad := importance(&gguf.ImatrixEntry{Cols: 2, Matrices: 3, Counts: []float32{2, 0, 4}, Sum2: []float32{2, 4, 0, 0, 8, 8}}, 3, 2)
	if bad != "" || !slices.Equal(missing, []int{1}) || list[1] != nil || list[2][0] != 2 || list[0][1] != 2 {
		t.Errorf("%v %v %q", list, missing, bad)
	}
	if list, _, bad = importance(&gguf.ImatrixEntry{Cols: 6, Matrices: 1, Counts: []float32{2}, Sum2: []float32{2, 4, 6, 8, 8, 8}}, 3, 2); bad != "" || list[1][0] != 3 { // the older format
		t.Errorf("%v %q", list, bad)
	}
}
