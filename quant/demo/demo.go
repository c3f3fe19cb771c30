// Package demo holds a real, trained mixture-of-experts model that is small
// enough to be part of the program: weights, tokenizer and corpora.
package demo

import (
	"embed"
	"io/fs"

	"quantscope/quant/checkpoint"
)

//go:embed data/model data/corpora.safetensors data/corpora.json data/reference.json
var data embed.FS

// Label is what the demo is called wherever a checkpoint is named.
const Label = "demo"

// Open opens the demo model.
func Open() (*checkpoint.Checkpoint, error) {
	model, err := fs.Sub(data, "data/model")
	if err != nil {
		return nil, err
	}
	return checkpoint.OpenFS(Label, model)
}
