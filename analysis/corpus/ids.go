package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"quantscope/quant/checkpoint"
)

// fileText sums the texts of a file of several.
func fileText(name string, docs []Document) Text {
	h := sha256.New()
	t := Text{Name: name}
	for _, d := range docs {
		_, _ = h.Write([]byte(d.Text)) // a hash never fails
		t.Bytes += int64(len(d.Text))
	}
	t.SHA256 = fmt.Sprintf("%x", h.Sum(nil))
	return t
}

// ofIDs is a corpus of ids that came without a word on how they were made.
func ofIDs(name, source string, o Options) *Corpus {
	return &Corpus{Name: name, Source: source, BOS: BOSAsIs, Begin: -1, Calib: o.Calib || name == "calib" || name == "calibration"}
}

// asChunks takes lists of ids as chunks, or cuts them anew where a length is asked for.
func asChunks(name, source string, lists [][]int32, o Options) (*Corpus, error) {
	c := ofIDs(name, source, o)
	if o.BOS != BOSOwn {
		return nil, fmt.Errorf("corpus: %s holds ids, whose begin tokens stay as they are; rule %q is for texts", source, o.BOS)
	}
	if o.Chunk > 0 || o.Stride > 0 {
		var all []int32
		for _, l := range lists {
			all = append(all, l...)
		}
		if err := c.cut(all, o); err != nil {
			return nil, err
		}
		return c, c.finish(o)
	}
	short, long := math.MaxInt, 0
	for i, l := range lists {
		if o.Chunks > 0 && i == o.Chunks {
			break
		}
		c.Chunks = append(c.Chunks, l)
		short, long = min(short, len(l)), max(long, len(l))
	}
	c.Chunking = fmt.Sprintf("%d chunks of %d tokens, as the file has them", len(c.Chunks), long)
	if short < long {
		c.Chunking = fmt.Sprintf("%d chunks of %d to %d tokens, as the file has them", len(c.Chunks), short, long)
	}
	if c.Tokens() > maxTokens || long > maxChunk {
		return nil, fmt.Errorf("corpus: %s: %d tokens, the longest chunk %d: at most %d, %d in a chunk", source, c.Tokens(), long, maxTokens, maxChunk)
	}
	return c, c.finish(o)
}

// fromIDs reads little-endian int32.
func fromIDs(name string, data []byte, o Options) (*Corpus, error) {
	if len(data)%4 != 0 {
		return nil, fmt.Errorf("corpus: %s: %d bytes are no whole number of int32", name, len(data))
	}
	if len(data)/4 > maxTokens {
		return nil, fmt.Errorf("corpus: %s: %d tokens, and at most %d are read", name, len(data)/4, maxTokens)
	}
	ids := make([]int32, len(data)/4)
	for i := range ids {
		ids[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	if o.Chunk == 0 {
		o.Chunk = DefaultChunk
	}
	return asChunks(stem(name), name, [][]int32{ids}, o)
}

// loadSafetensors reads every tensor of a file as a corpus: rows are chunks, and a
// tensor of one dimension is cut.
func loadSafetensors(ctx context.Context, name string, o Options) ([]*Corpus, error) {
	ck, err := checkpoint.Open(name)
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	defer ck.Close()
	var all []*Corpus
	for i := range ck.Tensors {
		t := &ck.Tensors[i]
		where := fmt.Sprintf("%s: tensor %q", name, t.Name)
		width := int64(4)
		switch {
		case t.DType == checkpoint.I64:
			width = 8
		case t.DType != checkpoint.I32:
			return nil, fmt.Errorf("corpus: %s is %s, and ids are I32 or I64", where, t.DType)
		}
		if len(t.Shape) != 1 && len(t.Shape) != 2 {
			return nil, fmt.Errorf("corpus: %s has %d dimensions, and ids have 1 or 2", where, len(t.Shape))
		}
		n := t.Size / width
		if n > maxTokens || n == 0 {
			return nil, fmt.Errorf("corpus: %s has %d tokens, and from 1 to %d are read", where, n, maxTokens)
		}
		raw := make([]byte, t.Size)
		if err := ck.ReadAt(ctx, t, 0, raw); err != nil {
			return nil, fmt.Errorf("corpus: %w", err)
		}
		ids, err := integers(raw, width)
		if err != nil {
			return nil, fmt.Errorf("corpus: %s: %w", where, err)
		}
		each := o
		lists := [][]int32{ids}
		if len(t.Shape) == 2 {
			lists = rows(ids, int(t.Shape[1]))
		} else if o.Chunk == 0 {
			each.Chunk = DefaultChunk
		}
		c, err := asChunks(strings.TrimPrefix(t.Name, "eval."), name, lists, each)
		if err != nil {
			return nil, err
		}
		if len(ck.Tensors) > 1 {
			c.Source = name + "#" + t.Name
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("corpus: %s: no tensor in it", filepath.Base(name))
	}
	return all, nil
}

// integers reads ids of four or eight bytes.
func integers(raw []byte, width int64) ([]int32, error) {
	ids := make([]int32, int64(len(raw))/width)
	for i := range ids {
		if width == 4 {
			ids[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
			continue
		}
		v := int64(binary.LittleEndian.Uint64(raw[8*i:]))
		if v < 0 || v > math.MaxInt32 {
			return nil, fmt.Errorf("token id %d at %d is none", v, i)
		}
		ids[i] = int32(v)
	}
	return ids, nil
}

func rows(ids []int32, n int) [][]int32 {
	var out [][]int32
	for at := 0; n > 0 && at < len(ids); at += n {
		out = append(out, ids[at:at+n:at+n])
	}
	return out
}
