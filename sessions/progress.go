package sessions

import (
	"cmp"
	"slices"
)

// Rates are over a window of a few seconds, in steps fine enough that the
// figure moves smoothly at ten updates a second.
const (
	rateStepUS = 100_000
	rateSteps  = 30 // a window of 3 s
)

// tracker turns events into the progress that the status line shows. Live runs,
// sessions that another process writes, and replays use the same one, so no pane
// can tell which it looks at. It belongs to one goroutine.
type tracker struct {
	weights []int64 // of each tensor
	bytes   []int64 // of each tensor's source
	settled [][]settled
	p       Progress
	pending int64 // weights of the (variant, tensor) pairs that nothing is known of

	// meter says what a live run does between two records, nil where there are
	// only records; the rates count what it had since met.
	meter                *meter
	metBytes, metWeights int64

	calib calibTrack // the calibration that goes on

	runFrom int64 // when the run that goes on began, in µs of the session
	steps   [rateSteps]rateStep
}

type settled uint8

const (
	unsettled settled = iota
	measured
	failed
	kept // as the source has it: nothing is to be measured
)

type rateStep struct{ at, bytes, weights int64 } // at: number of the step since the session began

func newTracker(tensors []Tensor) *tracker {
	t := &tracker{weights: make([]int64, len(tensors)), bytes: make([]int64, len(tensors))}
	for i, ts := range tensors {
		t.weights[i] = int64(ts.Rows) * int64(ts.Cols)
		t.bytes[i] = t.weights[i] * int64(elementSize(ts.DType))
		if isFP4(ts.DType) {
			t.bytes[i] = max(tensorBytes(&ts), 0)
		}
	}
	t.p = Progress{State: RunIdle, Variant: -1}
	return t
}

// elementSize is the bytes of one source element; 0 for a dtype that is not
// measured.
func elementSize(dtype string) int {
	switch dtype {
	case "BF16", "F16":
		return 2
	case "F32":
		return 4
	}
	return 0
}

// resume takes over what a state knows.
func (t *tracker) resume(st *State) {
	for range st.Variants {
		t.addVariant()
	}
	for _, r := range st.Recipes {
		t.keep(r)
	}
	for v, rs := range st.Records {
		for i := range rs {
			switch {
			case rs[i].Seq == 0:
			case rs[i].Failed:
				t.settle(v, i, failed)
			default:
				t.settle(v, i, measured)
			}
		}
	}
	t.p.State, t.p.Variant = st.Progress.State, st.Progress.Variant
	t.calib.resume(st)
}

func (t *tracker) addVariant() {
	t.settled = append(t.settled, make([]settled, len(t.weights)))
	t.p.Total += int64(len(t.weights))
	for _, w := range t.weights {
		t.pending += w
	}
}

// keep takes out what a recipe leaves as the source has it.
func (t *tracker) keep(r *RecipeRun) {
	for i, g := range r.Of {
		if g < 0 && t.settled[r.Variant][i] == unsettled {
			t.settled[r.Variant][i] = kept
			t.p.Total--
			t.pending -= t.weights[i]
		}
	}
}

// settle notes the outcome of one measurement. The newest outcome counts.
func (t *tracker) settle(variant, tensor int, s settled) {
	switch t.settled[variant][tensor] {
	case unsettled:
		t.pending -= t.weights[tensor]
	case measured:
		t.p.Done--
	case failed:
		t.p.Failed--
	case kept: // a file says both
		t.p.Total++
	}
	t.settled[variant][tensor] = s
	if s == failed {
		t.p.Failed++
	} else {
		t.p.Done++
	}
	t.p.Variant = variant
}

// observe takes in one event.
func (t *tracker) observe(e *stored) {
	switch e.Kind {
	case EventVariant:
		t.addVariant()
	case EventPlan:
		t.keep(e.recipe)
	case EventTap:
		t.settle(e.Variant, e.Tensor, measured)
		if t.meter == nil {
			t.spend(e.AtUS, t.bytes[e.Tensor], t.weights[e.Tensor])
		}
	case EventFailed:
		t.settle(e.Variant, e.Tensor, failed)
	case EventStarted, EventResumed:
		t.runFrom = e.AtUS
		if t.p.State == RunPaused { // tensors that were in hand are of no rate
			t.sample(e.AtUS)
		}
		t.steps = [rateSteps]rateStep{}
	case EventFinished, EventCancelled, EventStopped:
		t.sample(e.AtUS) // so that the next run begins with nothing of this one
	}
	t.calib.observe(e)
	t.p.State = nextRunState(t.p.State, e.Kind)
}

