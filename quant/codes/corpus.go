package codes

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path/filepath"

	"quantscope/quant/checkpoint"
)

// corpusName is the file of the corpus: tensor ids, I32, chunk after chunk, and
// tensor lengths, I32, of the chunks.
const corpusName = "corpus.safetensors"

// encodeIDs are ids as they are stored and hashed, little-endian.
func encodeIDs(chunks [][]int32) (ids, lengths []byte) {
	for _, c := range chunks {
		lengths = binary.LittleEndian.AppendUint32(lengths, uint32(len(c)))
		for _, id := range c {
			ids = binary.LittleEndian.AppendUint32(ids, uint32(id))
		}
	}
	return ids, lengths
}

// checkIDs holds ids against what a manifest says of them.
func checkIDs(m *Manifest, chunks [][]int32) error {
	raw, _ := encodeIDs(chunks)
	if len(chunks) == 0 && m.Corpus.SHA256 == "" {
		return nil
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(raw)); sum != m.Corpus.SHA256 || len(chunks) != m.Corpus.Chunks || int64(len(raw)/4) != m.Corpus.Tokens {
		return fmt.Errorf("the corpus is %.12s of %d chunks and %d tokens, the manifest says %s", sum, len(chunks), len(raw)/4, orNone(m.Corpus.text()))
	}
	return nil
}

func writeIDs(path string, chunks [][]int32) error {
	if len(chunks) == 0 {
		return nil
	}
	ids, lengths := encodeIDs(chunks)
	w, err := checkpoint.NewWriter(path, []checkpoint.Spec{
		{Name: "ids", DType: checkpoint.I32, Shape: []int64{int64(len(ids) / 4)}},
		{Name: "lengths", DType: checkpoint.I32, Shape: []int64{int64(len(chunks))}},
	}, nil)
	if err != nil {
		return err
	}
	defer w.Abort()
	if _, err := w.Write(ids); err != nil {
		return err
	}
	if _, err := w.Write(lengths); err != nil {
		return err
	}
	return w.Commit()
}

// Chunks are the ids of the corpus, checked against the manifest's SHA-256; nil
// where it names none.
func (s *Store) Chunks() ([][]int32, error) {
	if s.m.Corpus.SHA256 == "" {
		return nil, nil
	}
	path := filepath.Join(s.dir, corpusName)
	ck, err := checkpoint.Open(path)
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	var read [2][]int32
	for k, name := range []string{"ids", "lengths"} {
		t, ok := ck.Lookup(name)
		if !ok || t.DType != checkpoint.I32 || len(t.Shape) != 1 {
			return nil, &checkpoint.FileError{File: path, Tensor: name, Reason: "is not there as a row of I32"}
		}
		raw := make([]byte, t.Size)
		if err := ck.ReadAt(context.Background(), t, 0, raw); err != nil {
			return nil, err
		}
		for ; len(raw) >= 4; raw = raw[4:] {
			read[k] = append(read[k], int32(binary.LittleEndian.Uint32(raw)))
		}
	}
	var chunks [][]int32
	ids := read[0]
	for k, n := range read[1] {
		if n < 0 || int(n) > len(ids) {
			return nil, &checkpoint.FileError{File: path, Tensor: "lengths", Reason: fmt.Sprintf("chunk %d of %d tokens is more than the %d that are left", k, n, len(ids))}
		}
		chunks, ids = append(chunks, ids[:n:n]), ids[n:]
	}
	if len(ids) > 0 {
		return nil, &checkpoint.FileError{File: path, Tensor: "lengths", Reason: fmt.Sprintf("leaves %d tokens in no chunk", len(ids))}
	}
	if err := checkIDs(&s.m, chunks); err != nil {
		return nil, &checkpoint.FileError{File: path, Reason: "is damaged", Err: err}
	}
	return chunks, nil
}
