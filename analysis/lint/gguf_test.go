package lint

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/gguf"
	"quantscope/quant/recipe"
)

// ggufFile is a GGUF file that a test writes from the format's description: pairs
// in order, and tensors whose data are zeros unless said otherwise.
type ggufFile struct {
	pairs   []pair
	tensors []ggufTensor
}

type pair struct {
	key string
	v   any // uint32, bool, string or []string
}

type ggufTensor struct {
	name string
	kind kernels.GGUFType
	dims []uint64 // the file's order: columns first
	fill byte
}

func (g ggufFile) open(t *testing.T) *gguf.File {
	t.Helper()
	var b, data bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	text := func(s string) { put(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	put(uint32(3))
	put(uint64(len(g.tensors)))
	put(uint64(len(g.pairs)))
	for _, p := range g.pairs {
		text(p.key)
		switch v := p.v.(type) {
		case uint32:
			put(uint32(4))
			put(v)
		case bool:
			put(uint32(7))
			put(v)
		case string:
			put(uint32(8))
			text(v)
		case []string:
			put(uint32(9))
			put(uint32(8))
			put(uint64(len(v)))
			for _, s := range v {
				text(s)
			}
		}
	}
	for _, x := range g.tensors {
		text(x.name)
		put(uint32(len(x.dims)))
		n := uint64(1)
		for _, d := range x.dims {
			put(d)
			n *= d
		}
		put(uint32(x.kind))
		put(uint64(data.Len()))
		if x.kind.Known() {
			block, size := x.kind.Block()
			data.Write(bytes.Repeat([]byte{x.fill}, int(n)/block*size))
		}
		data.Write(make([]byte, -data.Len()&31))
	}
	b.Write(make([]byte, -b.Len()&31))
	b.Write(data.Bytes())
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// small is a llama of two blocks whose matrices are of a type.
func small(fileType uint32, kind kernels.GGUFType, cols uint64) ggufFile {
	g := ggufFile{pairs: []pair{
		{"general.architecture", "llama"}, {"general.file_type", fileType}, {"llama.block_count", uint32(2)},
		{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "default"}, {"tokenizer.ggml.tokens", []string{"<s>", "a"}}, {"tokenizer.ggml.bos_token_id", uint32(0)},
	}}
	g.tensors = append(g.tensors, ggufTensor{name: "token_embd.weight", kind: kernels.GGUFQ8_0, dims: []uint64{cols, 2}})
	for _, b := range []string{"blk.0.", "blk.1."} {
		g.tensors = append(g.tensors,
			ggufTensor{name: b + "attn_norm.weight", kind: kernels.GGUFF32, dims: []uint64{cols}}, ggufTensor{name: b + "ffn_gate_inp.weight", kind: kernels.GGUFF32, dims: []uint64{cols, 2}},
			ggufTensor{name: b + "attn_q.weight", kind: kind, dims: []uint64{cols, 4}}, ggufTensor{name: b + "ffn_down.weight", kind: kind, dims: []uint64{cols, 12}})
	}
	return g
}

func lintGGUF(t *testing.T, g ggufFile, edit func(*Input)) *Report {
	t.Helper()
	in := Input{GGUF: g.open(t)}
	if edit != nil {
		edit(&in)
	}
	rep, err := Check(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// Good files have no findings: pure ones, mixes, those with other types for
// embedding and head.
func TestGoodGGUF(t *testing.T) {
	mix := small(15, kernels.GGUFQ4_K, 256)
	mix.tensors[3].kind, mix.tensors[4].kind = kernels.GGUFQ6_K, kernels.GGUFQ5_K
	for name, g := range map[string]ggufFile{
		"Q4_1": small(3, kernels.GGUFQ4_1, 96), "Q8_0": small(7, kernels.GGUFQ8_0, 32), "Q4_K_M": mix, "F16": small(1, kernels.GGUFF16, 7*32), "MXFP4": small(38, kernels.GGUFMXFP4, 64),
	} {
		if rep := lintGGUF(t, g, func(in *Input) { in.Weights = true }); len(rep.Findings) != 0 || len(rep.Effective) == 0 || rep.Effective[0].Differs {
			t.Errorf("%s: %+v %+v", name, rep.Findings, rep.Effective)
		}
	}
}

// What is wrong with a file is found, with the tensor and the share.
func TestBrokenGGUF(t *testing.T) {
	with := func(g ggufFile, pairs ...pair) ggufFile {
		for _, p := range pairs {
			i := slices.IndexFunc(g.pairs, func(q pair) bool { return q.key == p.key })
			if p.v == nil {
				g.pairs = slices.Delete(g.pairs, i, i+1)
			} else if i >= 0 {
				g.pairs[i] = p
			} else {
				g.pairs = append(g.pairs, p)
			}
		}
		return g
	}
	retyped := func(g ggufFile, kind kernels.GGUFType, tensors ...int) ggufFile {
		for _, i := range tensors {
			g.tensors[i].kind = kind
		}
		return g
	}
	for _, c := range []struct {
		name     string
		g        ggufFile
		edit     func(*Input)
		id       string
		severity Severity
		tensor   string
		words    string
	}{
		{"all fell back", small(15, kernels.GGUFQ5_0, 96), nil, "gguf-fallback", Error, "blk.0.attn_q.weight", "4 tensors, 100.0 % of the parameters of matrices, are Q5_0: their rows, as of 96, are no multiple of the block of 256 that Q4_K_M has"},
		{"some fell back", func() ggufFile {
			g := retyped(small(15, kernels.GGUFQ4_K, 256), kernels.GGUFQ5_0, 3)
			g.tensors[3].dims = []uint64{96, 4}
			return g
		}(), nil, "gguf-fallback", Warning, "blk.0.attn_q.weight", "1 tensor,"},
		{"another type than the label", small(15, kernels.GGUFF16, 256), nil, "gguf-types-differ", Warning, "", "F16 100.0 %"},
		{"a type that is not known", retyped(small(7, kernels.GGUFQ8_0, 32), 42, 4), nil, "gguf-type-unknown", Error, "blk.0.ffn_down.weight", "type 42"},
		{"a block that is missing", with(small(7, kernels.GGUFQ8_0, 32), pair{"llama.block_count", uint32(4)}), nil, "gguf-layers-missing", Error, "", "2 blocks not stored: 2–3"},
		{"MTP blocks without their tensors", with(small(7, kernels.GGUFQ8_0, 32), pair{"llama.nextn_predict_layers", uint32(1)}), nil, "mtp-missing", Error, "", "nextn_predict_layers is 1"},
		{"few bits without importance", small(24, kernels.GGUFIQ1S, 256), nil, "gguf-imatrix-missing", Warning, "blk.0.attn_q.weight", "IQ1_S"},
		{"no pre-tokenizer", with(small(7, kernels.GGUFQ8_0, 32), pair{"tokenizer.ggml.pre", nil}), nil, "gguf-pre-missing", Warning, "", "gpt2"},
		{"two begin tokens", with(small(7, kernels.GGUFQ8_0, 32), pair{"tokenizer.ggml.add_bos_token", true}, pair{"tokenizer.chat_template", "{{ bos_token }}x"}), nil, "bos-added-twice", Note, "", "add_bos_token"},
		{"a scale of NaN", func() ggufFile {
			g := small(7, kernels.GGUFQ8_0, 32)
			g.tensors[3].fill = 0x7F
			return g
		}(), func(in *Input) { in.Weights = true }, "gguf-nonfinite", Error, "blk.0.attn_q.weight", "128 of 128 values of Q8_0"},
	} {
		rep := lintGGUF(t, c.g, c.edit)
		i := slices.IndexFunc(rep.Findings, func(f Finding) bool { return f.ID == c.id })
		if i < 0 {
			t.Errorf("%s: no %s: %+v", c.name, c.id, rep.Findings)
			continue
		}
		if f := rep.Findings[i]; len(rep.Findings) != 1 || f.Severity != c.severity || f.Tensor != c.tensor || !strings.Contains(f.Message, c.words) || f.File == "" {
			t.Errorf("%s: %+v", c.name, rep.Findings)
		}
	}
}

// Of many findings of a kind some are listed, and the first says how many more
// there are; ids that are to be ignored are not there.
func TestFindingsAreBounded(t *testing.T) {
	in := Input{Most: 2}
	r := &run{Input: in, rep: &Report{}, listed: map[string]int{}, first: map[string]int{}}
	r.Ignore = []string{"scale-ones"}
	for range 5 {
		r.add("scale-zero", Finding{Message: "x"})
		r.add("scale-ones", Finding{Message: "y"})
		r.add("mtp-missing", Finding{Message: "z", Severity: Note})
	}
	if len(r.rep.Findings) != 4 || r.rep.Findings[0].More != 3 || r.rep.Findings[1].More != 3 || r.rep.Findings[2].More != 0 || r.rep.Findings[1].Mend != MendGraft || r.rep.Findings[1].Severity != Note {
		t.Errorf("%+v", r.rep.Findings)
	}
	if !FailedAt(r.rep.Findings, Warning) || FailedAt(r.rep.Findings[1:2], Warning) || !FailedAt(r.rep.Findings[1:2], Note) {
		t.Error("the gate does not go by severity")
	}
}

// A recipe against a GGUF file: types by matrix, with shares.
func TestRecipeAgainstGGUF(t *testing.T) {
	golden := "../../quant/gguf/testdata/golden"
	entries, err := os.ReadDir(golden)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		f, err := gguf.Open(filepath.Join(golden, e.Name()))
		if err != nil {
			continue
		}
		m, err := gguf.NewModel(f)
		if err != nil {
			_ = f.Close()
			continue
		}
		rep, err := Check(t.Context(), Input{GGUF: f, Recipe: &recipe.File{Groups: []recipe.Group{{Targets: []string{"*"}, Scheme: "q2_k"}}}})
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		var share float64
		for _, s := range rep.Effective {
			if s.By == "recipe" {
				share += s.Share
			}
		}
		if math.Abs(share-1) > 1e-12 || len(m.Weights) == 0 || !slices.ContainsFunc(rep.Findings, func(f Finding) bool { return f.ID == "recipe-not-followed" }) {
			t.Errorf("%s: %v of the parameters, %+v", e.Name(), share, rep.Findings)
		}
		return
	}
	t.Fatal("no golden file is a model")
}
