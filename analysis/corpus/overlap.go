package corpus

import (
	"errors"
	"fmt"
	"slices"
)

// Window is how many tokens in a row are compared: long enough that chance does
// not make it up. Stock phrases and boilerplate do, so windows are counted and told, and what is
// refused is a passage: a run of Passage tokens, or a whole chunk, or a fifth of
// the evaluation.
const (
	Window  = 32
	Passage = 128
	tooMuch = 0.2
)

// maxSampled bounds the windows of calibration that are kept, 16 bytes each.
const maxSampled = 1 << 20

// ErrOverlap is wrapped where evaluation text is in the calibration text.
var ErrOverlap = errors.New("evaluation text is in the calibration text")

// Report is what two corpora share.
type Report struct {
	Eval, Calib string // names
	Windows     int    // of the evaluation that were looked for
	Shared      int    // of them, found in the calibration
	Every       uint64 // one in so many windows was looked for, chosen by content; 1: all
	Dull        int    // windows of at most four different tokens, which any text may have; not counted
	Short       int    // chunks of the evaluation that are shorter than a window
	Longest     int    // tokens of the longest run that was found
	Whole       int    // chunks of the evaluation that stand in one chunk of the calibration, all of them

	EvalChunk, EvalPosition   int // the first shared place in both
	CalibChunk, CalibPosition int
}

// Refused says whether the two share so much that figures on the one say nothing
// about a model that was calibrated on the other.
func (r Report) Refused() bool {
	return r.Longest >= Passage || r.Whole > 0 || float64(r.Shared) > tooMuch*float64(r.Windows)
}

// String tells what is shared, with the first place.
func (r Report) String() string {
	if r.Shared == 0 {
		return fmt.Sprintf("%s and %s share none of %d windows of %d tokens", r.Eval, r.Calib, r.Windows, Window)
	}
	return fmt.Sprintf("%s and %s share %d of %d windows of %d tokens, %d in a row at most; first chunk %d, position %d, which is chunk %d, position %d there",
		r.Eval, r.Calib, r.Shared, r.Windows, Window, r.Longest, r.EvalChunk, r.EvalPosition, r.CalibChunk, r.CalibPosition)
}

// Err is an error where so much is shared that it is refused, nil else.
func (r Report) Err() error {
	if !r.Refused() {
		return nil
	}
	return fmt.Errorf("corpus: %w: %s", ErrOverlap, r)
}

// place is where a window begins.
type place struct{ chunk, at int32 }

// Overlap looks for text that is in both corpora: windows of 32 tokens, by hash,
// and what is found is compared token by token, so no hash is believed. Where the
// calibration is large, windows are chosen by their hash, the same in both and in
// every run. Corpora of different tokenizers cannot be compared.
func Overlap(eval, calib *Corpus) (Report, error) {
	r := Report{Eval: eval.Name, Calib: calib.Name, Every: 1}
	if eval.Tokenizer != "" && calib.Tokenizer != "" && eval.Tokenizer != calib.Tokenizer && (eval.Behaviour == "" || eval.Behaviour != calib.Behaviour) {
		return r, fmt.Errorf("corpus: %s and %s hold ids of different tokenizers, %.12s and %.12s, so what they share cannot be told", eval.Name, calib.Name, eval.Tokenizer, calib.Tokenizer)
	}
	for calib.Tokens()/int64(r.Every) > maxSampled {
		r.Every *= 2
	}
	seen := map[uint64]place{}
	for k, chunk := range calib.Chunks {
		windows(chunk, func(at int, h uint64) {
			if h%r.Every == 0 {
				if _, ok := seen[h]; !ok {
					seen[h] = place{int32(k), int32(at)}
				}
			}
		})
	}
	for k, chunk := range eval.Chunks {
		if len(chunk) < Window {
			r.Short++
			continue
		}
		end := 0 // of the run that was found last
		windows(chunk, func(at int, h uint64) {
			if h%r.Every != 0 {
				return
			}
			w := chunk[at : at+Window]
			if dull(w) {
				r.Dull++
				return
			}
			r.Windows++
			p, ok := seen[h]
			if !ok || !slices.Equal(w, calib.Chunks[p.chunk][p.at:p.at+Window]) {
				return
			}
			if r.Shared == 0 {
				r.EvalChunk, r.EvalPosition, r.CalibChunk, r.CalibPosition = k, at, int(p.chunk), int(p.at)
			}
			r.Shared++
			if at >= end {
				from, to := extent(chunk, at, calib.Chunks[p.chunk], int(p.at))
				end = to
				r.Longest = max(r.Longest, to-from)
				if to-from == len(chunk) {
					r.Whole++
				}
			}
		})
	}
	return r, nil
}

// extent is how far a shared window reaches to both sides.
func extent(a []int32, i int, b []int32, j int) (from, to int) {
	to = i
	for k := j; to < len(a) && k < len(b) && a[to] == b[k]; k++ {
		to++
	}
	from = i
	for k := j; from > 0 && k > 0 && a[from-1] == b[k-1]; k-- {
		from--
	}
	return from, to
}

// hashBase is odd, so that powers of it never vanish modulo 2⁶⁴.
const hashBase = 0x9E3779B97F4A7C15

// windows hands over each window of a chunk with its hash, a polynomial that rolls
// and whose bits are mixed at the end.
func windows(chunk []int32, do func(at int, h uint64)) {
	if len(chunk) < Window {
		return
	}
	top := uint64(1)
	for range Window {
		top *= hashBase
	}
	var h uint64
	for i, id := range chunk {
		h = h*hashBase + uint64(uint32(id)) + 1
		if i >= Window {
			h -= top * (uint64(uint32(chunk[i-Window])) + 1)
		}
		if i >= Window-1 {
			m := h ^ h>>29
			m *= 0xBF58476D1CE4E5B9
			do(i-Window+1, m^m>>32)
		}
	}
}

// dull windows hold so few different tokens (rows of dashes, blanks, zeros) that any two
// texts may share them.
func dull(w []int32) bool {
	var some [4]int32
	n := 0
	for _, id := range w {
		if !slices.Contains(some[:n], id) {
			if n == len(some) {
				return false
			}
			some[n] = id
			n++
		}
	}
	return true
}