func (t *tracker) spend(atUS, bytes, weights int64) {
	at := atUS / rateStepUS
	s := &t.steps[at%rateSteps]
	if s.at != at {
		*s = rateStep{at: at}
	}
	s.bytes += bytes
	s.weights += weights
}

// sample counts what a live run did since it was looked at last.
func (t *tracker) sample(nowUS int64) {
	if t.meter == nil {
		return
	}
	bytes, weights := t.meter.bytes.Load(), t.meter.weights.Load()
	t.spend(nowUS, bytes-t.metBytes, weights-t.metWeights)
	t.metBytes, t.metWeights = bytes, weights
}

// progress is how things stand at nowUS.
func (t *tracker) progress(nowUS int64) Progress {
	t.sample(nowUS)
	p := t.p
	eta := t.calibrating(&p, nowUS)
	if p.State != RunRunning {
		return p
	}
	now := nowUS / rateStepUS
	var bytes, weights int64
	for _, s := range t.steps {
		if s.at > now-rateSteps && s.at <= now {
			bytes += s.bytes
			weights += s.weights
		}
	}
	// The window is what of the last 3 s belongs to this run, and the step that
	// goes on counts as far as it went.
	from := max((now-rateSteps+1)*rateStepUS, t.runFrom)
	if span := float64(nowUS-from) / 1e6; span > 0 {
		p.BytesPerSec, p.WeightsPerSec = float64(bytes)/span, float64(weights)/span
	}
	if p.WeightsPerSec > 0 {
		pending := t.pending
		if t.meter != nil {
			pending = max(pending-t.meter.partial.Load(), 0)
		}
		p.ETASeconds = float64(pending) / p.WeightsPerSec
	}
	if p.Calibrating.Units > 0 {
		p.ETASeconds = eta
	}
	return p
}

// fold gathers events into batches.
type fold struct {
	tracker *tracker
	batch   Batch
	at      map[pair]int // where in batch.Records
	again   bool         // a pair came twice
}

func newFold(t *tracker) *fold { return &fold{tracker: t, at: map[pair]int{}} }

// add takes in one event.
func (f *fold) add(e *stored) {
	f.tracker.observe(e)
	switch e.Kind {
	case EventTap, EventFailed:
		k := pair{e.Variant, e.Tensor}
		if i, ok := f.at[k]; ok {
			f.batch.Records[i] = e.rec
			f.again = true
		} else {
			f.at[k] = len(f.batch.Records)
			f.batch.Records = append(f.batch.Records, e.rec)
		}
	case EventVariant:
		f.batch.Variants = append(f.batch.Variants, e.variant)
	case EventPlan:
		f.batch.Recipes = append(f.batch.Recipes, e.recipe)
	}
	if x := e.note.Export; x != nil {
		f.batch.Exports = append(f.batch.Exports, x.ref())
	}
	if a := e.note.Audit; a != nil {
		f.batch.Audits = append(f.batch.Audits, a)
	}
	f.batch.takeRuns(e)
	if e.Kind != EventTap && e.Kind != EventTensors && !e.unlogged() {
		f.batch.Events = append(f.batch.Events, e.Event)
	}
	f.batch.LastSeq, f.batch.LastUS = max(f.batch.LastSeq, e.Seq), max(f.batch.LastUS, e.AtUS)
}

// take is the batch, with the progress as it stands at nowUS.
func (f *fold) take(nowUS int64) Batch {
	b := f.batch
	b.Progress = f.tracker.progress(nowUS)
	f.batch = Batch{LastSeq: b.LastSeq, LastUS: b.LastUS}
	clear(f.at)
	if f.again {
		slices.SortFunc(b.Records, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
		f.again = false
	}
	return b
}

// valid says whether an event's numbers fit a session of so many variants and
// tensors, the variant that it adds included.
func (e *stored) valid(variants, tensors int) bool {
	switch e.Kind {
	case EventVariant:
		return e.Variant == variants
	case EventPlan:
		return e.Variant >= 0 && e.Variant < variants && len(e.recipe.Of) == tensors
	case EventTap, EventFailed:
		return e.Variant >= 0 && e.Variant < variants && e.Tensor >= 0 && e.Tensor < tensors
	}
	return e.Variant >= -1 && e.Variant < variants && e.Tensor >= -1 && e.Tensor < tensors
}
