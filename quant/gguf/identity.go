package gguf

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"path/filepath"
	"strconv"

	"quantscope/quant/checkpoint"
)

// Identity says which file it is, wherever it lies: the SHA-256, in hex, of the
// lines
//
//	quantscope gguf 1
//	"model-00001-of-00002.gguf" 4219760 <SHA-256 of all before its data, in hex>
//
// with one line for each part in their order, the name as a Go string literal.
// Weights do not enter, as they do not into checkpoint.Identity.
func (f *File) Identity() (string, error) {
	text := []byte("quantscope gguf 1\n")
	for i := range f.Parts {
		p := &f.Parts[i]
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(p.f, 0, min(p.data, p.Size))); err != nil {
			return "", checkpoint.SystemError(p.Name, err)
		}
		text = strconv.AppendQuote(text, filepath.Base(p.Name))
		text = append(text, ' ')
		text = strconv.AppendInt(text, p.Size, 10)
		text = append(text, ' ')
		text = hex.AppendEncode(text, h.Sum(nil))
		text = append(text, '\n')
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
