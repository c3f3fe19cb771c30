package checkpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
)

// Identity says which checkpoint it is, wherever it lies. It is the SHA-256 of
// the lines
//
//	quantscope checkpoint 1
//	"model-00001-of-00002.safetensors" 4219760 <SHA-256 of its header in hex>
//
// with one line for each file that holds tensors, sorted by name, the name as
// a Go string literal, each line ended by a newline. The header's sum is over
// the eight bytes of its length and its text. Weights do not enter: two
// checkpoints of the same shapes in files of the same names have one identity.
// Who measures weights keeps digests of what was read.
type Identity [sha256.Size]byte

// String is the identity in hex.
func (id Identity) String() string { return hex.EncodeToString(id[:]) }

// Identity is the checkpoint's identity.
func (c *Checkpoint) Identity() Identity {
	files := slices.Clone(c.Files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	text := []byte("quantscope checkpoint 1\n")
	for _, f := range files {
		text = strconv.AppendQuote(text, f.Name)
		text = append(text, ' ')
		text = strconv.AppendInt(text, f.Size, 10)
		text = append(text, ' ')
		text = hex.AppendEncode(text, f.HeaderSHA256[:])
		text = append(text, '\n')
	}
	return sha256.Sum256(text)
}
