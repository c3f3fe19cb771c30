package tier_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/analysis/tier"
	"quantscope/kernels"
)

func options() tier.Options {
	return tier.Options{Set: kernels.Best(), Threads: 2, Hot: "nvfp4", Cold: "code2+sym", Budgets: []string{"0", "25%", "100%"}, Policy: tier.DefaultPolicy(), Trace: tier.TraceMoves}
}

func load(name string) ([]*corpus.Corpus, error) {
	tok, err := corpus.DemoTokenizer()
	if err != nil {
		return nil, err
	}
	return corpus.Load(context.Background(), name, corpus.Options{Chunks: 3, Calib: true, Tokenizer: tok})
}

// TestRecord: a recorded trace is what the routers chose, chunk by chunk, whatever the
// memory and the threads; and the run over it keeps its promises.
func TestRecord(t *testing.T) {
	ctx := context.Background()
	ref, err := candidate.Open(ctx, "demo", candidate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	o := options()
	m := ref.TierModel()
	s, tr, err := tier.Prepare(ctx, m, m, []string{"prose", "calib"}, load, o)
	if err != nil {
		t.Fatal(err)
	}
	var chunks [][]int32
	for _, name := range []string{"prose", "calib"} {
		some, err := load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range some {
			chunks = append(chunks, c.Chunks...)
		}
	}
	src, err := ref.Source()
	if err != nil {
		t.Fatal(err)
	}
	first := 0
	for _, chunk := range chunks {
		_, err := model.Run(ctx, ref.Arch, []model.Source{src}, [][]int32{chunk}, model.Options{Set: kernels.Best(), Routed: func(_, layer int, _ []float32, choices []model.Choice) {
			for i := range choices {
				got := tr.Of(first+i, slices.Index(tr.Layers, layer))
				for k, e := range choices[i].Experts {
					if int(got[k]) != int(e) {
						t.Fatalf("token %d, layer %d: %v, want %v", first+i, layer, got, choices[i].Experts)
					}
				}
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		first += len(chunk)
	}
	if first != tr.Tokens || len(s.Workload.Phases) != 2 || s.Workload.Phases[1].First != 3*len(chunks[0]) || s.Routed != "demo" {
		t.Errorf("%d tokens of %d, phases %v, routed by %q", tr.Tokens, first, s.Workload.Phases, s.Routed)
	}
	o.Threads, o.Mem = 1, 1
	var small *model.MemoryError
	if _, _, err := tier.Prepare(ctx, m, m, []string{"prose", "calib"}, load, o); !errors.As(err, &small) {
		t.Fatal("a byte of memory was enough:", err)
	}
	groups := 0
	o.Mem, o.Pause = small.Need, func(context.Context) error { groups++; return nil }
	if _, again, err := tier.Prepare(ctx, m, m, []string{"prose", "calib"}, load, o); err != nil || again.SHA256() != tr.SHA256() {
		t.Errorf("with less memory the trace is another: %v", err)
	}
	if groups < 2 {
		t.Errorf("%d groups of chunks", groups)
	}
	end, err := tier.Run(ctx, s, tr, o, func(*tier.Window) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"0%", "25%", "25%#fixed", "25%#random", "25%#coldest", "100%"} {
		if _, ok := end.MapOf(name); !ok {
			t.Errorf("there is no map %s", name)
		}
	}
	if r := end.Results[1]; !(r.Hits > r.Controls[1].Hits && r.Controls[0].Hits > r.Controls[1].Hits && r.Controls[1].Hits > r.Controls[2].Hits) || r.Coverage != 0.25 {
		t.Errorf("%.3f hits, controls %.3f and %.3f, coverage %v", r.Hits, r.Controls[1].Hits, r.Controls[2].Hits, r.Coverage)
	}
	if !strings.Contains(end.Verdict, "With 25%, 25 % of the experts are hot") {
		t.Error(end.Verdict)
	}
}

func TestPrepareRefuses(t *testing.T) {
	ctx := context.Background()
	ref, err := candidate.Open(ctx, "demo", candidate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	m := ref.TierModel()
	other := filepath.Join(t.TempDir(), "other.routes") // as many layers, and not the demo's
	if err := tier.WriteTrace(other, &tier.Trace{Name: "other", Kind: tier.Recorded, Layers: []int{1, 2, 3, 9}, Experts: 16, TopK: 2, Tokens: 1, Choices: []uint16{0, 1, 0, 1, 0, 1, 0, 1}}, "other"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change   func(*tier.Options)
		workload []string
		want     string
	}{
		"none":    {func(*tier.Options) {}, nil, "none is named"},
		"alone":   {func(*tier.Options) {}, []string{"prose", "zipf:1"}, "stands alone"},
		"file":    {func(*tier.Options) {}, []string{"nowhere.routes"}, "nowhere.routes"},
		"other":   {func(*tier.Options) {}, []string{other}, "[1 2 3 9], demo 2 of 16 in [1 2 3 4]"},
		"text":    {func(*tier.Options) {}, []string{"nowhere"}, "nowhere"},
		"level":   {func(o *tier.Options) { o.Trace = 3 }, []string{"zipf:1"}, "trace level 3"},
		"budgets": {func(o *tier.Options) { o.Budgets = nil }, []string{"zipf:1"}, "0 are named"},
		"twice":   {func(o *tier.Options) { o.Budgets = []string{"25%", "0.25"} }, []string{"zipf:1"}, "25% is named twice"},
		"hot":     {func(o *tier.Options) { o.Hot = "nvfp5" }, []string{"zipf:1"}, "nvfp5"},
		"same":    {func(o *tier.Options) { o.Cold = o.Hot }, []string{"zipf:1"}, "both stored as"},
		"gptq":    {func(o *tier.Options) { o.Cold = "code2+gptq" }, []string{"zipf:1"}, "code2+gptq is calibrated"},
		"cold":    {func(o *tier.Options) { o.Cold = "source" }, []string{"zipf:1"}, "cold experts are stored as a variant"},
		"policy":  {func(o *tier.Options) { o.Policy.Window = 0 }, []string{"zipf:1"}, "window of 0"},
	} {
		o := options()
		c.change(&o)
		_, _, err := tier.Prepare(ctx, m, m, c.workload, load, o)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
		if about := name == "budgets" || name == "twice"; about != errors.Is(err, tier.ErrBudget) {
			t.Errorf("%s: %v: an error about a budget %t", name, err, !about)
		}
	}
}
