package sessions

import (
	"context"
	"math"
	"path/filepath"
	"sync"
	"testing"

	"quantscope/analysis/bias"
	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/tier"
	"quantscope/analysis/yardstick"
)

// biasSetup is of two candidates over three layers.
func biasSetup() *bias.Setup {
	return &bias.Setup{
		Reference:  yardstick.Party{Label: "demo", Spec: "demo", Kind: candidate.Checkpoint, Identity: "0123"},
		Candidates: []yardstick.Party{{Label: "code2+l2", Spec: "code2+l2", Kind: candidate.Variant, BitsPerWeight: 2.5}, {Label: "code2+sym", Spec: "code2+sym", BitsPerWeight: math.NaN()}},
		Corpora:    []yardstick.CorpusRef{{Name: "prose", SHA256: "ab"}, {Name: "code", SHA256: "cd"}},
		Positions:  1024, Hidden: 128, Layers: 3, MoE: []int{1, 2}, Activations: "f32", KernelSet: "ref", Program: "test",
	}
}

// madeUpFound are all that a look of biasSetup finds, in order.
func madeUpFound() (found []BiasFound) {
	for c := range 2 {
		sign := float64(1 - 2*c)
		for layer := -1; layer < 3; layer++ {
			w := &bias.Weights{Candidate: c, Layer: layer, Tensors: 2, RelL2: 0.3, Bias: 0.01 * sign, AbsBias: 0.02, RowRMS: 0.03, RowMax: 0.1, Positive: 0.5,
				Books: []bias.Book{{Values: []float32{-6, -1, 0, 3}, Tensors: 1}, {Values: []float32{-3, -1, 1, 3}, Tensors: 1}}}
			if layer < 0 {
				w.Tensor = []bias.Tensor{{Name: "a\xff", Layer: 1, Expert: 3, RelL2: 0.3, Bias: math.Inf(-1), RowRMS: math.NaN()}, {Name: "head", Layer: -1, Expert: -1, RelL2: 0.25}}
			}
			found = append(found, BiasFound{Weights: w})
		}
	}
	for layer := -1; layer < 3; layer++ {
		for _, part := range []string{bias.Attention, bias.MLP, bias.Residual} {
			if layer < 0 && part != bias.Residual {
				continue
			}
			for c := range 2 {
				r := &bias.Row{Candidate: c, Layer: layer, Part: part, Flow: bias.Flow{Positions: 1024, NonFinite: int64(c), Rel: 0.1 * float64(layer+2), Bias: -0.01 * float64(c), Gain: math.NaN(), Shift: 0.2, Null: 0.001, NullMax: 0.002}}
				found = append(found, BiasFound{Row: r})
			}
		}
	}
	for c := range 2 {
		found = append(found, BiasFound{Divergence: &bias.Divergence{Candidate: c, Positions: 1024, KL: 0.5, StdErr: math.Inf(1), Top1: 0.75, Chunks: []float64{0.5, math.NaN()}}})
	}
	return found
}

// tierSetup is of two budgets over three layers of four experts.
func tierSetup() *tier.Setup {
	return &tier.Setup{
		Shape:  tier.Shape{Layers: []int{1, 2, 5}, Experts: 4, TopK: 2, Hot: []int64{80, 80, 90}, Cold: []int64{50, 50, 55}},
		Source: "0123", Model: "demo", Hot: "nvfp4", Cold: "code2+sym", Routed: "demo",
		Workload: tier.WorkloadRef{Name: "calib", Kind: tier.Recorded, SHA256: "ef", Tokens: 40, Phases: []tier.Phase{{Name: "calib"}, {Name: "more", First: 20}}},
		Policy:   tier.Policy{Window: 8, Decay: 0.5, Hysteresis: 0.25, Stay: 1}, Budgets: []tier.Budget{{Label: "25%", Bytes: 250, Share: 0.25}, {Label: "50%", Bytes: 500, Share: 0.5}},
		Trace: tier.TraceMoves, Seed: math.MaxUint64, KernelSet: "ref", Program: "test",
	}
}

// tierWindows is how many windows each budget of tierSetup has.
const tierWindows = 5

// madeUpWindow is a window that is of its place alone. The first of a budget has no
// moves.
func madeUpWindow(budget, index int) *tier.Window {
	w := &tier.Window{Budget: budget, Index: index, First: 8 * index, Tokens: 8, Pairs: 48, Hits: int64(10*budget + index), Churn: int64(2 * index), Hot: 3, HotBytes: 240, PerLayer: []int{1, 2, 0}, Held: index}
	if index > 0 {
		w.Promoted, w.Evicted = 1, 1
		w.Moves = []tier.Move{{Layer: 2, Expert: index % 4, Up: true, Score: 0.5}, {Layer: 5, Expert: 3, Score: math.NaN()}}
	}
	return w
}

