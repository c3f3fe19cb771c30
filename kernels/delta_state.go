package kernels

import (
	"fmt"
	"slices"
)

// DeltaState is what a layer of gated delta rule keeps of one text: the states
// at the start of the chunk that is open and of the one before it, and the rows
// of both. The zero DeltaState is that of no text. It goes on with the kernels
// that began it, in panels as wide as theirs.
type DeltaState struct {
	shape  DeltaShape
	width  int
	n      int
	open   deltaMemory
	before deltaMemory // of the chunk before the open one, if whole
	whole  bool
}

// deltaMemory is a chunk of tokens with the state before it. Panels are as
// products read them: rows of width columns, one below the other.
type deltaMemory struct {
	k    []float32 // [KeyHeads][panels of tokens][KeyDim][width]: keys, transposed
	s    []float32 // [ValueHeads][panels][KeyDim][width]: the state at its start
	d    []float32 // [ValueHeads][panels][deltaChunk][width]
	sums []float64 // [ValueHeads][deltaChunk]: of g, from its start
}

func newDeltaMemory(d DeltaShape, width int) deltaMemory {
	columns := ceilDiv(d.ValueDim, width) * width
	return deltaMemory{
		k:    make([]float32, d.KeyHeads*d.KeyDim*deltaChunk),
		s:    make([]float32, d.ValueHeads*d.KeyDim*columns),
		d:    make([]float32, d.ValueHeads*deltaChunk*columns),
		sums: make([]float64, d.ValueHeads*deltaChunk),
	}
}

func (m deltaMemory) clone() deltaMemory {
	return deltaMemory{slices.Clone(m.k), slices.Clone(m.s), slices.Clone(m.d), slices.Clone(m.sums)}
}

// Len is the tokens of the text so far.
func (st *DeltaState) Len() int { return st.n }

// Bytes is the memory of one text's DeltaState of this shape, at most.
func (d DeltaShape) Bytes() int64 {
	const widest = 32 // columns of a panel
	columns := int64(ceilDiv(d.ValueDim, widest) * widest)
	heads, keys := int64(d.ValueHeads), int64(d.KeyDim)
	return 2 * (4*(int64(d.KeyHeads)*keys*deltaChunk+heads*columns*(keys+deltaChunk)) + 8*heads*deltaChunk)
}

// begin makes room for n further tokens.
func (st *DeltaState) begin(shape DeltaShape, width, n int) error {
	switch {
	case st.n == 0:
		if st.shape != shape || st.width != width || st.open.s == nil {
			*st = DeltaState{shape: shape, width: width, open: newDeltaMemory(shape, width)}
		}
	case st.shape != shape:
		return fmt.Errorf("delta rule of %v goes on from a state of %v: %w", shape, st.shape, ErrShape)
	case st.width != width:
		return fmt.Errorf("delta rule goes on in panels of %d columns, its state has %d: %w", width, st.width, ErrUnsupported)
	}
	if st.n%deltaChunk+n >= deltaChunk && st.before.s == nil {
		st.before = newDeltaMemory(shape, width)
	}
	return nil
}

// advance is told that n tokens have been taken: where the memories took turns
// an odd number of times, they change places.
func (st *DeltaState) advance(n int) {
	turns := (st.n+n)/deltaChunk - st.n/deltaChunk
	if turns > 0 {
		st.whole = true
	}
	if turns%2 == 1 {
		st.open, st.before = st.before, st.open
	}
	st.n += n
}

// Cut forgets all but the first n tokens and returns how many are kept: n, or
// none where what came before is no longer known. Up to 64 tokens of the longest
// text since the last Cut to none are always forgotten exactly.
func (st *DeltaState) Cut(n int) (kept int) {
	start := st.n / deltaChunk * deltaChunk
	switch {
	case n >= st.n:
		return st.n
	case n > 0 && n >= start:
		st.n = n
	case n > 0 && st.whole && n >= start-deltaChunk:
		st.open, st.before = st.before, st.open
		st.whole, st.n = false, n
	default:
		st.n, st.whole = 0, false
		clear(st.open.s)
	}
	return st.n
}

// Copy is a state of its own with the first n tokens, or with none; see Cut.
func (st *DeltaState) Copy(n int) DeltaState {
	if n <= 0 || st.n == 0 {
		return DeltaState{}
	}
	c := *st
	c.open, c.before = st.open.clone(), st.before.clone()
	c.Cut(n)
	return c
}
