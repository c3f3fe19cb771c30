package sessions

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"

	"quantscope/kernels"
)

// tapVersion is the first byte of a tap payload that is written; of a Tap without a
// bias it is that of the version before, which lacks it, and without moments too that
// of the one before that. The older ones are read still: the third lacks the moments, so
// do those before; the first lacks the digest of the weights, and that of the second is
// made otherwise. docs/session.md draws them.
const (
	tapVersion          = 5
	tapVersionNoBias    = 4
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

// tapBias follow on those where a Tap has a bias, tapBiasCounts on the counts.
func tapBias(t *kernels.Tap) [6]*float64 {
	b := &t.Bias
	return [...]*float64{&b.SumErr, &b.SumAbsW, &b.SumRow2, &b.RowMax, &b.L2, &b.Sym}
}

func tapBiasCounts(t *kernels.Tap) [2]*int64 { return [...]*int64{&t.Bias.Rows, &t.Bias.Positive} }

// tapHas are the bits of the byte after the digest in version 5: which of the groups of
// figures that need not be there are.
const (
	tapHasMoments = 1 << iota
	tapHasBias
)

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
	switch {
	case t.HasBias:
	case t.HasMoments:
		version = tapVersionNoBias
	default:
		version = tapVersionNoMoments
	}
	dst = append(dst, version)
	dst = binary.BigEndian.AppendUint64(dst, weights)
	if t.HasBias {
		has := byte(tapHasBias)
		if t.HasMoments {
			has |= tapHasMoments
		}
		dst = append(dst, has)
	}
	for _, f := range tapFigures(t) {
		dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(*f))
	}
	if t.HasMoments {
		for _, f := range tapMoments(t) {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(*f))
		}
	}
	if t.HasBias {
		for _, f := range tapBias(t) {
			dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(*f))
		}
	}
	for _, n := range tapCounts(t) {
		dst = binary.AppendUvarint(dst, uint64(*n))
	}
	if t.HasBias {
		for _, n := range tapBiasCounts(t) {
			dst = binary.AppendUvarint(dst, uint64(*n))
		}
		dst = binary.AppendUvarint(dst, uint64(t.Bias.Codebook))
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
	if len(p) == 0 {
		return weights, nil, errTapShort
	}
	version := p[0]
	p = p[1:]
	if version < tapVersionNoDigest || version > tapVersion {
		return weights, nil, fmt.Errorf("tap payload has version %d, this program reads %d to %d", version, tapVersionNoDigest, tapVersion)
	}
	if version > tapVersionNoDigest {
		if len(p) < 8 {
			return weights, nil, errTapShort
		}
		if weights.xxh = binary.BigEndian.Uint64(p); version == tapVersionSHA {
			weights.xxh, weights.sha = 0, weights.xxh
		}
		p = p[8:]
	}
	has := byte(0)
	switch version {
	case tapVersion:
		if len(p) == 0 {
			return weights, nil, errTapShort
		}
		if has, p = p[0], p[1:]; has&tapHasBias == 0 || has&^(tapHasBias|tapHasMoments) != 0 {
			return weights, nil, fmt.Errorf("tap payload has %#x of figures that this program does not know", has)
		}
	case tapVersionNoBias:
		has = tapHasMoments
	}
	t.HasMoments, t.HasBias = has&tapHasMoments != 0, has&tapHasBias != 0
	figures, moments, bias := tapFigures(t), tapMoments(t), tapBias(t)
	for _, f := range moments { // t may have been used before
		*f = 0
	}
	t.Bias = kernels.Bias{}
	groups := [...][]*float64{figures[:], nil, nil}
	if t.HasMoments {
		groups[1] = moments[:]
	}
	if t.HasBias {
		groups[2] = bias[:]
	}
	for _, group := range groups {
		if len(p) < 8*len(group) {
			return weights, nil, errTapShort
		}
		for _, f := range group {
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
	if t.HasBias {
		if p, err = decodeBiasCounts(p, t); err != nil {
			return weights, nil, err
		}
	}
	rest, err = decodeBins(p, t.Depth[:])
	return weights, rest, err
}

// decodeBiasCounts reads the counts of a bias, and the codebook.
func decodeBiasCounts(p []byte, t *kernels.Tap) ([]byte, error) {
	for _, n := range tapBiasCounts(t) {
		v, k := binary.Uvarint(p)
		if k <= 0 {
			return nil, errTapShort
		}
		*n, p = int64(v), p[k:]
	}
	mask, k := binary.Uvarint(p)
	switch {
	case k <= 0:
		return nil, errTapShort
	case mask > math.MaxUint16:
		return nil, fmt.Errorf("tap payload has the codebook %#x, which is no set of 16 codes", mask)
	}
	t.Bias.Codebook = uint16(mask)
	return p[k:], nil
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