func tierEnd(s *tier.Setup) *tier.End {
	end := &tier.End{Verdict: "it breathes", Curve: &tier.Curve{Share: []float64{0, 0.25, 1}, Hits: []float64{0, 0.6, 1}, Knee: 0.25, Rise: 0.35, Noise: 0.01}}
	for b, budget := range s.Budgets {
		m := func(how string, hot ...int) *tier.Map {
			return &tier.Map{Format: tier.MapFormat, Source: s.Source, Model: s.Model, Hot: s.Hot, Cold: s.Cold, Experts: 4, Budget: budget, HotBytes: 240, Workload: s.Workload, Policy: s.Policy, How: how, Program: s.Program,
				Layers: []tier.MapLayer{{Layer: 1, Hot: hot}, {Layer: 2, Hot: []int{0, 3}}, {Layer: 5, Hot: []int{}}}}
		}
		end.Results = append(end.Results, &tier.Result{Budget: b, Windows: tierWindows, Coverage: 0.25, Hits: 0.5, Settled: 0.6, Best: math.NaN(), Promoted: 4, Evicted: 4, Churn: 8, ChurnWindow: 1.6, Held: 10,
			HotBytes: 240, Replace: 700, Beside: 900, PerLayer: []int{1, 2, 0}, Histogram: []int{1, 1, 1}, ByPhase: []float64{0.4, 0.6},
			Map: m(tier.Managed, b), Controls: []tier.Control{{Name: tierRandom, Hits: 0.25, Map: m(tierRandom, 2)}, {Name: tierColdest, Hits: 0.05, Map: m(tierColdest, 3)}}})
	}
	return end
}

// fakeLooks are looks and tiers that need no files. They tell of up to stop things and
// then do what then says.
type fakeLooks struct {
	stop  int // -1: all
	then  func(ctx context.Context) error
	tells func(n int) // may be nil; before thing n is told

	mu    sync.Mutex
	calls int
}

func newFakeLooks() *fakeLooks { return &fakeLooks{stop: -1} }

// next is asked before each thing that is told.
func (f *fakeLooks) next(ctx context.Context, n int) error {
	if n == f.stop && f.then != nil {
		return f.then(ctx)
	}
	if f.tells != nil {
		f.tells(n)
	}
	return ctx.Err()
}

func (f *fakeLooks) bias(ctx context.Context, _ *bias.Setup, _ *candidate.Candidate, _ []*candidate.Candidate, _ []*corpus.Corpus, o bias.Options, sink bias.Sink) error {
	f.mu.Lock()
	f.calls++
	f.mu.Unlock()
	for n, x := range madeUpFound() {
		if err := o.Pause(ctx); err != nil {
			return err
		}
		if err := f.next(ctx, n); err != nil {
			return err
		}
		var err error
		switch {
		case x.Weights != nil:
			err = sink.Weights(x.Weights)
		case x.Row != nil:
			err = sink.Row(x.Row)
		default:
			err = sink.Divergence(x.Divergence)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *fakeLooks) tier(ctx context.Context, s *tier.Setup, _ *tier.Trace, o tier.Options, sink tier.Sink) (*tier.End, error) {
	f.mu.Lock()
	f.calls++
	f.mu.Unlock()
	n := 0
	var w tier.Window // sinks keep nothing of it
	for b := range s.Budgets {
		for i := range tierWindows {
			if err := o.Pause(ctx); err != nil {
				return nil, err
			}
			if err := f.next(ctx, n); err != nil {
				return nil, err
			}
			w = *madeUpWindow(b, i)
			if err := sink(&w); err != nil {
				return nil, err
			}
			if o.Pace != nil {
				if err := o.Pace(ctx, &w); err != nil {
					return nil, err
				}
			}
			n++
		}
	}
	return tierEnd(s), nil
}

// desk is the desk of a feed.
func (f *fakeLooks) on(feed Feed) {
	var d *lookDesk
	switch feed := feed.(type) {
	case *savedFeed:
		d = feed.looks
	case *followFeed:
		d = feed.looks
	case *LiveFeed:
		d = feed.looks
	}
	d.bias, d.tier = f.bias, f.tier
}

func (f *fakeLooks) biasRequest(feed Feed) BiasRequest {
	f.on(feed)
	return BiasRequest{ready: &biasParties{parties: &parties{}, setup: biasSetup()}}
}

func (f *fakeLooks) tierRequest(feed Feed) TierRequest {
	f.on(feed)
	return TierRequest{ready: &tierParties{parties: &parties{}, setup: tierSetup(), trace: &tier.Trace{}}}
}

func biasOn(t *testing.T, feed Feed, f *fakeLooks) error {
	t.Helper()
	return feed.(Biaser).Bias(t.Context(), f.biasRequest(feed))
}

func tierOn(t *testing.T, feed Feed, f *fakeLooks) error {
	t.Helper()
	return feed.(Tierer).Tier(t.Context(), f.tierRequest(feed))
}

// lookSession is a session of a few tensors with a look at biases and a run of a hot
// tier.
func lookSession(t *testing.T) string {
	t.Helper()
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	if err := biasOn(t, openFeed(t, path), newFakeLooks()); err != nil {
		t.Fatal(err)
	}
	if err := tierOn(t, openFeed(t, path), newFakeLooks()); err != nil {
		t.Fatal(err)
	}
	return path
}

// formatSession is a copy of a session that an older program wrote.
func formatSession(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "old.qscope")
	if err := copyFile(path, filepath.Join("testdata", name+".qscope")); err != nil {
		t.Fatal(err)
	}
	return path
}
