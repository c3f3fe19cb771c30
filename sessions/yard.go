package sessions

import (
	"context"

	"quantscope/analysis/yardstick"
	"quantscope/kernels"
	"quantscope/quant/layout"
)

// Yard is one measurement of KL divergence that a session holds: what is
// measured, the chunks that are scored so far, and, at its end, what cannot be
// computed from them.
type Yard struct {
	Setup  *yardstick.Setup
	AtUS   int64              // of its beginning
	Chunks []*yardstick.Chunk // in the order in which they were scored; not changed once they are here
	End    *YardEnd           // nil while it runs, and where it never ended
}

// Positions are how many the measurement has scored, and will.
func (y *Yard) Positions() (done, of int64) {
	for _, c := range y.Chunks {
		done += int64(len(c.Ref))
	}
	return done, y.Setup.Positions64()
}

// YardEnd ends a measurement.
type YardEnd struct {
	State  RunState          `json:"state"` // finished, cancelled, stopped
	Reason string            `json:"reason,omitempty"`
	Probes []yardstick.Probe `json:"probes,omitempty"`
	Sane   *yardstick.Sanity `json:"sane,omitempty"`
}

// YardBegun, YardChunk and YardEnded are what batches bring; Yard is the index in
// State.Yards.
type (
	YardBegun struct {
		Yard  int
		AtUS  int64
		Setup *yardstick.Setup
	}
	YardChunk struct {
		Yard  int
		Chunk *yardstick.Chunk
	}
	YardEnded struct {
		Yard int
		End  *YardEnd
	}
)

// MeasureRequest says what a measurement of a session's checkpoint takes in.
type MeasureRequest struct {
	Checkpoint string         // where the reference lies now; "": where the session says
	Candidates []string       // specs as package candidate parses them
	Corpora    []string       // names of embedded corpora, files; none: all embedded evaluation corpora, where the tokenizer is theirs
	Keep       string         // of each candidate also one that has these tensors from the reference
	HeadFrom   string         // spec: of each candidate also one with this one's head
	BodyFrom   string         // spec: of each candidate also one with this one's embedding and layers
	AsStored   bool           // do not undo orders of rows that differ from the reference's
	Layout     layout.Options // how quantized checkpoints are read, where they do not tell
	Attribute  bool           // of each candidate also those that have one group of tensors of it alone
	Targets    string
	Calib      []string // what candidates were calibrated on, and calibrated variants are: text that is in a corpus too is refused
	Codes      string   // folder that keeps the codes of calibrated variants; "": the usual one
	CalibMost  int      // chunks of Calib at most; 0: all
	Chunk      int      // tokens of a chunk of a text; 0: 512
	Chunks     int      // at most, of each corpus; 0: all
	BF16       bool
	Half       bool
	Probe      bool
	NoFloor    bool
	Ceiling    float64 // of a mean KL, for the gate of that name; 0: none
	Seed       uint64  // of the bootstrap
	Base       string  // file of log probabilities that is the reference; its texts are then the only corpus
	BaseOut    string  // file that the reference's log probabilities are written to
	Cache      string  // folder of the reference's hidden states; "": none
	Threads    int
	MemBytes   int64
	Program    string      // program version, for the record; "": the session's
	KernelSet  kernels.Set // the zero value is kernels.Best()

	Progress func(yardstick.Progress)    // may be nil; from any goroutine
	Pause    func(context.Context) error // asked between groups of chunks; waits where the person holds the measurement; may be nil
	Warn     func(string)                // told of what is odd and does not end the measurement; may be nil
	Report   func(*yardstick.Report)     // given what a measurement that finished says, before Measure returns; may be nil

	ready *parties // opened by PrepareMeasure

	held holdings // what the session holds that candidates may be made of
}

// Measurer is a feed that can measure KL divergence to its session's own
// checkpoint. Measure reads files, may be called from any goroutine, and returns
// when the measurement has ended; its chunks arrive through the feed. ctx ends
// it; what was scored stays, and the same request goes on with it. Where the
// checkpoint is not to be had, the error says where it was. A second measurement at
// the same time is ErrMeasuring.
type Measurer interface {
	Measure(ctx context.Context, r MeasureRequest) error
}

// applyYards takes in what a batch says of measurements.
func (s *State) applyYards(b Batch) {
	for _, y := range b.YardsBegun {
		if y.Yard == len(s.Yards) {
			s.Yards = append(s.Yards, &Yard{Setup: y.Setup, AtUS: y.AtUS})
		}
	}
	for _, c := range b.YardChunks {
		if c.Yard >= 0 && c.Yard < len(s.Yards) {
			y := s.Yards[c.Yard]
			y.Chunks = append(y.Chunks, c.Chunk)
			y.End = nil // it was gone on with
		}
	}
	for _, e := range b.YardsEnded {
		if e.Yard >= 0 && e.Yard < len(s.Yards) {
			s.Yards[e.Yard].End = e.End
		}
	}
}

// cloneYards copies what applyYards changes.
func cloneYards(ys []*Yard) []*Yard {
	out := make([]*Yard, len(ys))
	for i, y := range ys {
		c := *y
		c.Chunks = append([]*yardstick.Chunk(nil), y.Chunks...)
		out[i] = &c
	}
	return out
}

// takeYard puts what an event says of a measurement into a batch. The event's
// index must be that of State.Yards.
func (b *Batch) takeYard(e *stored) {
	switch {
	case e.setup != nil:
		b.YardsBegun = append(b.YardsBegun, YardBegun{Yard: e.yard, AtUS: e.AtUS, Setup: e.setup})
	case e.chunk != nil:
		b.YardChunks = append(b.YardChunks, YardChunk{Yard: e.yard, Chunk: e.chunk})
	case e.end != nil:
		b.YardsEnded = append(b.YardsEnded, YardEnded{Yard: e.yard, End: e.end})
	}
}

// takeYard brings the state up to date with one event.
func (s *State) takeYard(e *stored) {
	var b Batch
	b.takeYard(e)
	s.applyYards(b)
}
