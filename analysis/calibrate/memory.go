package calibrate

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/model"
)

// Load is what a run's memory is predicted for.
type Load struct {
	Rows    int64   // tokens of all chunks
	Chunk   int     // of the longest
	Threads int     // 0: all processors
	Bits    float64 // that a stored weight takes at most, scales included; 0: 16
	// Wants are the inputs of a layer that are measured; nil measures none. A nil
	// layer is the head.
	Wants func(l *model.Layer) []Want
	// Beside is what the caller takes for an input of n columns beside its moments,
	// for as long as it has them: factors, weights, codes. It is taken once: of the
	// input for which it is most. nil: nothing.
	Beside func(n int) int64
}

// Part is one of the things that take memory.
type Part struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
}

// Budget is how a run stays within its memory.
type Budget struct {
	Need    int64  // that the run takes, as it is shared out; not more than it may
	Parts   []Part // of Need, the largest first
	Moments int64  // for CollectOptions.Mem
	Wave    int64  // for model.WalkOptions
	Tile    int    // for model.WalkOptions
}

// MemoryError says that a run does not fit, and what takes most. It unwraps to a
// *model.MemoryError.
type MemoryError struct {
	Need, Have int64
	Parts      []Part // of Need, the largest first
}

func (e *MemoryError) Error() string {
	s := fmt.Sprintf("calibrate: the run takes %d bytes of memory, and may take %d", e.Need, e.Have)
	if len(e.Parts) > 0 {
		s += fmt.Sprintf("; the largest part is %s, %d bytes", e.Parts[0].Name, e.Parts[0].Bytes)
	}
	return s
}

// Unwrap gives the figures alone.
func (e *MemoryError) Unwrap() error { return &model.MemoryError{Need: e.Need, Have: e.Have} }

// slack is the part of the memory that is left to what is garbage and not yet
// collected.
const slack = 16

// mostWave is as many bytes of experts as it is of use to read at a time.
const mostWave = 256 << 20

// Predict shares mem bytes out among hidden states, a layer's weights, what a look
// computes in, and moments, as many at a time as then fit: *MemoryError where not
// even the largest Hessian does alone. Who keeps the program within mem sets the
// collector's limit to it.
func Predict(s *model.Spec, l Load, mem int64) (Budget, error) {
	need := measure(s, l)
	have := mem - mem/slack
	// With every text alone there is less to compute in.
	o := model.WalkOptions{Threads: l.Threads}
	walk := model.WalkNeeds(s, l.Rows, l.Chunk, l.Bits, o)
	if walk.Total()+need.fixed()+need.least > have {
		o.Tile = 1
		walk = model.WalkNeeds(s, l.Rows, l.Chunk, l.Bits, o)
	}
	left := have - walk.Total() - need.fixed() - need.least
	b := Budget{Tile: o.Tile, Moments: need.least}
	if left > 0 {
		// Fewer looks are worth more than experts that are read together.
		o.Wave = walk.Experts/2 + left/8
		if rest := left - (need.most - need.least); rest > left/4 {
			o.Wave = walk.Experts/2 + rest/2
		}
		o.Wave = min(o.Wave, max(mostWave, walk.Experts/2))
		walk = model.WalkNeeds(s, l.Rows, l.Chunk, l.Bits, o)
		b.Moments = min(need.most, have-walk.Total()-need.fixed())
	}
	// One expert at a time is written as the least that there can be.
	b.Wave = max(o.Wave, 1)
	b.Parts = parts(s, l, walk, need, b.Moments)
	for _, p := range b.Parts {
		b.Need += p.Bytes
	}
	if left < 0 {
		whole := b.Need + b.Need/(slack-1) - 2 // or one or two more
		for whole-whole/slack < b.Need {
			whole++
		}
		return Budget{}, &MemoryError{whole, mem, b.Parts}
	}
	return b, nil
}

// parts are all that take memory, the largest first.
func parts(s *model.Spec, l Load, walk model.WalkMemory, n moments, bytes int64) []Part {
	list := []Part{
		{fmt.Sprintf("hidden states of %d tokens", l.Rows), walk.States},
		{"the weights of a layer", walk.Weights},
		{"experts that are read together", walk.Experts},
		{"what a layer is computed in", walk.Work},
		{n.name(bytes), bytes},
		{"rows that wait to be summed", n.batches},
		{n.besideName(), n.beside},
	}
	list = slices.DeleteFunc(list, func(p Part) bool { return p.Bytes == 0 })
	slices.SortStableFunc(list, func(a, b Part) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return list
}

// moments are what measuring takes beside the walk.
type moments struct {
	least   int64 // moments of the largest input
	most    int64 // those of all inputs of a layer
	of      model.Place
	columns int // of that input
	where   string
	batches int64
	beside  int64 // what the caller takes
	besides int   // for an input of so many columns
}

// fixed are the bytes that do not depend on how many are measured at a time.
func (n *moments) fixed() int64 { return n.batches + n.beside }

func (n *moments) name(bytes int64) string {
	if bytes > n.least {
		return fmt.Sprintf("moments of the inputs of %s that are measured together", n.where)
	}
	return fmt.Sprintf("the moments of %s, of %d columns", n.of, n.columns)
}

func (n *moments) besideName() string {
	return fmt.Sprintf("what matrices of %d columns are quantized in", n.besides)
}

// measure finds the most that a layer wants.
func measure(s *model.Spec, l Load) moments {
	var n moments
	if l.Wants == nil {
		return n
	}
	layer := func(at *model.Layer, name string) {
		wants := l.Wants(at)
		var sum int64
		for i := range wants {
			w := &wants[i]
			bytes := w.bytes()
			sum += bytes
			if bytes > n.least {
				n.least, n.of, n.columns = bytes, w.At, w.N
			}
			if l.Beside != nil {
				if b := l.Beside(w.N); b > n.beside {
					n.beside, n.besides = b, w.N
				}
			}
		}
		batches := usual.of(wants, int(min(l.Rows, math.MaxInt32)))
		if at != nil && at.MoE != nil {
			batches += 4 * l.Rows * int64(at.MoE.TopK) // which rows are an expert's
		}
		n.batches = max(n.batches, batches)
		if sum > n.most {
			n.most, n.where = sum, name
		}
	}
	for _, layers := range [][]model.Layer{s.Layers, s.MTP} {
		for i := range layers {
			layer(&layers[i], fmt.Sprintf("layer %d", layers[i].Index))
		}
	}
	layer(nil, "the head")
	return n
}
