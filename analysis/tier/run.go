package tier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/kernels"
)

// Model is what a tier needs to know of a model; candidate.Candidate.TierModel makes
// one.
type Model struct {
	Label    string
	Identity string // of the checkpoint
	Spec     *model.Spec
	Bits     float64 // that a stored weight takes, for planning memory
	// Size is what an expert of a layer takes as a variant, scales included, or as it is
	// stored for "source". It refuses what cannot be made.
	Size   func(variant string, layer, expert int) (int64, error)
	Source func() (model.Source, error)
}

// Options of recording and running.
type Options struct {
	Set     kernels.Set
	Threads int
	Mem     int64
	BF16    bool
	Program string

	Hot, Cold string   // variants; hot may be source
	Budgets   []string // shares (25%, 0.25) of the bytes of all experts that are hot, or bytes (1.5GiB)
	Policy    Policy
	Trace     int // 1 or 2
	Seed      uint64

	Progress func(Progress)                             // may be nil; from any goroutine
	Pause    func(context.Context) error                // asked between windows; may be nil
	Pace     func(ctx context.Context, w *Window) error // asked after each window, so that a person can watch; may be nil
}

// Progress is where a run stands.
type Progress struct {
	Stage    string // one of the stages
	Budget   int    // -1: none yet
	Done, Of int64  // tokens
	Seconds  float64
}

// Stages of a run.
const (
	StageRouting = "routing"
	StageRunning = "running"
)

// Sink takes windows as they come, from one goroutine.
type Sink func(*Window) error

// RoutesSuffix ends the names of recorded traces.
const RoutesSuffix = ".routes"

// Trace levels.
const (
	TraceWindows = 1
	TraceMoves   = 2
)

// maxBudgets is how many budgets one run may have.
const maxBudgets = 64

// Prepare makes the trace of a workload and the setup of a run:
//
//	calib, prose, FILE    text, as package corpus names it: recorded from the forward pass of routed, one phase a corpus
//	FILE.routes           a recorded trace
//	zipf:S[:drift=N][:seed=K][:tokens=N]   made up: popularity falls with rank to the power of S, ranks change every N tokens
//
// Traces and made-up workloads stand alone. The corpora of recorded workloads are
// loaded by load. routed is whose forward pass chooses, the reference or a candidate.
func Prepare(ctx context.Context, ref, routed Model, workload []string, load func(name string) ([]*corpus.Corpus, error), o Options) (*Setup, *Trace, error) {
	layers, n, topK, err := experts(ref.Spec)
	if err != nil {
		return nil, nil, err
	}
	s := &Setup{
		Shape:  Shape{Layers: layers, Experts: n, TopK: topK},
		Source: ref.Identity, Model: ref.Label, Hot: o.Hot, Cold: o.Cold, Policy: o.Policy, Trace: o.Trace, Seed: o.Seed, KernelSet: o.Set.Name, Program: o.Program,
	}
	switch {
	case o.Trace != TraceWindows && o.Trace != TraceMoves:
		return nil, nil, fmt.Errorf("tier: trace level %d: want %d (windows) or %d (moves too)", o.Trace, TraceWindows, TraceMoves)
	case s.Hot == "" || s.Cold == "":
		return nil, nil, errors.New("tier: no variant is named for hot or for cold experts")
	case s.Cold == Source:
		return nil, nil, errors.New("tier: cold experts are stored as a variant, not as the source has them")
	case s.Hot == s.Cold:
		return nil, nil, fmt.Errorf("tier: hot and cold experts are both stored as %s", s.Hot)
	case len(o.Budgets) == 0 || len(o.Budgets) > maxBudgets:
		return nil, nil, fmt.Errorf("tier: %w: %d are named, want 1 to %d", ErrBudget, len(o.Budgets), maxBudgets)
	}
	if err := s.Policy.Check(); err != nil {
		return nil, nil, err
	}
	if err := s.sizes(ref); err != nil {
		return nil, nil, err
	}
	for _, text := range o.Budgets {
		b, err := ParseBudget(text, &s.Shape)
		if err != nil {
			return nil, nil, fmt.Errorf("tier: %w", err)
		}
		if slices.ContainsFunc(s.Budgets, func(a Budget) bool { return a.Label == b.Label }) {
			return nil, nil, fmt.Errorf("tier: %w %s is named twice", ErrBudget, b.Label)
		}
		s.Budgets = append(s.Budgets, b)
	}
	t, err := makeTrace(ctx, ref, routed, workload, load, o)
	if err != nil {
		return nil, nil, err
	}
	if t.Kind == Recorded {
		s.Routed = routed.Label
	}
	if !slices.Equal(t.Layers, layers) || t.Experts != n || t.TopK != topK {
		return nil, nil, fmt.Errorf("tier: %s chooses %d of %d experts in layers %s, %s %d of %d in %s: it is a trace of another model", t.Name, t.TopK, t.Experts, some(t.Layers), ref.Label, topK, n, some(layers))
	}
	s.Workload = t.Ref()
	return s, t, nil
}

// some are layers in short, the first of them where there are many.
func some(layers []int) string {
	if len(layers) <= 16 {
		return fmt.Sprint(layers)
	}
	return fmt.Sprintf("%v … (%d of them)", layers[:16], len(layers))
}

