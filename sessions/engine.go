package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// graceAfterCancel is how long a cancelled run waits for the tensors that are
// being measured. A kernel cannot be interrupted, so a worker with a very large
// tensor is left to itself after that; its result is dropped.
const graceAfterCancel = 2 * time.Second

// work is what is known of one (variant, tensor).
type work uint8

const (
	todo work = iota
	inHand
	settledWork // measured or failed
	keptWork    // as the source has it: nothing is to be made
)

// engine measures what a session still lacks. One goroutine reads tensors in
// file order, workers measure them, one recorder writes. A tensor is read once
// for all variants that want it then.
type engine struct {
	job       *Job
	rowSource rowSource // the job's source, if it is one
	threads   int
	set       kernels.Set
	pool      *checkpoint.Pool
	share     int64         // bytes of a tensor that may be in memory at once; larger ones come in pieces
	piece     int           // bytes of such a piece
	hands     chan struct{} // one for each kernel that runs
	plan      plan
	meter     meter
	rec       *recorder
	clock     Clock
	opts      note   // what a started or resumed event says of this process
	session   string // path

	ctx  context.Context // ends with the feed, or with the environment
	halt context.CancelCauseFunc
	gate *gate
	kick chan struct{} // capacity 1: there is work
	left chan struct{} // closed when the workers of the run before are all back; used by loop alone

	mu       sync.Mutex
	variants []Quantizer
	work     [][]work                 // by variant, tensor
	next     int                      // tensor that is looked at next
	again    map[pair]Record          // of what is quantized once more, for an export
	digests  []digest                 // by tensor: of the bytes that were measured
	failed   int64                    // measurements of this process that could not be made
	undone   int64                    // how many are todo or in hand
	plain    int64                    // how many of these are of variants that are not calibrated
	prepared map[string]preparedCalib // calibrated runs that are ready, by variant
	priors   map[int]prior            // what the session holds of calibrations, by variant
	calibs   int                      // calibrations of the session
	gated    bool                     // a calibrated variant of this run failed its gate
	broken   error                    // what ended this run and not the engine
	running  bool
	run      context.Context // of the run that goes on or was begun last
	cancel   context.CancelFunc
	idle     chan struct{} // closed while nothing runs

	errMu sync.Mutex // apart from mu, since the recorder takes it
	err   error      // of the environment: nothing runs any more
}

// newEngine is an engine that knows what a state holds. Failed tensors are to
// be measured again. The recorder is set by the caller, before begin.
func newEngine(ctx context.Context, job *Job, variants []Quantizer, st *State, o Options) *engine {
	e := &engine{
		job: job, threads: o.Threads, set: o.KernelSet, pool: checkpoint.NewPool(o.MemBytes), clock: o.Clock,
		share: o.MemBytes / int64(o.Threads), hands: make(chan struct{}, o.Threads),
		digests: knownDigests(st, len(job.Tensors)), again: map[pair]Record{}, prepared: map[string]preparedCalib{}, priors: map[int]prior{}, calibs: len(st.Calibrations),
		gate: newGate(), kick: make(chan struct{}, 1), idle: make(chan struct{}), left: make(chan struct{}),
	}
	for t, d := range job.expect {
		e.digests[t] = e.digests[t].or(d)
	}
	e.rowSource, _ = job.Source.(rowSource)
	e.piece = int(max(min(pieceBytes, e.share/2), 1))
	e.ctx, e.halt = context.WithCancelCause(ctx)
	e.run, e.cancel = context.WithCancel(e.ctx)
	close(e.idle)
	close(e.left)
	for v, q := range variants {
		e.variants = append(e.variants, q)
		ws := q.unmade(len(job.Tensors))
		for t := range ws {
			if ws[t] == keptWork {
				continue
			}
			if v < len(st.Records) && st.Records[v][t].Seq != 0 && !st.Records[v][t].Failed {
				if !job.export.wants(q.Variant.Name, t) {
					ws[t] = settledWork
				}
				if ws[t] == todo || q.Calibrated { // it is made again, or read back
					e.again[pair{v, t}] = st.Records[v][t]
				}
			}
			if ws[t] == todo {
				e.count(q, 1)
			}
		}
		e.work = append(e.work, ws)
		if v < len(st.Variants) && q.Calibrated {
			if id, c := st.calibrationOf(v); c != nil {
				e.priors[v] = prior{id, c}
			}
		}
	}
	return e
}

