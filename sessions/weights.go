package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// The identity of a checkpoint is over its headers, since nobody wants to read
// all weights only to know which ones they are. What was read is known, though:
// each tap record has a digest of the bytes that it was measured of, and no
// record joins it that was measured of others.

// weightsDigest is the first eight bytes, in that order, of the SHA-256 of a
// matrix's elements as they are stored, row by row. 0 stands for "not known";
// that a digest is 0 has the odds of 2⁻⁶⁴ and costs one comparison.
func weightsDigest(data []byte) uint64 {
	sum := sha256.Sum256(data)
	return binary.BigEndian.Uint64(sum[:])
}

// digestText is a digest as sha256sum begins.
func digestText(d uint64) string { return fmt.Sprintf("%016x", d) }

// differ says whether two digests are known and not the same.
func differ(a, b uint64) bool { return a != 0 && b != 0 && a != b }

// knownDigests are the digests of a state's tensors: those of the first variant
// that has one; 0 where none has.
func knownDigests(st *State, tensors int) []uint64 {
	known := make([]uint64, tensors)
	for _, rs := range st.Records {
		for t := range min(len(rs), tensors) {
			if known[t] == 0 {
				known[t] = rs[t].Weights
			}
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
		if d != 0 {
			measured = append(measured, t)
		}
	}
	var buf []byte
	for _, t := range spread(measured, spotChecks) {
		if need := job.Source.Need(t); cap(buf) < need {
			buf = make([]byte, need)
		}
		m, err := job.Source.Read(ctx, t, buf[:job.Source.Need(t)])
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			continue
		}
		if is := weightsDigest(m.Data); differ(known[t], is) {
			what := fmt.Sprintf("weights of %q in %s", job.Tensors[t].Name, job.Tensors[t].File)
			return &SettingsError{path, what, digestText(known[t]), digestText(is)}
		}
	}
	return nil
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
func (e *engine) checkDigest(t int, digest uint64) error {
	if !differ(e.digest(t), digest) {
		return nil
	}
	return &EnvError{Path: e.job.Tensors[t].File, Reason: "tensor " + strconv.Quote(e.job.Tensors[t].Name), Err: errWeightsChanged}
}

// keepDigest is checkDigest for a tensor that is about to be recorded: the first
// digest of a tensor is the one that counts.
func (e *engine) keepDigest(t int, digest uint64) error {
	e.mu.Lock()
	if e.digests[t] == 0 {
		e.digests[t] = digest
	}
	e.mu.Unlock()
	return e.checkDigest(t, digest)
}

// digest is that of the bytes that a tensor was measured of; 0 where it is not
// known.
func (e *engine) digest(t int) uint64 {
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
