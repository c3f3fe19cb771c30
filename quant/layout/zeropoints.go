package layout

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	"quantscope/kernels"
)

// ZeroPoints is how the zero points of GPTQ checkpoints are read: as stored, or
// with the 1 that older writers subtract.
type ZeroPoints string

// Ways of reading zero points.
const (
	ZeroPointsTold     ZeroPoints = ""            // by the label, and refused where what is stored speaks against it
	ZeroPointsLabelled ZeroPoints = "as-labelled" // by checkpoint_format, whatever is stored
	ZeroPointsV1       ZeroPoints = "v1"          // stored minus 1
	ZeroPointsV2       ZeroPoints = "v2"          // stored as they are
)

var zeroPointWays = []string{string(ZeroPointsLabelled), string(ZeroPointsV1), string(ZeroPointsV2)}

// ParseZeroPoints reads a way by its name; "" is by the label, and refused where
// what is stored speaks against it. An unknown name is an error that lists the
// known ones.
func ParseZeroPoints(name string) (ZeroPoints, error) {
	for _, w := range zeroPointWays {
		if name == w || name == "" {
			return ZeroPoints(name), nil
		}
	}
	return "", fmt.Errorf("zero points %q: %w (known: %s)", name, kernels.ErrUnsupported, strings.Join(zeroPointWays, ", "))
}

// Options of opening a layout.
type Options struct {
	ZeroPoints ZeroPoints
	GGUFBlocks string  // for whoever opens a big-endian GGUF file with them: see package gguf
	Packing    Packing // of integers of 3, 5, 6 and 7 bits, where what is stored does not tell
}

// label is what a config calls the way in which zero points are stored.
func (w *wordArgs) label() (minus1 bool, words string, err error) {
	switch w.checkpoint {
	case formatGPTQ:
		return true, `checkpoint_format "gptq"`, nil
	case "": // the field is younger than the format, which was the only one before
		return true, `no checkpoint_format, which means "gptq",`, nil
	case formatGPTQv2:
		return false, `checkpoint_format "gptq_v2"`, nil
	}
	return false, "", fmt.Errorf("checkpoint_format %q: %w (known: %s, %s)", w.checkpoint, kernels.ErrUnsupported, formatGPTQ, formatGPTQv2)
}

// evidenceWords are how many words of zero points are looked at before weights
// are asked for.
const evidenceWords = 16

// evidence holds the first zero points of a symmetric module against the label:
// they are the middle of the codes, so that the other reading, which is one off,
// shows. It says how they are stored and how the label reads them; "" where they
// do not speak against it.
func (m *Module) evidence(ctx context.Context) (stored, read int, against bool, err error) {
	p := m.packed
	n := min(m.mins.t.Shape[1], evidenceWords)
	fields := min(int(n)*32/p.bits, m.Rows)
	raw := make([]byte, 4*n)
	if err := m.ck.ReadAt(ctx, m.mins.t, 0, raw); err != nil {
		return 0, 0, false, err
	}
	middle := 1 << (p.bits - 1)
	for k, z := range unpackFields(raw, p.bits, fields) {
		if k > 0 && int(z) != stored {
			return 0, 0, false, nil
		}
		stored = int(z)
	}
	read = stored
	if p.minus1 {
		read = (stored + 1) & (1<<p.bits - 1)
	}
	other := middle
	if !p.minus1 {
		other = middle - 1
	}
	return stored, read, read != middle && stored == other, nil
}

// unpackFields takes n values of some bits out of a stream of little-endian
// words.
func unpackFields(words []byte, bits, n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = field(words, i*bits, bits)
	}
	return out
}

// field is the value of at most 8 bits at a bit of a stream of bytes.
func field(stream []byte, bit, bits int) byte {
	v := uint16(stream[bit>>3])
	if at := bit>>3 + 1; bit&7+bits > 8 {
		v |= uint16(stream[at]) << 8
	}
	return byte(v>>(bit&7)) & byte(1<<bits-1)
}

// plus1 adds the 1 that older writers subtract from each of the zero points in
// words. They do so word by word, so that a zero point of 0 borrows from the
// next, but for 3 bits, which cross words and are taken one by one.
func plus1(words []byte, bits int) {
	if bits == 3 {
		for bit := 0; bit+3 <= 8*len(words); bit += 3 {
			put3(words, bit, (field(words, bit, 3)+1)&7)
		}
		return
	}
	ones := uint32(0)
	for at := 0; at < 32; at += bits {
		ones |= 1 << at
	}
	for ; len(words) >= 4; words = words[4:] {
		binary.LittleEndian.PutUint32(words, binary.LittleEndian.Uint32(words)+ones)
	}
}

// put3 writes 3 bits into a stream.
func put3(stream []byte, bit int, v byte) {
	for k := range 3 {
		at, mask := (bit+k)>>3, byte(1)<<((bit+k)&7)
		stream[at] &^= mask
		if v>>k&1 == 1 {
			stream[at] |= mask
		}
	}
}
