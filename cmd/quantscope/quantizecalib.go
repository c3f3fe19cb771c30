package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/model"
	"quantscope/quant/codes"
	"quantscope/quant/method"
	"quantscope/sessions"
	"quantscope/views"
)

// calibFlags are the flags of runs that may calibrate.
type calibFlags struct {
	calibration sessions.CalibrationOptions
	only        string
	fromCodes   string
	given       []string // of these, those that were given; no flag
	variant     bool     // --variant was given; no flag
	targets     bool     // --targets was given; no flag
}

// bind adds the flags.
func (f *calibFlags) bind(cmd *cobra.Command) {
	fl, c := cmd.Flags(), &f.calibration
	fl.StringVar(&c.Corpus, "calib", "", "what calibrated variants are calibrated on: a text, JSON lines, ids, or what corpus build wrote (default: the embedded text, where the tokenizer is the demo's)")
	fl.IntVar(&c.Chunk, "calib-chunk", 0, "tokens of a chunk of a text (512)")
	fl.IntVar(&c.Chunks, "calib-chunks", 0, "at most so many chunks (0: all)")
	fl.StringVar(&c.File, "calibration", "", "moments that were measured before: a file of calibrate, or an imatrix of llama.cpp")
	fl.StringVar(&f.only, "calibrate", "", "projections that are calibrated, such as gate,up; the others stay at the baseline (default: all)")
	fl.Float64Var(&c.Damp, "damp", 0, "what is added to a Hessian's diagonal, as a share of its mean (0.01)")
	fl.StringVar(&c.Codes, "codes", "", "folder of codes to make or to go on with (default: beside the session)")
}

// bindExport adds those that go with an export.
func (f *calibFlags) bindExport(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.fromCodes, "from-codes", "", "folder of codes to write --out from, without calibrating again; what it lacks is calibrated first")
}

// note remembers which flags were given.
func (f *calibFlags) note(cmd *cobra.Command) {
	f.given = nil
	for _, name := range []string{"calib", "calib-chunk", "calib-chunks", "calibration", "calibrate", "damp", "codes", "from-codes"} {
		if fl := cmd.Flags().Lookup(name); fl != nil && fl.Changed {
			f.given = append(f.given, name)
		}
	}
	f.variant, f.targets = cmd.Flags().Changed("variant"), cmd.Flags().Changed("targets")
}

// origin takes over what a folder of codes says of itself, before the names of
// variants are read.
func (f *calibFlags) origin(variants, targets *string) (from *sessions.CodesOrigin, err error) {
	if f.fromCodes == "" {
		return nil, nil
	}
	if f.calibration.Codes != "" {
		return nil, usage(errors.New("--codes and --from-codes exclude each other: the latter names the folder"))
	}
	is, err := sessions.ReadCodes(f.fromCodes)
	if err != nil {
		return nil, calibrationError(err)
	}
	if !f.variant {
		*variants = is.Variant
	} else if v, err := method.Parse(*variants); err != nil || v.Name != is.Variant {
		return nil, badInput(fmt.Errorf("%s holds codes of %s, and --variant is %s", f.fromCodes, is.Variant, *variants))
	}
	if !f.targets {
		*targets = is.Targets
	} else if *targets != is.Targets {
		return nil, badInput(fmt.Errorf("%s holds codes of the targets %q, and --targets is %q", f.fromCodes, orDefault(is.Targets), *targets))
	}
	f.calibration.Codes, f.calibration.FromCodes = f.fromCodes, true
	return &is, nil
}

func orDefault(targets string) string {
	if targets == "" {
		return "default"
	}
	return targets
}

// check refuses what cannot be meant, and puts the rest into the options.
func (f *calibFlags) check(o *sessions.Options, variants []method.Variant) error {
	calibrated := 0
	for _, v := range variants {
		if v.Calibrated() {
			calibrated++
		}
	}
	c := f.calibration
	switch {
	case calibrated == 0 && len(f.given) > 0 && o.Session == "":
		return usage(fmt.Errorf("--%s is for calibrated variants, such as int4-g128+gptq, and %s is none", f.given[0], strings.Join(o.Variants, ", ")))
	case calibrated > 1 && c.Codes != "":
		return usage(fmt.Errorf("--codes names the folder of one calibrated variant, and %d are asked for", calibrated))
	case c.File != "" && c.Corpus != "":
		return usage(errors.New("--calib and --calibration exclude each other: the latter was measured on a text already"))
	case c.Chunk < 0 || c.Chunks < 0:
		return usage(errors.New("--calib-chunk and --calib-chunks count tokens and chunks: none is negative"))
	case math.IsNaN(c.Damp) || c.Damp < 0 || c.Damp > 1 || c.Damp == 0 && slices.Contains(f.given, "damp"):
		return usage(fmt.Errorf("--damp %v: it is a share of the diagonal's mean, above 0 and up to 1", c.Damp))
	}
	for _, name := range strings.Split(f.only, ",") {
		if name = strings.TrimSpace(name); name != "" {
			c.Only = append(c.Only, name)
		} else if f.only != "" {
			return usage(fmt.Errorf("--calibrate %q: an empty name of a projection", f.only))
		}
	}
	o.Calibration = c
	return nil
}