// sizes asks what experts take in either precision.
func (s *Setup) sizes(ref Model) error {
	for _, layer := range s.Shape.Layers {
		var of [2]int64
		for i, v := range []string{s.Hot, s.Cold} {
			for e := range s.Shape.Experts {
				n, err := ref.Size(v, layer, e)
				if err != nil {
					if i == 0 && s.Hot != Source {
						return fmt.Errorf("tier: %w; hot experts as the checkpoint has them are %q", err, Source)
					}
					return fmt.Errorf("tier: %w", err)
				}
				if e > 0 && n != of[i] {
					return fmt.Errorf("tier: expert %d of layer %d takes %d bytes as %s, those before it %d", e, layer, n, v, of[i])
				}
				of[i] = n
			}
		}
		if of[0] < of[1] {
			s.Notes = append(s.Notes, fmt.Sprintf("experts of layer %d take more as %s than as %s", layer, s.Cold, s.Hot))
		}
		s.Shape.Hot, s.Shape.Cold = append(s.Shape.Hot, of[0]), append(s.Shape.Cold, of[1])
	}
	return s.Shape.Check()
}

// Alone says whether a workload is made up or recorded: it is then all of one, and no
// text.
func Alone(name string) bool {
	return strings.HasPrefix(name, Zipf+":") || name == Zipf || strings.HasSuffix(name, RoutesSuffix)
}

// makeTrace makes or reads the workload that is asked for.
func makeTrace(ctx context.Context, ref, routed Model, workload []string, load func(name string) ([]*corpus.Corpus, error), o Options) (*Trace, error) {
	if len(workload) == 0 {
		return nil, fmt.Errorf("%w: none is named", ErrWorkload)
	}
	if i := slices.IndexFunc(workload, Alone); i >= 0 {
		name := workload[i]
		if len(workload) > 1 {
			return nil, fmt.Errorf("%w %q stands alone; texts follow one another, traces do not", ErrWorkload, name)
		}
		if strings.HasSuffix(name, RoutesSuffix) {
			return ReadTrace(ctx, name)
		}
		z, err := parseZipf(name)
		if err != nil {
			return nil, err
		}
		layers, n, topK, err := experts(ref.Spec)
		if err != nil {
			return nil, err
		}
		return z.trace(name, layers, n, topK)
	}
	var corpora []*corpus.Corpus
	for _, name := range workload {
		some, err := load(name)
		if err != nil {
			return nil, err
		}
		corpora = append(corpora, some...)
	}
	t, err := record(ctx, routed, corpora, o)
	if err != nil {
		return nil, err
	}
	t.Name = strings.Join(workload, ", ")
	return t, t.check()
}

// Run takes a trace through the manager, budget after budget, and tells of each window.
// Trace levels decide what the windows hold, not what happens.
func Run(ctx context.Context, s *Setup, t *Trace, o Options, sink Sink) (*End, error) {
	end := &End{}
	counts := t.counts()
	begun := time.Now()
	for b := range s.Budgets {
		r, err := s.run(ctx, t, b, o, sink, begun)
		if err != nil {
			return nil, err
		}
		s.judge(t, counts, r)
		end.Results = append(end.Results, r)
	}
	end.Curve = newCurve(&s.Shape, counts, t.Tokens, s.Seed)
	end.Verdict = s.verdict(end)
	return end, nil
}

// run is a run at one budget.
func (s *Setup) run(ctx context.Context, t *Trace, budget int, o Options, sink Sink, begun time.Time) (*Result, error) {
	m, err := NewManager(s.Shape, s.Policy, s.Budgets[budget].Bytes)
	if err != nil {
		return nil, err
	}
	r := &Result{Budget: budget}
	tally := newTally(t)
	for first := 0; first < t.Tokens; first += s.Policy.Window {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if o.Pause != nil {
			if err := o.Pause(ctx); err != nil {
				return nil, err
			}
		}
		w := &Window{Budget: budget, Index: r.Windows, First: first, Tokens: min(s.Policy.Window, t.Tokens-first)}
		w.Pairs = int64(w.Tokens) * int64(len(t.Layers)) * int64(t.TopK)
		for token := first; token < first+w.Tokens; token++ {
			hits := 0
			for l := range t.Layers {
				hits += m.Choose(l, t.Of(token, l))
			}
			w.Hits += int64(hits)
			tally.take(token, hits)
		}
		var moves []Move
		moves, w.Held = m.End(w.Tokens)
		for _, v := range moves {
			if v.Up {
				w.Promoted++
			} else {
				w.Evicted++
			}
		}
		r.Churn += int64(len(moves))
		w.Churn = r.Churn
		w.PerLayer, w.Hot, w.HotBytes = m.perLayer()
		if w.HotBytes > s.Budgets[budget].Bytes {
			return nil, fmt.Errorf("tier: %d bytes are hot in window %d, of a budget of %d", w.HotBytes, w.Index, s.Budgets[budget].Bytes)
		}
		if s.Trace == TraceMoves {
			w.Moves = moves
		}
		r.take(w)
		if err := sink(w); err != nil {
			return nil, err
		}
		if o.Progress != nil {
			n := int64(len(s.Budgets))
			o.Progress(Progress{Stage: StageRunning, Budget: budget, Done: int64(budget)*int64(t.Tokens) + int64(first+w.Tokens), Of: n * int64(t.Tokens), Seconds: time.Since(begun).Seconds()})
		}
		if o.Pace != nil {
			if err := o.Pace(ctx, w); err != nil {
				return nil, err
			}
		}
	}
	r.Hits, r.Settled, r.ByPhase = tally.all(), tally.settled(s.Policy.Window), tally.phases()
	r.Map = s.mapOf(budget, m.hot, Managed)
	return r, nil
}
