package sessions

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/zeebo/xxh3"
)

// digest says which bytes a tensor was measured of: its elements as they are
// stored, row by row. A part that is 0 is not known; that one is 0 by chance has
// the odds of 2⁻⁶⁴ and costs one comparison.
type digest struct {
	xxh uint64 // XXH3 of 64 bits with seed 0: what is written
	sha uint64 // the first eight bytes of the SHA-256: in records of version 2
}

// known says whether there is anything to compare with.
func (d digest) known() bool { return d.xxh != 0 || d.sha != 0 }

// differs says whether the two have a part in common that is not the same.
func (d digest) differs(o digest) bool {
	return d.xxh != 0 && o.xxh != 0 && d.xxh != o.xxh || d.sha != 0 && o.sha != 0 && d.sha != o.sha
}

// String is the digest with what made it, "" where nothing is known.
func (d digest) String() string {
	switch {
	case d.xxh != 0:
		return "xxh3:" + digestText(d.xxh)
	case d.sha != 0:
		return "sha256:" + digestText(d.sha)
	}
	return ""
}

// or is d with what it lacks taken from o.
func (d digest) or(o digest) digest {
	if d.xxh == 0 {
		d.xxh = o.xxh
	}
	if d.sha == 0 {
		d.sha = o.sha
	}
	return d
}

// texts writes d and another digest of the part that both have.
func (d digest) texts(o digest) (string, string) {
	if d.xxh != 0 && o.xxh != 0 && d.xxh != o.xxh {
		return digestText(d.xxh), digestText(o.xxh)
	}
	return digestText(d.sha), digestText(o.sha)
}

// digestText is a digest as xxhsum, or the beginning of sha256sum, writes it.
func digestText(d uint64) string { return fmt.Sprintf("%016x", d) }

// hasher makes the digest of a tensor whose bytes come in pieces. It is used
// again for one tensor after the other.
type hasher struct {
	xxh xxh3.Hasher
	sha hash.Hash
	old bool // sha is wanted too
}

// begin forgets what came before. SHA-256 is slow beside the kernels, so it is
// made only where a record of version 2 is to be compared with.
func (h *hasher) begin(old bool) {
	h.xxh.Reset()
	if h.old = old; !old {
		return
	}
	if h.sha == nil {
		h.sha = sha256.New()
	}
	h.sha.Reset()
}

func (h *hasher) add(b []byte) {
	_, _ = h.xxh.Write(b) // neither fails
	if h.old {
		_, _ = h.sha.Write(b)
	}
}

func (h *hasher) digest() digest {
	d := digest{xxh: h.xxh.Sum64()}
	if h.old {
		var sum [sha256.Size]byte
		d.sha = binary.BigEndian.Uint64(h.sha.Sum(sum[:0]))
	}
	return d
}

// digestOf is the digest of a matrix that is whole in memory.
func digestOf(data []byte, old bool) digest {
	var h hasher
	h.begin(old)
	h.add(data)
	return h.digest()
}