// begin makes the engine run, if there is something to do. kind and n say so in
// the log; it returns false where there is nothing.
func (e *engine) begin(kind EventKind, n note) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.undone == 0 && !e.job.export.open() || e.ctx.Err() != nil {
		return false
	}
	if !e.running {
		e.running, e.idle = true, make(chan struct{})
		e.run, e.cancel = context.WithCancel(e.ctx)
		n.Pending, n.Threads, n.MemBytes, n.Program, n.KernelSet = e.undone, e.opts.Threads, e.opts.MemBytes, e.opts.Program, e.opts.KernelSet
		n.Variants = nil
		for _, q := range e.variants {
			n.Variants = append(n.Variants, q.Variant.Name)
		}
		e.broken, e.gated = nil, false
		if n.Message == "" {
			n.Message = fmt.Sprintf("%s over %s with %s on %s", count(e.undone, "measurement"), strings.Join(n.Variants, ", "), n.KernelSet, count(int64(n.Threads), "thread"))
		}
		if x := e.job.export; x != nil {
			n.Message += fmt.Sprintf(", into %s as %s", x.o.Dir, x.plan.Layout)
		}
		e.rec.note(kind, -1, -1, n)
	}
	e.poke()
	return true
}

// poke wakes the loop.
func (e *engine) poke() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// count is "1 tensor", "2 tensors".
func count(n int64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// loop runs what is to be run until ctx ends or the environment fails. What was
// posted is committed before a run counts as ended.
func (e *engine) loop() {
	defer e.halt(nil)
	for {
		select {
		case <-e.kick:
		case <-e.ctx.Done():
		}
		run, undone := e.current()
		for run.Err() == nil && undone > 0 && e.stopReason() == nil {
			e.step(run)
			_, undone = e.current()
		}
		if run.Err() == nil && undone == 0 {
			if err := e.job.export.finish(run, e.failures()); err != nil && run.Err() == nil {
				e.stop(exportFailure(e.job.export, err))
			}
		}
		if run.Err() != nil || e.stopReason() != nil {
			e.job.export.close()
		}
		if !e.end(run) {
			e.poke() // variants were added in the last moment: go on
			continue
		}
		if e.ctx.Err() != nil {
			return
		}
	}
}

// step measures what is to do now, or, where that is all, makes a calibrated
// variant.
func (e *engine) step(run context.Context) {
	if e.plainUndone() > 0 {
		if err := e.measureAll(run); err != nil {
			e.stop(err)
		}
		return
	}
	v := e.nextCalibrated()
	if v < 0 {
		return
	}
	err := e.conduct(run, v)
	var env *EnvError
	switch {
	case err == nil:
	case errors.As(err, &env):
		e.stop(err)
	default:
		e.mu.Lock()
		e.broken = err
		e.mu.Unlock()
	}
}

// failures is how many tensors could not be measured in this run, and calibrated
// variants that failed their gate.
func (e *engine) failures() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.gated {
		return e.failed + 1
	}
	return e.failed
}

// stopReason is why the run cannot go on: an error of the environment, or what is
// wrong with a calibrated variant.
func (e *engine) stopReason() error {
	if err := e.failure(); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.broken
}

func (e *engine) current() (context.Context, int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.run, e.undone
}

// stop ends everything on an error of the environment. Only the first counts.
func (e *engine) stop(err error) {
	e.errMu.Lock()
	if e.err == nil {
		e.err = err
	}
	e.errMu.Unlock()
	e.halt(err)
}

