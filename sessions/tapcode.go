package sessions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"quantscope/kernels"
)

// tapVersion is the first byte of a tap payload that is written; of a Tap
// without moments it is that of the version before. The older ones are read
// still: the third lacks the moments, so do those before; the first lacks the digest of the weights, and
// that of the second is made otherwise. docs/session.md draws them.
const (
	tapVersion          = 4
	tapVersionNoMoments = 3
	tapVersionSHA       = 2
	tapVersionNoDigest  = 1
)

// The order of the fields is the format. Counts are unsigned varints, figures
// are the eight bytes of an f64, little-endian, so that a record comes back bit
// for bit.
func tapCounts(t *kernels.Tap) [12]*int64 {
	return [...]*int64{
		&t.Elements, &t.Blocks, &t.NaN, &t.Inf,
		&t.ScaleCount, &t.ScaleHigh, &t.ScaleLow, &t.ScaleSubnormal, &t.ZeroBlocks,
		&t.Shallow, &t.Deep, &t.SubnormalClipped,
	}
}

func tapFigures(t *kernels.Tap) [13]*float64 {
	return [...]*float64{
		&t.SumW2, &t.SumQ2, &t.SumWQ, &t.SumE2, &t.MaxAbsErr, &t.Amax,
		&t.GlobalScale, &t.ScaleMin, &t.ScaleMax, &t.ScaleSum,
		&t.ShallowL2, &t.DeepL2, &t.SubnormalClippedL2,
	}
}

// tapMoments follow on the figures where a Tap has them.
func tapMoments(t *kernels.Tap) [3]*float64 {
	return [...]*float64{&t.SumW, &t.SumW3, &t.SumW4}
}

// tapHistograms are written each as its number of bins and then the bins. The
// depths come first: a Record needs no other.
func tapHistograms(t *kernels.Tap) [5][]int64 {
	return [...][]int64{t.Depth[:], t.Codes[:], t.Multipliers[:], t.Scales[:], t.Errors[:]}
}

var (
	errTapShort   = errors.New("tap payload ends early")
	errTapTrailed = errors.New("tap payload goes on after its end")
)

// encodeTap appends the payload of a tap event to dst. weights is the
// XXH3 of the matrix's elements.
func encodeTap(dst []byte, t *kernels.Tap, weights uint64) []byte {
	version := byte(tapVersion)
	if !t.HasMoments {
		version = tapVersionNoMoments
	}
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, weights)
	for _, f := range tapFigures(t) {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(*f))
	}
	if t.HasMoments {
		for _, f := range tapMoments(t) {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(*f))
		}
	}
	for _, n := range tapCounts(t) {
		dst = binary.AppendUvarint(dst, uint64(*n))
	}
	for _, h := range tapHistograms(t) {
		dst = binary.AppendUvarint(dst, uint64(len(h)))
		for _, n := range h {
			dst = binary.AppendUvarint(dst, uint64(n))
		}
	}
	return dst
}

// decodeTap reads a whole tap payload.
func decodeTap(p []byte, t *kernels.Tap) error {
	_, rest, err := decodeTapHead(p, t)
	if err != nil {
		return err
	}
	for i, h := range tapHistograms(t) {
		if i == 0 {
			continue // the depths, read with the head
		}
		if rest, err = decodeBins(rest, h); err != nil {
			return err
		}
	}
	if len(rest) != 0 {
		return errTapTrailed
	}
	return nil
}

// decodeTapHead reads what a Record needs: everything up to the histogram of
// depths. It returns the digest of the weights, of which nothing is known where
// the payload has none, and what follows.
func decodeTapHead(p []byte, t *kernels.Tap) (weights digest, rest []byte, err error) {
	figures, moments := tapFigures(t), tapMoments(t)
	if len(p) == 0 {
		return weights, nil, errTapShort
	}
	version := p[0]
	p = p[1:]
	need := 8 * len(figures)
	switch version {
	case tapVersion:
		need += 8 + 8*len(moments)
	case tapVersionNoMoments, tapVersionSHA:
		need += 8
	case tapVersionNoDigest:
	default:
		return weights, nil, fmt.Errorf("tap payload has version %d, this program reads %d to %d", version, tapVersionNoDigest, tapVersion)
	}
	if len(p) < need {
		return weights, nil, errTapShort
	}
	switch version {
	case tapVersion, tapVersionNoMoments:
		weights.xxh, p = binary.BigEndian.Uint64(p), p[8:]
	case tapVersionSHA:
		weights.sha, p = binary.BigEndian.Uint64(p), p[8:]
	}
	for _, f := range figures {
		*f = math.Float64frombits(binary.LittleEndian.Uint64(p))
		p = p[8:]
	}
	t.HasMoments = version == tapVersion
	for _, f := range moments { // t may have been used before
		*f = 0
		if t.HasMoments {
			*f, p = math.Float64frombits(binary.LittleEndian.Uint64(p)), p[8:]
		}
	}
	for _, n := range tapCounts(t) {
		v, k := binary.Uvarint(p)
		if k <= 0 {
			return weights, nil, errTapShort
		}
		*n, p = int64(v), p[k:]
	}
	rest, err = decodeBins(p, t.Depth[:])
	return weights, rest, err
}

// decodeBins reads one histogram into h, which has the number of bins that the
// payload must have.
func decodeBins(p []byte, h []int64) ([]byte, error) {
	bins, k := binary.Uvarint(p)
	if k <= 0 {
		return nil, errTapShort
	}
	if bins != uint64(len(h)) {
		return nil, fmt.Errorf("tap payload has a histogram of %d bins in place of %d", bins, len(h))
	}
	p = p[k:]
	for i := range h {
		if len(p) > 0 && p[0] < 0x80 { // most bins
			h[i], p = int64(p[0]), p[1:]
			continue
		}
		v, k := binary.Uvarint(p)
		if k <= 0 {
			return nil, errTapShort
		}
		h[i], p = int64(v), p[k:]
	}
	return p, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// eventSum is the CRC-32C of one event: its numbers as eight bytes each,
// little-endian, in the order seq, at_us, variant, tensor, then the kind, then
// the payload. SQLite has no checksums of its own.
func eventSum(seq, atUS int64, variant, tensor int, kind string, payload []byte) int64 {
	var head [32 + 16]byte
	binary.LittleEndian.PutUint64(head[0:], uint64(seq))
	binary.LittleEndian.PutUint64(head[8:], uint64(atUS))
	binary.LittleEndian.PutUint64(head[16:], uint64(variant))
	binary.LittleEndian.PutUint64(head[24:], uint64(tensor))
	n := 32 + copy(head[32:], kind)
	return int64(crc32.Update(crc32.Update(0, castagnoli, head[:n]), castagnoli, payload))
}
