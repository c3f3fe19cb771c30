package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/diagnose"
	"quantscope/analysis/yardstick"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/demo"
	"quantscope/quant/method"
	"quantscope/sessions"
	"quantscope/views"
)

// diagnoseFlags are the flags of calibrate diagnose.
type diagnoseFlags struct {
	variant, targets, corpus, codes, mem string
	eval                                 []string
	threads, chunk, calibChunks, chunks  int
	damp                                 float64
	seed                                 uint64
	json                                 bool
}

func newDiagnose(std streams) *cobra.Command {
	var f diagnoseFlags
	cmd := &cobra.Command{
		Use:   "diagnose CHECKPOINT --variant V",
		Short: "Ask what holds a calibrated variant back: too little text, or the solver",
		Long: `diagnose makes a calibrated variant three times, as its baseline, with gate and up
projections alone calibrated, and with all, and measures KL divergence of the three on
text that none was calibrated on. Gate and up see all tokens, an expert's down
projection only those routed to it: where calibrating these as well gains little and
damping is most of their solution, more text would help; where damping is little, only
a better solver would. Codes are kept and found again.`,
		Example: `  quantscope calibrate diagnose demo --variant int4-g128+gptq
  quantscope calibrate diagnose ./Model --variant nvfp4+mse_ge1+gptq --corpus calib.txt --eval held-out.txt`,
		Args: exactly(1, "diagnose takes one checkpoint: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runDiagnose(cmd.Context(), std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.variant, "variant", "", "the calibrated variant, such as int4-g128+gptq")
	fl.StringVar(&f.targets, "targets", "", "what it quantizes: default, linear, all, or GLOB or re:REGEXP, separated by commas")
	fl.StringVar(&f.corpus, "corpus", "", "text, JSON lines, file of ids or embedded corpus to calibrate on (default: the demo's, for its tokenizer)")
	fl.StringArrayVar(&f.eval, "eval", nil, "what to measure on, once for each (default: the demo's five, for its tokenizer)")
	fl.IntVar(&f.chunk, "chunk", 0, "tokens of a chunk of a text (512)")
	fl.IntVar(&f.calibChunks, "chunks", 0, "at most so many chunks of --corpus (0: all)")
	fl.IntVar(&f.chunks, "eval-chunks", 0, "at most so many chunks of each of --eval (0: all)")
	fl.Float64Var(&f.damp, "damp", 0.01, "share of the mean of a Hessian's diagonal that is added to it")
	fl.StringVar(&f.codes, "codes", "", "folder that keeps the codes (default: in the user's cache folder)")
	fl.StringVar(&f.mem, "mem", "", "memory, such as 512MiB (default 2GiB)")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of the bootstrap")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	return cmd
}

// request checks the flags.
func (f *diagnoseFlags) request(std streams) (r diagnose.Request, err error) {
	switch {
	case f.variant == "":
		return r, usage(errors.New("--variant names what to diagnose, such as int4-g128+gptq"))
	case f.threads < 1:
		return r, usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	case f.chunk < 0 || f.calibChunks < 0 || f.chunks < 0:
		return r, usage(fmt.Errorf("--chunk %d, --chunks %d, --eval-chunks %d: want 0 or more", f.chunk, f.calibChunks, f.chunks))
	case !(f.damp > 0 && f.damp <= 1):
		return r, usage(fmt.Errorf("--damp %g: it is a share of the diagonal's mean, above 0 and up to 1", f.damp))
	}
	if r.Variant, err = method.Parse(f.variant); err != nil {
		return r, usage(err)
	}
	if !r.Variant.Calibrated() {
		return r, usage(fmt.Errorf("--variant %s is not calibrated, so that there is nothing to diagnose", r.Variant.Name))
	}
	mem := int64(0)
	if f.mem != "" {
		if mem, err = parseBytes(f.mem); err != nil {
			return r, usage(fmt.Errorf("--mem: %w", err))
		}
	}
	r.Targets = f.targets
	r.For = calibrate.ForOptions{Damp: f.damp, Dir: f.codes, Set: kernels.Best(), Threads: f.threads, Mem: mem, Program: version}
	r.Measure = yardstick.Options{Set: kernels.Best(), Threads: f.threads, Mem: mem, Seed: f.seed, Program: version}
	p := newProgress(std)
	say := func(line string) {
		if time.Since(p.last) >= p.every {
			p.last = time.Now()
			p.print(views.Clean(line))
		}
	}
	r.For.Progress = func(variant string, at calibrate.Progress) { say(sessions.CalibratingStage(variant, at)) }
	r.Measure.Progress = func(at yardstick.Progress) { say(fmt.Sprintf("%s  %d/%d chunks", at.Stage, at.Chunks, at.Of)) }
	return r, nil
}

func runDiagnose(ctx context.Context, std streams, path string, f diagnoseFlags) error {
	r, err := f.request(std)
	if err != nil {
		return err
	}
	if path != demo.Label {
		if err := present(path); err != nil {
			return err
		}
	}
	ref, err := candidate.Open(ctx, path, candidate.Options{Set: r.For.Set, Threads: r.For.Threads})
	if err != nil {
		return measureError(err)
	}
	defer ref.Close()
	r.Reference = ref
	if r.For.Corpus, r.Eval, err = f.texts(ctx, ref); err != nil {
		return measureError(err)
	}
	rep, err := diagnose.Run(ctx, r)
	if err != nil {
		return measureError(err)
	}
	if f.json {
		return printJSON(std.out, diagnosisOf(path, rep))
	}
	return printDiagnosis(std.out, path, rep)
}

// texts loads what to calibrate on and what to measure on; nil for the embedded
// text for calibration.
func (f *diagnoseFlags) texts(ctx context.Context, ref *candidate.Candidate) (calib *corpus.Corpus, eval []*corpus.Corpus, err error) {
	o := corpus.Options{Tokenizer: ref.Tokenizer, Chunk: f.chunk, Chunks: f.calibChunks, Vocab: ref.Arch.Vocab, Calib: true}
	name := f.corpus
	if name == "" && f.calibChunks > 0 {
		name = demo.Calibration
	}
	if name != "" {
		list, err := corpus.Load(ctx, name, o)
		if err != nil {
			return nil, nil, err
		}
		if len(list) != 1 {
			return nil, nil, fmt.Errorf("%w: --corpus %s are %d texts, and one is calibrated on", sessions.ErrCorpus, name, len(list))
		}
		calib = list[0]
	}
	o.Chunks, o.Calib = f.chunks, false
	names := f.eval
	if len(names) == 0 {
		names = []string{demo.Label}
	}
	for _, n := range names {
		list, err := corpus.Load(ctx, n, o)
		switch {
		case err != nil && len(f.eval) == 0:
			return nil, nil, fmt.Errorf("%w: --eval names the text to measure on, and the embedded ones are of the demo's tokenizer", sessions.ErrNoCorpus)
		case err != nil:
			return nil, nil, err
		}
		eval = append(eval, list...)
	}
	return calib, eval, nil
}

// diagnosis is the --json output of calibrate diagnose.
type diagnosis struct {
	Checkpoint string              `json:"checkpoint"`
	Variant    string              `json:"variant"`
	Baseline   string              `json:"baseline"`
	Corpus     codes.Corpus        `json:"corpus"`
	Rank       calibrate.RankBound `json:"rank_bound"`
	Met        bool                `json:"rank_bound_met"`
	Experts    calibrate.Spread    `json:"tokens_per_expert"`
	Downs      calibrate.Means     `json:"downs"`
	Others     calibrate.Means     `json:"others"`
	Arms       []diagnosedArm      `json:"arms"`
	Beyond     *measureGain        `json:"full_over_gate_up,omitempty"`
	Advice     calibrate.Advice    `json:"advice"`
	Sentence   string              `json:"sentence"`
	Notes      []string            `json:"notes"`
}

// diagnosedArm is one of the three.
type diagnosedArm struct {
	Arm        string          `json:"arm"`
	Effective  string          `json:"effective"`
	Calibrated int             `json:"calibrated"`
	Positions  int64           `json:"positions"`
	KL         sessions.Figure `json:"kl_mean"`
	KLErr      sessions.Figure `json:"kl_stderr"`
	Top1       sessions.Figure `json:"top1"`
	Gain       *measureGain    `json:"gain,omitempty"`
}

func diagnosisOf(path string, r *diagnose.Report) diagnosis {
	d := diagnosis{
		Checkpoint: path, Variant: r.Variant, Baseline: r.Baseline, Corpus: r.Text, Rank: r.Found.Rank, Met: r.Found.Rank.Met(), Experts: r.Found.Experts,
		Downs: r.Found.Downs, Others: r.Found.Others, Advice: r.Found.Advice(), Sentence: r.Found.Sentence(), Notes: append([]string{}, r.Notes...),
	}
	gain := func(g yardstick.Gain, says string) *measureGain {
		if g.Pair == nil {
			return nil
		}
		return &measureGain{g.Verdict, sessions.Figure(g.At), sessions.Figure(g.Low), sessions.Figure(g.High), says}
	}
	for i, a := range r.Arms {
		k := diagnosedArm{a.Label, a.Effective, a.Calibrated, a.Positions, sessions.Figure(a.KL), sessions.Figure(a.KLErr), sessions.Figure(a.Top1), nil}
		if g := [...]yardstick.Gain{{}, r.OfGateUp, r.OfFull}[i]; g.Pair != nil {
			k.Gain = gain(g, a.Label+" is "+g.String())
		}
		d.Arms = append(d.Arms, k)
	}
	d.Beyond = gain(r.Beyond, "full is "+strings.ReplaceAll(r.Beyond.String(), "its baseline", "gate and up alone"))
	return d
}

// printDiagnosis prints it as plain text.
func printDiagnosis(w io.Writer, path string, r *diagnose.Report) error {
	d := diagnosisOf(path, r)
	t := newReport(w)
	t.line("%s: %s against %s", views.Clean(path), d.Variant, d.Baseline)
	t.line("  calibrated on  %s (%s): %d tokens in %s, sha256 %.12s", views.Clean(d.Corpus.Name), views.Clean(d.Corpus.Source), d.Corpus.Tokens, counted(d.Corpus.Chunks, "chunk", "chunks"), d.Corpus.SHA256)
	t.line("  %s", d.Rank.Text())
	if e := &d.Experts; e.Experts > 0 {
		t.line("  tokens of an expert: %d least, %g median, %d most; %d of %d inactive, %d given fewer than their down projections have columns", e.Min, e.Median, e.Max, e.Inactive, e.Experts, e.Deficient)
	}
	t.line("")
	var rows [][]string
	for i := range d.Arms {
		a := &d.Arms[i]
		rows = append(rows, []string{a.Arm, fmt.Sprint(a.Calibrated), nats(float64(a.KL)), nats(float64(a.KLErr)), share3(a.Top1), gainText(a.Gain)})
	}
	t.table([]string{"arm", ">matrices calibrated", ">KL mean, nats", ">± se", ">top-1", ">KL gone [95 %]"}, rows)
	if d.Beyond != nil {
		t.line("%s", d.Beyond.Sentence)
	}
	t.line("")
	rows = nil
	for _, k := range []struct {
		name string
		m    *calibrate.Means
	}{{"down projections", &d.Downs}, {"others", &d.Others}} {
		if k.m.Matrices > 0 {
			rows = append(rows, []string{
				k.name, fmt.Sprint(k.m.Matrices), fmt.Sprintf("%g", k.m.Tokens), fmt.Sprintf("%g", k.m.Columns), fmt.Sprint(k.m.Deficient), share3(sessions.Figure(k.m.DampShare)),
				fmt.Sprintf("%.3g → %.3g", float64(k.m.BaseOut2), float64(k.m.Out2)), fmt.Sprintf("%.3g → %.3g", float64(k.m.BaseRel2), float64(k.m.Rel2)),
			})
		}
	}
	if rows != nil {
		t.table([]string{"of the full arm", ">matrices", ">tokens", ">columns", ">singular", ">damping", ">output error²", ">weight error²"}, rows)
		t.line("tokens, columns and damping's share of the solution are medians; errors are means, baseline → calibrated, on the calibration text")
		t.line("")
	}
	t.line("%s", d.Sentence)
	for _, n := range d.Notes {
		t.line("note  %s", views.Clean(n))
	}
	return t.err
}