func (e *engine) failure() error {
	e.errMu.Lock()
	defer e.errMu.Unlock()
	return e.err
}

// end says in the log how a run ended, and lets those go on who wait for it.
// It returns false, and does nothing, where the run has more to do, or another
// has begun since it ended: that one is not ended by what ended this one.
func (e *engine) end(run context.Context) bool {
	e.verify()
	said, pace := e.plan.said(e)
	e.mu.Lock()
	err, undone := e.failure(), e.undone
	if err == nil {
		err = e.broken
	}
	if run != e.run || run.Err() == nil && undone > 0 && e.broken == nil {
		e.mu.Unlock()
		return false
	}
	total := e.total()
	wasRunning, idle := e.running, e.idle
	if wasRunning {
		e.gate.lift()
		kind, n := ending(err, undone, total, e.failed == 0 && !e.gated && e.job.export.cutShort())
		if n.Pace = pace; pace != nil {
			n.Message += " (" + said + ")"
		}
		written, how := e.job.export.said()
		n.Message, n.Export = n.Message+written, how
		e.rec.note(kind, -1, -1, n)
		e.running = false
		e.cancel()
	}
	e.mu.Unlock()

	_ = e.rec.flush(context.Background()) // its error has come through stop
	if wasRunning {
		close(idle)
	}
	return true
}

// ending is what the log says of how a run ended. cutShort: all was measured, and
// the export was not finished.
func ending(err error, undone, total int64, cutShort bool) (EventKind, note) {
	switch {
	case err != nil:
		return EventStopped, note{Message: "stopped: " + err.Error()}
	case undone > 0:
		return EventCancelled, note{Message: fmt.Sprintf("cancelled with %d of %s to do", undone, count(total, "measurement"))}
	}
	if cutShort {
		return EventCancelled, note{Message: "cancelled with the export to finish"}
	}
	return EventFinished, note{Message: "finished " + count(total, "measurement")}
}

// add appends a variant to the work, if it is not there.
func (e *engine) add(q Quantizer) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return context.Cause(e.ctx)
	}
	if e.job.export != nil {
		return errOneVariant
	}
	if slices.ContainsFunc(e.variants, func(o Quantizer) bool { return o.Variant.Name == q.Variant.Name }) {
		return nil
	}
	id := len(e.variants)
	events, err := addedEvents(id, q)
	if err != nil {
		return err
	}
	e.variants = append(e.variants, q)
	ws := q.unmade(len(e.job.Tensors))
	e.work = append(e.work, ws)
	for _, w := range ws {
		if w == todo {
			e.count(q, 1)
		}
	}
	e.rec.post(events...)
	return nil
}

// total is how many measurements all variants have; e.mu is held.
func (e *engine) total() (n int64) {
	for _, q := range e.variants {
		n += int64(len(e.job.Tensors))
		if q.recipe != nil {
			n -= q.recipe.Kept()
		}
	}
	return n
}

// newVariantEvent says that a variant was added.
func newVariantEvent(id int, v Variant) stored {
	return newNote(EventVariant, id, -1, note{
		Message: "variant " + v.Name,
		Variant: new(newVariantJSON(v)),
	})
}

// pause and resume say in the log what they did, if they did anything.
func (e *engine) pause() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running && e.gate.shut() {
		e.rec.note(EventPaused, -1, -1, note{Message: "paused"})
	}
}

func (e *engine) resume() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running && e.gate.lift() {
		e.rec.note(EventResumed, -1, -1, note{Message: "resumed after a pause", Pending: e.undone})
	}
}

func (e *engine) cancelRun() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cancel()
}

// quantizer is a variant's.
func (e *engine) quantizer(variant int) Quantizer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.variants[variant]
}

func (e *engine) variantCount() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.variants)
}

// state is whether a run goes on, and what closes when it has ended.
func (e *engine) state() (running bool, idle <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.running, e.idle
}
