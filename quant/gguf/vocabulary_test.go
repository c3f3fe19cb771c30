package gguf

import (
	"errors"
	"slices"
	"testing"

	"quantscope/kernels"
)

func TestVocabulary(t *testing.T) {
	v, err := open(t, golden("model_a.gguf")).Vocabulary()
	if err != nil {
		t.Fatal(err)
	}
	if v.Model != "gpt2" || v.Pre != "" || !slices.Equal(v.Tokens, []string{"<s>", "</s>", "a", "b", "ab"}) || !slices.Equal(v.Types, []int32{3, 3, 1, 1, 1}) || !slices.Equal(v.Merges, []string{"a b"}) {
		t.Errorf("%+v", v)
	}
	if v.BOS != 0 || v.EOS != 1 || v.UNK != -1 || v.BOSStated || v.AddBOS || !v.AddSpace || v.Scores != nil {
		t.Errorf("%+v", v)
	}
	x := llamaFixture(kernels.GGUFF16)
	for k, w := range map[string]any{
		"model": "llama", "tokens": []string{"<unk>", "▁a"}, "scores": []float32{0, -1.5}, "token_type": []int32{2, 1},
		"bos_token_id": uint32(0xFFFFFFFF), "add_bos_token": true, "add_space_prefix": false, "add_eos_token": true,
	} {
		x.keys["tokenizer.ggml."+k] = w
	}
	m, err := x.model(t)
	if err != nil {
		t.Fatal(err)
	}
	v, err = m.Vocabulary()
	if err != nil || v.Model != "llama" || !slices.Equal(v.Scores, []float32{0, -1.5}) || v.BOS != -1 || !v.BOSStated || !v.AddBOS || !v.AddEOS || v.AddSpace {
		t.Errorf("%+v %v", v, err)
	}
	for key, w := range map[string]any{"tokens": []int32{1}, "token_type": []string{"a"}, "add_bos_token": uint32(1), "bos_token_id": "0", "scores": "none"} {
		x := llamaFixture(kernels.GGUFF16)
		x.keys["tokenizer.ggml.tokens"] = []string{"a"}
		x.keys["tokenizer.ggml."+key] = w
		m, err := x.model(t)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Vocabulary()
		refused(t, key, err, "tokenizer.ggml."+key)
	}
	m, err = llamaFixture(kernels.GGUFF16).model(t)
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Vocabulary()
	refused(t, "no tokens", err, "tokenizer.ggml.tokens")
}

// The identity is of the header and the size: the folder and the weights do not
// enter, a key does.
func TestIdentity(t *testing.T) {
	x := llamaFixture(kernels.GGUFF16)
	id := func() string {
		t.Helper()
		m, err := x.model(t)
		if err != nil {
			t.Fatal(err)
		}
		s, err := m.Identity()
		if err != nil || len(s) != 64 {
			t.Fatalf("%q %v", s, err)
		}
		return s
	}
	first := id()
	x.tensors[0].data[5] ^= 1
	if id() != first {
		t.Error("a weight changes the identity")
	}
	x.keys["general.name"] = "other"
	if id() == first {
		t.Error("a key does not change the identity")
	}
}

func TestSplitPartsAreOne(t *testing.T) {
	a, err := open(t, golden("split-00001-of-00002.gguf")).Identity()
	b, err2 := open(t, golden("split-00002-of-00002.gguf")).Identity()
	if err := errors.Join(err, err2); err != nil || a != b {
		t.Errorf("%s and %s: %v", a, b, err)
	}
}
