package gguf

import (
	"fmt"
	"math"

	"quantscope/quant/checkpoint"
	"quantscope/quant/tokenizer"
)

// Vocabulary is the tokenizer that the file's metadata describe. A key of the
// wrong type is an error that names it.
func (f *File) Vocabulary() (tokenizer.Vocabulary, error) {
	k := &vocabularyKeys{f: f}
	if _, ok := f.Metadata["tokenizer.ggml.tokens"]; !ok {
		return tokenizer.Vocabulary{}, &checkpoint.FileError{File: f.Path, Reason: "has no key tokenizer.ggml.tokens, so no tokenizer"}
	}
	v := tokenizer.Vocabulary{
		Model: key[string](k, "model", ""), Pre: key[string](k, "pre", ""),
		Tokens: list[string](k, "tokens"), Merges: list[string](k, "merges"),
		BOS: k.id("bos_token_id"), EOS: k.id("eos_token_id"), UNK: k.id("unknown_token_id"),
		AddEOS:   key(k, "add_eos_token", false),
		AddSpace: key(k, "add_space_prefix", true), TrimSpaces: key(k, "remove_extra_whitespaces", false),
	}
	_, v.BOSStated = f.Metadata["tokenizer.ggml.add_bos_token"]
	v.AddBOS = key(k, "add_bos_token", false)
	for _, s := range list[float64](k, "scores") {
		v.Scores = append(v.Scores, float32(s))
	}
	for _, t := range k.integers("token_type") {
		v.Types = append(v.Types, int32(max(min(t, math.MaxInt32), math.MinInt32)))
	}
	for _, b := range k.integers("precompiled_charsmap") {
		v.Charsmap = append(v.Charsmap, byte(b))
	}
	return v, k.err
}

// vocabularyKeys reads keys below tokenizer.ggml and keeps the first error.
type vocabularyKeys struct {
	f   *File
	err error
}

func (k *vocabularyKeys) broken(name string, v Value) {
	if k.err == nil {
		got := v.Type.String()
		if v.Type == Array {
			got = "a list of " + v.Elem.String()
		}
		k.err = &checkpoint.FileError{File: k.f.Path, Reason: fmt.Sprintf("key tokenizer.ggml.%s is %s", name, got)}
	}
}

func key[T any](k *vocabularyKeys, name string, otherwise T) T {
	v, ok := k.f.Metadata["tokenizer.ggml."+name]
	if !ok {
		return otherwise
	}
	x, is := v.V.(T)
	if !is {
		k.broken(name, v)
		return otherwise
	}
	return x
}

func list[T any](k *vocabularyKeys, name string) []T {
	v, ok := k.f.Metadata["tokenizer.ggml."+name]
	if !ok {
		return nil
	}
	x, is := v.List.([]T)
	if !is {
		k.broken(name, v)
	}
	return x
}

func (k *vocabularyKeys) integers(name string) []int64 {
	v, ok := k.f.Metadata["tokenizer.ggml."+name]
	if !ok {
		return nil
	}
	switch x := v.List.(type) {
	case []int64:
		return x
	case []uint64:
		out := make([]int64, len(x))
		for i, n := range x {
			out[i] = int64(min(n, math.MaxInt64))
		}
		return out
	}
	k.broken(name, v)
	return nil
}

// id is a token's id, −1 where the file names none. The format's own "none" is
// all ones.
func (k *vocabularyKeys) id(name string) int32 {
	v, ok := k.f.Metadata["tokenizer.ggml."+name]
	if !ok {
		return -1
	}
	n := int64(-1)
	switch x := v.V.(type) {
	case uint64:
		if x <= math.MaxInt32 {
			n = int64(x)
		}
	case int64:
		n = x
	default:
		k.broken(name, v)
	}
	if n < 0 || n > math.MaxInt32 {
		return -1
	}
	return int32(n)
}
