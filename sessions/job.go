package sessions

import (
	"context"

	"quantscope/kernels"
)

// Job is what a session measures: tensors, where their weights come from, and
// how variants are made. Start wires the real one.
type Job struct {
	Meta     Meta     // Path, Created… are filled in
	Abs      string   // where Meta.SourcePath is, absolute; "" where it has no place
	Name     string   // for the name of a session file: demo, glm-4.5-air
	Tensors  []Tensor // IDs dense from 0, in the order of the files
	Findings []string // what is odd about the checkpoint, a line each; said when a session is created
	// Settings that decide what the numbers are. They may not change on resume.
	Settings map[string]string
	Source   Source
	Parse    func(name string) (Quantizer, error)

	part   *partJSON  // nil: all of the checkpoint
	expect []digest   // by tensor: of weights that must be these; nil: none is known
	shared *sharing   // nil: each tensor has its own global scale
	export *exporting // nil: nothing is written but the session

	calibrator calibrator // nil: calibrated variants cannot be made
	asksCalib  bool       // the options say how calibrated variants are to be made

	recipes []*Quantizer // that variants may follow
}

// tensorOf is the tensor that a matrix of a calibrated run is.
func (j *Job) tensorOf(matrix int) (int, bool) { return matrix, matrix >= 0 && matrix < len(j.Tensors) }

// Source gives the weights of a job's tensors. Its methods may be called from
// any goroutine.
type Source interface {
	// Need is how many bytes Read wants for a tensor.
	Need(tensor int) int
	// Read gives the tensor as a contiguous matrix that stands in buf, which
	// has Need bytes.
	Read(ctx context.Context, tensor int, buf []byte) (kernels.Matrix, error)
	Close() error
}

// rowSource is a Source that gives tensors in parts, so that a large one need
// not be in memory at once, and several small ones together.
type rowSource interface {
	Source
	// Shape is the tensor as a matrix without its data.
	Shape(tensor int) (kernels.Matrix, error)
	// ReadRows fills dst with whole rows from one on, row-major.
	ReadRows(ctx context.Context, tensor, from int, dst []byte) error
	// Run is where a tensor stands in a file, if its elements follow one another
	// there row by row.
	Run(tensor int) (file int, off, size int64, ok bool)
	// ReadRun fills dst with what stands from off on in the file of a tensor.
	ReadRun(ctx context.Context, tensor int, off int64, dst []byte) error
}

// Quantizer is one variant at work: Spec where the kernels do it, chunk by
// chunk, else Measure and Rows.
type Quantizer struct {
	Variant Variant // without ID
	// Spec is what the kernels are asked for. It goes before Measure and Rows.
	Spec *kernels.Spec
	// Measure quantizes a matrix and measures the round trip.
	Measure func(m kernels.Matrix) (Measurement, error)
	// Rows is Measure with the relative l2 error of each row.
	Rows func(m kernels.Matrix) (kernels.Tap, []float64, error)
	// Codebook says that the codes of Spec are chosen from a whole matrix before its
	// first row is coded.
	Codebook bool
	// Calibrated says that the job's calibrator makes it, unit by unit: none of the
	// others is asked.
	Calibrated bool
	recodes    string // the method by which codes of FP4 matrices change; "" elsewhere

	recipe *RecipeRun  // that says the group of each tensor; nil for a variant that is one way
	groups []Quantizer // of the recipe, under the name of its variant
	shared *sharing    // of a group of a recipe; nil: the job's
}

// at is what quantizes a tensor.
func (q Quantizer) at(tensor int) Quantizer {
	switch {
	case q.recipe == nil:
		return q
	case q.keeps(tensor):
		return Quantizer{Variant: q.Variant}
	}
	return q.groups[q.recipe.Of[tensor]]
}

// keeps says whether a tensor stays as the source has it.
func (q *Quantizer) keeps(tensor int) bool { return q.recipe != nil && q.recipe.Of[tensor] < 0 }

// ways are the quantizers that are at work.
func (q *Quantizer) ways() []Quantizer {
	if q.recipe == nil {
		return []Quantizer{*q}
	}
	return q.groups
}

// unmade is what is to be done of n tensors before anything is.
func (q *Quantizer) unmade(n int) []work {
	ws := make([]work, n)
	for t := range ws {
		if q.keeps(t) {
			ws[t] = keptWork
		}
	}
	return ws
}

// sharing is over what a tensor's second-level scale is taken.
func (q *Quantizer) sharing(j *Job) *sharing {
	if q.shared != nil {
		return q.shared
	}
	return j.shared
}

// Measurement is what came out of one round trip.
type Measurement struct {
	Tap kernels.Tap
	// Effective is what ran instead of the variant, "" where it is the variant
	// itself, and Why is the reason.
	Effective, Why string
}
