package corpus

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/gguf"
	"quantscope/quant/tokenizer"
)

// OpenTokenizer reads the tokenizer of a model, by its path: a checkpoint's folder
// or file, a GGUF file, a tokenizer.json, or demo.
func OpenTokenizer(path string) (*tokenizer.Tokenizer, error) {
	named := func(t *tokenizer.Tokenizer, err error) (*tokenizer.Tokenizer, error) {
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		return t, nil
	}
	switch {
	case path == demo.Label:
		return DemoTokenizer()
	case strings.EqualFold(filepath.Ext(path), ".gguf"):
		return openGGUF(path)
	case filepath.Base(path) == "tokenizer.json":
		data, err := readFile(path)
		if err != nil {
			return nil, err
		}
		return named(tokenizer.Parse(data))
	}
	ck, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	side, ok := ck.SideFile("tokenizer.json")
	if !ok {
		return nil, fmt.Errorf("%s: has no tokenizer.json", path)
	}
	data, err := side.Read()
	if err != nil {
		return nil, err
	}
	var config []byte
	if side, ok := ck.SideFile("tokenizer_config.json"); ok {
		if config, err = side.Read(); err != nil {
			return nil, err
		}
	}
	return named(tokenizer.ParseWithConfig(data, config))
}

func openGGUF(path string) (t *tokenizer.Tokenizer, err error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	v, err := f.Vocabulary()
	if err != nil {
		return nil, err
	}
	if t, err = tokenizer.FromVocabulary(v); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}
