package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/analysis/bakeoff"
	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/sessions"
)

// bakeoffFlags are the flags of bakeoff.
type bakeoffFlags struct {
	base, baseVariant, sample, variants, metric, session, mem string
	seed                                                      uint64
	threads                                                   int
	json, allowFallback                                       bool
}

func newBakeoff(std streams) *cobra.Command {
	var f bakeoffFlags
	cmd := &cobra.Command{
		Use:   "bakeoff CHECKPOINT --base SESSION --sample STRATA --variant V,V",
		Short: "Run variants on a stratified sample and say which wins",
		Long: `bakeoff draws a sample of the tensors that a base session measured, measures
them under other variants in a session of its own and compares each with the base
variant, tensor by tensor: wins and losses, the change of mean and median, the worst
case, the signed-rank test, and what is clipped for it.

--sample is a list of strata: worst=K (the largest rel2 under the base variant),
random=K, layer=N=K, projection=NAME=K, expert=N=K, where K may be all. A tensor in
two strata is measured once and counted in both.`,
		Example: `  quantscope quantize demo --variant nvfp4 --session base.qscope
  quantscope bakeoff demo --base base.qscope --sample worst=20,random=40,layer=2=all --variant nvfp4+mse,nvfp4+mse_ge1`,
		Args: exactly(1, "bakeoff takes one checkpoint: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBakeoff(cmd.Context(), std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.base, "base", "", "session of this checkpoint that the sample is drawn from")
	fl.StringVar(&f.baseVariant, "base-variant", "", "variant that the others are held against (default: the base session's first)")
	fl.StringVar(&f.sample, "sample", "", "strata, such as worst=372,random=400,layer=45=100,projection=down=50,expert=17=all")
	fl.StringVar(&f.variants, "variant", "", "variants to run on the sample, separated by commas")
	fl.StringVar(&f.metric, "metric", "rel2", "what they are compared by: "+strings.Join(bakeoff.MetricNames(), ", "))
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the draw")
	fl.StringVar(&f.session, "session", "", "session file of the sample, to create or go on with (default: a new one in the state folder)")
	fl.StringVar(&f.mem, "mem", "", "memory for buffered weights, such as 512MiB or 2GiB")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	fl.BoolVar(&f.allowFallback, "allow-fallback", false, "do not fail where a variant equals the base on every tensor or something else ran")
	return cmd
}

// bakeoffPlan is what the flags ask for, checked.
type bakeoffPlan struct {
	base    *sessions.Base
	variant int // of the base session
	levers  []string
	specs   []bakeoff.Spec
	metric  bakeoff.Metric
	sample  *bakeoff.Sample
	options sessions.Options
}

// how says how the sample was drawn; it may not change on resume.
func (p *bakeoffPlan) how() string {
	return fmt.Sprintf("%s by %s, seed %d", bakeoff.Label(p.specs), p.base.State().Variants[p.variant].Name, p.sample.Seed)
}

// plan checks the flags, opens the base and draws the sample. No weight is read.
func (f *bakeoffFlags) plan(ctx context.Context, source string) (*bakeoffPlan, error) {
	p := &bakeoffPlan{}
	var err error
	switch {
	case f.base == "":
		return nil, usage(errors.New("--base names the session that the sample is drawn from"))
	case f.sample == "":
		return nil, usage(errors.New("--sample says what to draw, such as worst=20,random=40"))
	case f.variants == "":
		return nil, usage(errors.New("--variant names what to hold against the base"))
	case f.threads < 1:
		return nil, usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	}
	if p.specs, err = bakeoff.ParseStrata(f.sample); err != nil {
		return nil, usage(fmt.Errorf("--sample: %w", err))
	}
	if p.metric, err = bakeoff.MetricByName(f.metric); err != nil {
		return nil, usage(fmt.Errorf("--metric: %w", err))
	}
	levers, err := method.ParseList(f.variants)
	if err != nil {
		return nil, usage(err)
	}
	p.options = sessions.Options{Checkpoint: source, Session: f.session, Threads: f.threads, Program: version, KernelSet: kernels.Best()}
	if f.mem != "" {
		if p.options.MemBytes, err = parseBytes(f.mem); err != nil {
			return nil, usage(fmt.Errorf("--mem: %w", err))
		}
	}
	if source != "demo" {
		if err := present(source); err != nil {
			return nil, err
		}
	}
	if err := present(f.base); err != nil {
		return nil, err
	}
	if p.base, err = sessions.OpenBase(ctx, f.base); err != nil {
		return nil, badInput(err)
	}
	if p.variant, err = baseVariant(p.base.State(), f.base, f.baseVariant); err != nil {
		return nil, err
	}
	name := p.base.State().Variants[p.variant].Name
	for _, v := range levers {
		if v.Name == name {
			return nil, usage(fmt.Errorf("--variant %s is the base variant: there is nothing to compare it with", name))
		}
		if !slices.Contains(p.levers, v.Name) {
			p.levers = append(p.levers, v.Name)
		}
	}
	return p, p.draw(f.base, f.seed)
}

// draw draws the sample and says what has to run.
func (p *bakeoffPlan) draw(path string, seed uint64) (err error) {
	table := p.base.State().Table()
	if p.sample, err = bakeoff.Draw(table, p.variant, p.specs, seed); err != nil {
		return badInput(fmt.Errorf("%s: %w", path, err))
	}
	p.options.Variants = p.levers
	for _, i := range p.sample.Items {
		if p.base.State().Records[p.variant][i].Seq == 0 { // the base session did not come to it
			p.options.Variants = append([]string{table.Arms[p.variant].Name}, p.levers...)
			break
		}
	}
	return nil
}

// baseVariant finds the variant of the base session that the others are held
// against.
func baseVariant(st *sessions.State, path, name string) (int, error) {
	v := 0
	if name != "" {
		known := make([]string, len(st.Variants))
		for i := range st.Variants {
			known[i] = st.Variants[i].Name
		}
		if v = findVariant(st, name); v < 0 {
			return 0, usage(fmt.Errorf("--base-variant %q is not in %s (known: %s)", name, path, strings.Join(known, ", ")))
		}
	}
	for i := range st.Records[v] {
		if r := &st.Records[v][i]; r.Seq != 0 && !r.Failed {
			return v, nil
		}
	}
	return 0, badInput(fmt.Errorf("%s: no base: variant %s has no tap record", path, st.Variants[v].Name))
}

// runBakeoff measures the sample and compares.
func runBakeoff(ctx context.Context, std streams, source string, f bakeoffFlags) error {
	p, err := f.plan(ctx, source)
	if err != nil {
		return err
	}
	feed, err := sessions.StartSample(ctx, p.options, p.base, p.sample.Items, p.how())
	var other *sessions.SampleError
	if errors.As(err, &other) {
		return badInput(err)
	} else if err != nil {
		return err
	}
	debug.SetMemoryLimit(feed.MemBytes() + programBytes)
	st, runErr := follow(ctx, std, feed)
	path := feed.Path()
	if err := feed.Close(); err != nil && runErr == nil {
		runErr = err
	}
	switch {
	case errors.Is(runErr, context.Canceled), runErr == nil && st.Progress.State != sessions.RunFinished:
		return interrupted(path, nil)
	case runErr != nil:
		return runErr
	}
	doc, err := bakeoffOf(p, f.base, path, st)
	if err != nil {
		return err
	}
	if f.json {
		err = printJSON(std.out, doc)
	} else {
		err = printBakeoff(std.out, doc, p.metric)
	}
	if err != nil {
		return err
	}
	if st.Progress.Failed > 0 && len(doc.Failed) > 0 {
		return badInput(fmt.Errorf("%d measurements failed, the first: %s", st.Progress.Failed, doc.Failed[0].Message))
	}
	return doc.verdict(f.allowFallback)
}

// bakeoffDocument is the --json output.
type bakeoffDocument struct {
	Session     string `json:"session"`
	BaseSession string `json:"base_session"`
	Checkpoint  string `json:"checkpoint"`
	Identity    string `json:"identity"`
	Sample      string `json:"sample"`
	BaseTaken   int    `json:"base_taken"` // tensors whose base record is the base session's
	BaseRun     int    `json:"base_run"`   // that were measured under the base variant for this
	*bakeoff.Report
	Failed    []eventLine `json:"failed"`
	Fallbacks []eventLine `json:"fallbacks"`
}

func bakeoffOf(p *bakeoffPlan, base, path string, st *sessions.State) (*bakeoffDocument, error) {
	table := p.base.SampleTable(p.variant, st)
	var levers []int
	for _, name := range p.levers {
		levers = append(levers, table.Arm(name))
	}
	r, err := bakeoff.Compare(table, 0, levers, p.sample, p.metric)
	if err != nil {
		return nil, err
	}
	d := &bakeoffDocument{
		Session: path, BaseSession: base, Checkpoint: st.Meta.SourcePath, Identity: st.Meta.SourceIdentity, Sample: p.how(), Report: r,
		Failed: problems(st, sessions.EventFailed), Fallbacks: problems(st, sessions.EventFallback),
	}
	for _, i := range p.sample.Items {
		if p.base.State().Records[p.variant][i].Seq == 0 {
			d.BaseRun++
		} else {
			d.BaseTaken++
		}
	}
	return d, nil
}

// verdict turns what came out into an error.
func (d *bakeoffDocument) verdict(allowFallback bool) error {
	same := []string{}
	compared := 0
	for i := range d.Levers {
		compared += d.Levers[i].Whole().N
		if d.Levers[i].SameAsBase {
			same = append(same, d.Levers[i].Variant)
		}
	}
	switch {
	case compared == 0:
		return badInput(errors.New("no tensor of the sample can be compared under any variant"))
	case allowFallback:
		return nil
	case len(same) > 0:
		return checkFailed(fmt.Errorf("fell back? %s: every figure equals %s's; --allow-fallback accepts it", strings.Join(same, ", "), d.Base))
	case len(d.Fallbacks) > 0:
		return checkFailed(errors.New("something other than what was requested ran (see fallbacks); --allow-fallback accepts it"))
	}
	return nil
}
