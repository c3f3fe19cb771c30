package sessions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// The identity of a checkpoint is over its headers, since nobody wants to read
// all weights only to know which ones they are. What was read is known, though:
// each tap record has a digest of the bytes that it was measured of, and no
// record joins it that was measured of others.

// knownDigests are the digests of a state's tensors: of each kind that of the
// first variant that has one.
func knownDigests(st *State, tensors int) []digest {
	known := make([]digest, tensors)
	for _, rs := range st.Records {
		for t := range min(len(rs), tensors) {
			known[t] = known[t].or(rs[t].digest())
		}
	}
	return known
}

// spotChecks is how many tensors are read anew before a session is gone on
// with: enough to tell another checkpoint of the same shape from the one that
// was measured, and had in a moment. The others are compared when they are read.
const spotChecks = 16

// checkWeights reads a few of the tensors that a session has records of (the
// first, the last and some evenly between, in the order of the files) and
// compares them with what was measured. A tensor that cannot be read now says
// nothing: where it is wanted, the run says so.
func checkWeights(ctx context.Context, path string, st *State, job *Job) error {
	known := knownDigests(st, len(job.Tensors))
	var measured []int
	for t, d := range known {
		if d.known() {
			measured = append(measured, t)
		}
	}
	for _, t := range spread(measured, spotChecks) {
		is, err := readDigest(ctx, job, t, known[t].sha != 0)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			continue
		}
		if known[t].differs(is) {
			what := fmt.Sprintf("weights of %q in %s", job.Tensors[t].Name, job.Tensors[t].File)
			was, now := known[t].texts(is)
			return &SettingsError{path, what, was, now}
		}
	}
	return nil
}

// readDigest reads a tensor, however large, for its digest.
func readDigest(ctx context.Context, job *Job, t int, old bool) (digest, error) {
	src, ok := job.Source.(rowSource)
	if !ok {
		m, err := job.Source.Read(ctx, t, make([]byte, job.Source.Need(t)))
		return digestOf(m.Data, old), err
	}
	m, err := src.Shape(t)
	if err != nil {
		return digest{}, err
	}
	var h hasher
	h.begin(old)
	rowBytes := m.Cols * m.Element.Size()
	rows := max(4*pieceBytes/max(rowBytes, 1), 1)
	buf := make([]byte, min(rows, m.Rows)*rowBytes)
	for from := 0; from < m.Rows && rowBytes > 0; from += rows {
		part := buf[:min(rows, m.Rows-from)*rowBytes]
		if err := src.ReadRows(ctx, t, from, part); err != nil {
			return digest{}, err
		}
		h.add(part)
	}
	return h.digest(), nil
}

// spread takes n of a list: the first, the last and those evenly between.
func spread(list []int, n int) []int {
	if len(list) <= n {
		return list
	}
	out := make([]int, n)
	for i := range out {
		out[i] = list[i*(len(list)-1)/(n-1)]
	}
	return out
}

// errWeightsChanged is what an EnvError about a changed tensor wraps.
var errWeightsChanged = errors.New("its weights changed since they were measured")

// checkDigest compares what was read of a tensor with what was measured of it.
func (e *engine) checkDigest(t int, d digest) error {
	if !e.digest(t).differs(d) {
		return nil
	}
	return e.weightsChanged(t)
}

func (e *engine) weightsChanged(t int) error {
	return &EnvError{Path: e.job.Tensors[t].File, Reason: "tensor " + strconv.Quote(e.job.Tensors[t].Name), Err: errWeightsChanged}
}

// keepDigest is checkDigest for a tensor that is about to be recorded: the first
// digest of a tensor is the one that counts.
func (e *engine) keepDigest(t int, d digest) error {
	e.mu.Lock()
	e.digests[t] = e.digests[t].or(d)
	e.mu.Unlock()
	return e.checkDigest(t, d)
}

// digest is that of the bytes that a tensor was measured of.
func (e *engine) digest(t int) digest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.digests[t]
}

// watched is a source that knows whether its files changed since they were
// opened.
type watched interface {
	Changed() (file string, changed bool)
}

// verify looks, at the end of a run, whether the run was about what it seems:
// that the source is as it was when it was opened, and that the session is
// still there. What is wrong stops the engine.
func (e *engine) verify() {
	if running, _ := e.state(); !running || e.failure() != nil {
		return
	}
	if w, ok := e.job.Source.(watched); ok {
		if file, changed := w.Changed(); changed {
			const what = "changed while it was measured, so that its numbers may be mixed"
			e.rec.note(EventFinding, -1, -1, note{Message: file + ": " + what, Code: "source-changed"})
			e.stop(&EnvError{Path: file, Reason: what})
			return
		}
	}
	if err := e.rec.file.present(); err != nil {
		e.stop(err)
	}
}

// present says whether the path still leads to the file that is written. What
// is written to one that was removed or replaced is lost when it is closed.
func (f *file) present() error {
	if f.info == nil {
		return nil // it was not opened
	}
	info, err := os.Stat(f.path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &EnvError{Path: f.path, Reason: "was removed while it was written"}
	case err != nil:
		return envError(f.path, "cannot be looked at any more", err)
	case !os.SameFile(info, f.info):
		return &EnvError{Path: f.path, Reason: "was removed while it was written, and another file is there now"}
	}
	return nil
}
