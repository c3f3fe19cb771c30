package tokenizer

import "errors"

// Vocabulary is a tokenizer as GGUF metadata describe it (keys tokenizer.ggml.*).
type Vocabulary struct {
	Model  string // gpt2, llama, …
	Pre    string // pre-tokenizer: llama-bpe, qwen2, smollm, …; "" where the key is absent
	Tokens []string
	Scores []float32 // of model llama; nil else
	Types  []int32   // 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte; nil: all normal
	Merges []string  // of model gpt2

	BOS, EOS, UNK int32 // -1 where there is none
	AddBOS        bool
	AddEOS        bool
	BOSStated     bool // the file says AddBOS
	AddSpace      bool // add_space_prefix; true where the file does not say
	TrimSpaces    bool // remove_extra_whitespaces
	Charsmap      []byte
}

// FromVocabulary makes a tokenizer of a GGUF vocabulary. A model or a
// pre-tokenizer that is not known is refused by name, with the known ones.
func FromVocabulary(v Vocabulary) (*Tokenizer, error) {
	return nil, errors.New("tokenizer: GGUF vocabularies are not built yet")
}
