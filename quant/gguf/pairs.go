package gguf

import (
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
)

// Keys of the format itself.
const (
	alignmentKey = "general.alignment"
	splitPrefix  = "split."
)

// span is where the value of a key stands in a part, its type before it.
type span struct {
	part  int
	at, n int64
}

// Pairs are the file's keys in their order, for a file that is made of this one.
// The values of a little-endian file are written byte for byte, whatever bits their
// numbers have. What says how this file is split is left out.
func (f *File) Pairs() ([]Pair, error) {
	pairs := make([]Pair, 0, len(f.Keys))
	for _, key := range f.Keys {
		if strings.HasPrefix(key, splitPrefix) {
			continue
		}
		p := Pair{Key: key, Value: f.Metadata[key]}
		if s := f.values[key]; !f.Parts[s.part].BigEndian {
			p.Value.raw = make([]byte, s.n)
			if _, err := f.Parts[s.part].f.ReadAt(p.Value.raw, s.at); err != nil {
				return nil, checkpoint.SystemError(f.Parts[s.part].Name, err)
			}
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

// SetPair gives a key a value, where it stands or else at the end.
func SetPair(pairs []Pair, key string, v Value) []Pair {
	if i := slices.IndexFunc(pairs, func(p Pair) bool { return p.Key == key }); i >= 0 {
		pairs[i] = Pair{Key: key, Value: v}
		return pairs
	}
	return append(pairs, Pair{Key: key, Value: v})
}