// calibrationError gives errors of calibrated runs their exit codes.
func calibrationError(err error) error {
	var small *model.MemoryError
	var differ *codes.DifferError
	var contradict *sessions.CodesError
	var run *sessions.CalibrationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &small):
		return usage(fmt.Errorf("--mem is too little: %w", err))
	case errors.Is(err, codes.ErrBusy):
		return environment(err)
	case errors.Is(err, sessions.ErrPartCalibrated), errors.Is(err, calibrate.ErrNoText), errors.Is(err, sessions.ErrCorpus):
		return usage(err)
	case errors.As(err, &differ), errors.As(err, &contradict):
		return badInput(err)
	case errors.As(err, &run) && exitCode(run.Err) == exitUsage:
		return badInput(err)
	}
	return err
}

// gateFailed is an error where a calibrated variant failed its gate.
func gateFailed(st *sessions.State) error {
	for v := range st.Variants {
		if s, ok := st.CalibrationSummary(v); ok && s.GateFailed {
			return checkFailed(fmt.Errorf("%s: fidelity gate %s", s.Variant, s.Gate))
		}
	}
	return nil
}

// fellBack says how much of the parameters is something else than was asked for, of
// the variant of which that is the most.
func fellBack(st *sessions.State) string {
	shares := map[int]float64{}
	tensors := map[int]int{}
	most := -1
	for _, f := range st.Fallbacks() {
		shares[f.Variant] += f.ShareParams
		tensors[f.Variant] += len(f.Tensors)
		if most < 0 || shares[f.Variant] > shares[most] {
			most = f.Variant
		}
	}
	if most < 0 {
		return ""
	}
	s := sessions.Summarize(st, most)
	of := int(s.Tensors + s.Failed + s.Pending)
	return fmt.Sprintf("%s: %d of %s, %s of the parameters", s.Variant, tensors[most], counted(of, "matrix", "matrices"), percent(sessions.Figure(shares[most])))
}

// printCalibrated prints what calibration traded.
func printCalibrated(t *textReport, st *sessions.State) {
	var rows [][]string
	var list []sessions.CalibrationSummary
	for v := range st.Variants {
		s, ok := st.CalibrationSummary(v)
		if !ok {
			continue
		}
		list = append(list, s)
		tr := s.Trades
		experts := []string{"", "", ""}
		if r := s.Routed; r != nil {
			experts = []string{fmt.Sprint(r.Experts), fmt.Sprintf("%d/%.0f/%d", r.Min, r.Median, r.Max), fmt.Sprint(r.Inactive)}
		}
		traded := []string{"–", "–", "–", "–", "–"} // no matrix was calibrated: there is nothing to take means of
		if tr.Calibrated > 0 {
			traded = []string{
				sig(tr.BaseOut2, 6) + " → " + sig(tr.Out2, 6), percent(s.OutRatio), sig(tr.BaseRel2, 6) + " → " + sig(tr.Rel2, 6), percent(s.WeightRatio),
				percent(share(tr.Changed, tr.Codes)),
			}
		}
		fell := "–" // it is counted at the end
		if !math.IsNaN(float64(s.FellBackShare)) {
			fell = percent(s.FellBackShare)
		}
		rows = append(rows, slices.Concat([]string{s.Variant, fmt.Sprint(tr.Calibrated)}, traded, []string{fell}, experts))
	}
	if len(rows) == 0 {
		return
	}
	t.table([]string{"calibrated", ">matrices", ">output error", ">of baseline", ">weight error", ">of baseline", ">changed", ">fell back", ">experts", ">least/median/most tokens", ">inactive"}, rows)
	for _, s := range list {
		on := fmt.Sprintf("%d tokens of %s", s.Tokens, views.Clean(s.Corpus))
		if s.SHA256 != "" { // an importance matrix keeps no text
			on += fmt.Sprintf(" (sha256 %.12s)", s.SHA256)
		}
		if s.Inputs != sessions.InputsSequential {
			on = fmt.Sprintf("moments that were measured before (%.12s), %s", s.Inputs, on)
		}
		t.line("calibrated %s on %s, %d of %s, %d read back, codes in %s", s.Variant, on, s.UnitsDone, counted(s.Units, "unit", "units"), s.UnitsAgain, views.Clean(s.Codes))
		if k := s.Rank; k.Experts > 0 {
			met := "met"
			if !s.RankMet {
				met = "NOT met: Hessians of down projections are rank-deficient, and damping decides the rest"
			}
			t.line("rank bound %s: tokens %d, needed %d·%d/%d = %d: %s", s.Variant, k.Tokens, k.Inner, k.Experts, k.TopK, k.Need, met)
		}
		if s.Gate != "" {
			t.line("gate       %s: %s", s.Variant, views.Clean(s.Gate))
		}
	}
	t.line("")
}

func share(part, whole int64) sessions.Figure {
	return sessions.Figure(float64(part) / float64(whole))
}
