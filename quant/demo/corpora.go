package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"quantscope/quant/checkpoint"
)

// Calibration is the corpus of training text; the others are held out and are
// for evaluation.
const Calibration = "calib"

// Corpus is a text as token ids of the demo's tokenizer.
type Corpus struct {
	Name   string // calib, eval.chat, eval.code, eval.math, eval.multi, eval.prose
	Chunks int
	Length int     // tokens of each chunk
	IDs    []int32 // chunk after chunk
	SHA256 [sha256.Size]byte
}

// Chunk is one chunk of the corpus.
func (c *Corpus) Chunk(i int) []int32 { return c.IDs[i*c.Length : (i+1)*c.Length] }

// Corpora reads all corpora, in the order of their names, and checks each
// against its recorded SHA-256, which is over the ids as little-endian int32.
func Corpora() (corpora []Corpus, err error) {
	sums := map[string]struct {
		Shape  []int64
		SHA256 string
	}{}
	if err := json.Unmarshal(CorporaJSON(), &sums); err != nil {
		return nil, fmt.Errorf("demo: corpora.json: %w", err)
	}
	files, err := fs.Sub(data, "data")
	if err != nil {
		return nil, err
	}
	ck, err := checkpoint.OpenFS(Label, files)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ck.Close()) }()
	for i := range ck.Tensors {
		t := &ck.Tensors[i]
		if t.DType != checkpoint.I32 || len(t.Shape) != 2 {
			return nil, fmt.Errorf("demo: corpora.safetensors: tensor %q: %s of %d dimensions, want I32 of 2", t.Name, t.DType, len(t.Shape))
		}
		raw := make([]byte, t.Size)
		if err := ck.ReadAt(context.Background(), t, 0, raw); err != nil {
			return nil, err
		}
		c := Corpus{Name: t.Name, Chunks: int(t.Shape[0]), Length: int(t.Shape[1]), IDs: make([]int32, t.Elements()), SHA256: sha256.Sum256(raw)}
		if err := binary.Read(bytes.NewReader(raw), binary.LittleEndian, c.IDs); err != nil {
			return nil, fmt.Errorf("demo: corpora.safetensors: tensor %q: %w", t.Name, err)
		}
		if got := fmt.Sprintf("%x", c.SHA256); got != sums[t.Name].SHA256 {
			return nil, fmt.Errorf("demo: corpora.safetensors: tensor %q: sha256 is %s, corpora.json says %s", t.Name, got, sums[t.Name].SHA256)
		}
		corpora = append(corpora, c)
	}
	return corpora, nil
}
