// Package demo holds a real, trained mixture-of-experts model that is small
// enough to be part of the program, with its tokenizer and corpora, and makes
// synthetic checkpoints of any size in the same layout.
//
// Promises: what is embedded is read in place, nothing is unpacked; the bytes
// handed out are the caller's. A synthetic checkpoint is the same, bit for
// bit, for the same settings on every machine, and is never found half
// written under its final names.
package demo

import (
	"embed"
	"io/fs"

	"quantscope/quant/checkpoint"
)

//go:embed data/model data/corpora.safetensors
var data embed.FS

//go:embed data/corpora.json
var corporaJSON string

//go:embed data/reference.json
var reference string

// Label is what the demo is called wherever a checkpoint is named.
const Label = "demo"

// Open opens the demo model: glm4_moe, dense layer 0, four MoE layers of 16
// experts, an MTP layer; 240 routed-expert matrices of 128×128; 10 MB in bf16.
func Open() (*checkpoint.Checkpoint, error) {
	model, err := fs.Sub(data, "data/model")
	if err != nil {
		return nil, err
	}
	return checkpoint.OpenFS(Label, model)
}

// Reference is reference.json: what other programs say of the model.
func Reference() []byte { return []byte(reference) }

// CorporaJSON is corpora.json: shape and SHA-256 of each corpus.
func CorporaJSON() []byte { return []byte(corporaJSON) }
