package kernels

import (
	"fmt"
	"sync"
)

// Convolution is the short causal convolution of a layer of gated delta rule: a
// channel of its own each, Taps tokens long, SiLU behind it.
type Convolution struct{ Channels, Taps int }

const (
	// convolutionKeeps is how many tokens a ConvolutionState can forget: as many as
	// DeltaState ever can.
	convolutionKeeps = 2*deltaChunk - 1
	// convolutionSlack is how many rows come in before old ones are dropped.
	convolutionSlack = 32
	// convolutionPerThread is how many multiply-adds are worth a goroutine.
	convolutionPerThread = 1 << 17
)

// ConvolutionState is what a Convolution keeps of one text: its last rows. The
// zero ConvolutionState is that of no text.
type ConvolutionState struct {
	shape Convolution
	rows  []float32 // the last rows, oldest first
	n     int
}

// Bytes is the memory of one text's ConvolutionState, at most.
func (c Convolution) Bytes() int64 {
	return 4 * int64(c.Channels) * int64(c.Taps-1+convolutionKeeps+convolutionSlack)
}

// Len is the tokens of the text so far.
func (st *ConvolutionState) Len() int { return st.n }

// held is how many rows are there.
func (st *ConvolutionState) held() int { return len(st.rows) / max(st.shape.Channels, 1) }

// Cut forgets all but the first n tokens and returns how many are kept: n, or
// none where what came before is no longer known. It reaches as far back as
// DeltaState.Cut does.
func (st *ConvolutionState) Cut(n int) (kept int) {
	if n >= st.n {
		return st.n
	}
	left := st.held() - (st.n - n)
	if n <= 0 || left < min(n, st.shape.Taps-1) {
		st.n, st.rows = 0, st.rows[:0]
		return 0
	}
	st.n, st.rows = n, st.rows[:left*st.shape.Channels]
	return n
}

// Copy is a state of its own with the first n tokens, or with none; see Cut.
func (st *ConvolutionState) Copy(n int) ConvolutionState {
	c := *st
	c.rows = append([]float32(nil), st.rows...)
	c.Cut(max(n, 0))
	return c
}

// add appends rows and drops those that nothing needs any more.
func (st *ConvolutionState) add(x []float32, n int) {
	width, most := st.shape.Channels, st.shape.Taps-1+convolutionKeeps
	if n >= most {
		st.rows = append(st.rows[:0], x[(n-most)*width:]...)
	} else {
		if over := st.held() + n - most; over > convolutionSlack {
			st.rows = st.rows[:copy(st.rows, st.rows[over*width:])]
		}
		st.rows = append(st.rows, x...)
	}
	st.n += n
}

// Convolve writes to out [n, Channels] the convolution of n further rows x of a
// text, by weights w [Taps, Channels], the last of which is the row itself:
//
//	s = +0;  s = fma(x[t−Taps+1+i], w[i], s) for ascending i;  out[t] = silu(s)
//
// with zeros before the text, and SiLU as Set.SiLU has it. out must not overlap
// x. What st holds is the text so far; without one x is a whole text. The same
// bits result for any way to divide a text into calls, any number of threads and
// every Set; a value that is not finite stays in its channel and reaches Taps−1
// rows behind it.
func (s Set) Convolve(c Convolution, x, w []float32, n int, st *ConvolutionState, out []float32, threads int) error {
	s = s.orReference()
	size, ok := product(n, c.Channels)
	taps, okTaps := product(c.Taps, c.Channels)
	if n < 0 || c.Channels <= 0 || c.Taps <= 0 || c.Taps > 1<<10 || !ok || !okTaps || len(x) != size || len(out) != size || len(w) != taps {
		return fmt.Errorf("convolution of %d channels by %d taps over %d rows: %d inputs, %d weights, %d results: %w",
			c.Channels, c.Taps, n, len(x), len(w), len(out), ErrShape)
	}
	if st != nil && st.n > 0 && st.shape != c {
		return fmt.Errorf("convolution of %v goes on from a state of %v: %w", c, st.shape, ErrShape)
	}
	if n == 0 {
		return nil
	}
	// The first rows look back beyond x.
	before := c.Taps - 1
	few := min(n, before)
	start := make([]float32, (before+few)*c.Channels)
	if st != nil {
		st.shape = c
		known := min(st.held(), before)
		copy(start[(before-known)*c.Channels:], st.rows[(st.held()-known)*c.Channels:])
	}
	copy(start[before*c.Channels:], x)
	ones := make([]float32, c.Channels)
	for i := range ones {
		ones[i] = 1
	}
	rows := func(from, to int) {
		for t := from; t < to; t++ {
			seen := start[min(t, few)*c.Channels:]
			if t >= before {
				seen = x[(t-before)*c.Channels:]
			}
			y := out[t*c.Channels:][:c.Channels]
			s.delta.convolve(y, seen, c.Channels, w, c.Channels, c.Taps)
			s.rows.silu(y, ones)
		}
	}
	workers := min(threadCount(threads), n, 1+size*(c.Taps+4)/convolutionPerThread)
	var wg sync.WaitGroup
	for i := 1; i < workers; i++ {
		wg.Go(func() { rows(n*i/workers, n*(i+1)/workers) })
	}
	rows(0, n/workers)
	wg.Wait()
	if st != nil {
		st.add(x, n)
	}
	return nil
}
