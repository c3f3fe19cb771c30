package sessions

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quantscope/kernels"
	"quantscope/quant/export"
)

// ExportOptions say where a run writes what it quantizes.
type ExportOptions struct {
	Dir    string
	Layout string // a name that quant/export knows
	Resume bool   // goes on with an export that was left unfinished
}

// ExportState says how an export stands.
type ExportState string

// States of an export.
const (
	ExportWriting    ExportState = "writing"
	ExportWhole      ExportState = "whole"      // a checkpoint that can be used
	ExportPart       ExportState = "part"       // this part is finished, others are not
	ExportIncomplete ExportState = "incomplete" // something is missing; the folder is marked
)

// Export is what a run writes.
type Export struct {
	Dir, Layout    string
	State          ExportState
	Files          int     // of a whole export
	Bytes          int64   // of a whole export, side files included
	Written, Total int64   // bytes of shards: those that are there, and all that this process is to write
	Seconds        float64 // since the run began
	Missing        []int   // parts that are not finished, where this one is
	Notes          []string
}

// ExportError says why an export cannot be what it should.
type ExportError struct {
	Dir    string
	Reason string
}

func (e *ExportError) Error() string { return "sessions: export to " + e.Dir + ": " + e.Reason }

// exporting is the export of a run. A nil one writes nothing.
type exporting struct {
	plan     *export.Plan
	o        ExportOptions
	variant  string // the one that is written
	first    int    // matrix of the plan that is the job's tensor 0
	matrices []int  // of a recipe: the plan's matrix by the job's tensor, -1 for what it keeps; else nil
	part     Part

	// put writes what FP4 codes of a tensor of the job became; nil where rows come.
	put func(ctx context.Context, t int, codes []byte, codebook uint16) error

	writer  *export.Writer
	began   time.Time
	written atomic.Int64

	mu     sync.Mutex
	state  ExportState
	over   bool // finished, or given up
	result export.Result
	ended  time.Time
}

// create makes the folder ready, before a weight is read.
func (x *exporting) create(ctx context.Context) error {
	if x == nil {
		return nil
	}
	x.began, x.state = time.Now(), ExportWriting
	w, err := export.Create(ctx, x.plan, x.o.Dir, export.Options{
		Resume: x.o.Resume, Part: x.part.K, Of: x.part.Of,
		Progress: func(n int64) { x.written.Add(n) },
	})
	if err == nil {
		x.writer = w
		x.written.Add(w.Finished())
	}
	return err
}

// wants says whether a tensor is to be quantized for the export.
func (x *exporting) wants(variant string, t int) bool {
	return x != nil && x.variant == variant && x.writer != nil && x.matrix(t) >= 0 && x.writer.Wanted(x.matrix(t))
}

// matrix is which one of the plan a tensor is, -1 for one that is copied.
func (x *exporting) matrix(t int) int {
	if x.matrices != nil {
		return x.matrices[t]
	}
	return x.first + t
}

// rowMultiple is how many rows a chunk of a tensor must be a multiple of.
func (x *exporting) rowMultiple() int {
	if x == nil {
		return 1
	}
	return x.plan.RowMultiple()
}

// output is room for what a pass leaves of the next rows.
func (w *worker) output(p *kernels.Pass, rows int) *kernels.Output {
	n := p.Sizes(rows)
	w.out = kernels.Output{Codes: room(w.out.Codes, n.Codes), Scales: room(w.out.Scales, n.Scales), Mins: room(w.out.Mins, n.Mins)}
	return &w.out
}

// room is a list of n bytes, in the place of an older one where that is large
// enough.
func room(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// open says whether the export has something to do still.
func (x *exporting) open() bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.over
}

// finish writes what is left of the export once all its tensors are there; with
// failed ones it stays marked as incomplete. ctx ends it.
func (x *exporting) finish(ctx context.Context, failed int64) error {
	if !x.open() {
		return nil
	}
	if failed > 0 {
		x.close()
		return nil
	}
	res, err := x.writer.Finish(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over, x.result, x.ended = true, res, time.Now()
	switch {
	case err != nil:
		x.state = ExportIncomplete
	case res.Whole:
		x.state = ExportWhole
	default:
		x.state = ExportPart
	}
	return err
}

// close gives up what is not finished. Its shards that are whole stay.
func (x *exporting) close() {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || x.writer == nil {
		return
	}
	x.over, x.state, x.ended = true, ExportIncomplete, time.Now()
	_ = x.writer.Close() // what is half written is removed as far as can be
}

// cutShort says whether the export was given up.
func (x *exporting) cutShort() bool {
	if x == nil {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.state == ExportIncomplete
}

// now is how the export stands.
func (x *exporting) now() Export {
	x.mu.Lock()
	defer x.mu.Unlock()
	end := x.ended
	if end.IsZero() {
		end = time.Now()
	}
	e := Export{
		Dir: x.o.Dir, Layout: x.plan.Layout, State: x.state, Files: x.result.Files, Bytes: x.result.Bytes,
		Written: x.written.Load(), Seconds: end.Sub(x.began).Seconds(), Missing: x.result.Missing, Notes: x.plan.Notes,
	}
	if x.writer != nil {
		e.Total = x.writer.Total()
		e.Notes = append(e.Notes[:len(e.Notes):len(e.Notes)], x.writer.Notes()...)
	}
	return e
}

// said is what the log says of an export that ended.
func (x *exporting) said() (string, *exportJSON) {
	if x == nil {
		return "", nil
	}
	e := x.now()
	j := &exportJSON{Dir: e.Dir, Layout: e.Layout, State: string(e.State), Files: e.Files, Bytes: e.Bytes}
	if abs, err := filepath.Abs(e.Dir); err == nil && abs != e.Dir {
		j.Abs = abs
	}
	switch e.State {
	case ExportWhole:
		return fmt.Sprintf("; %s is whole: layout %s, %s", e.Dir, e.Layout, count(int64(e.Files), "file")), j
	case ExportPart:
		missing := make([]string, len(e.Missing))
		for i, k := range e.Missing {
			missing[i] = strconv.Itoa(k)
		}
		return fmt.Sprintf("; part %v of %s is written, not yet: part %s", x.part, e.Dir, strings.Join(missing, ", ")), j
	}
	return fmt.Sprintf("; %s is incomplete and marked so", e.Dir), j
}

// exportFailure is an error of writing an export, in words of a run.
func exportFailure(x *exporting, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return &EnvError{Path: x.o.Dir, Reason: "the export cannot go on", Err: err}
}
