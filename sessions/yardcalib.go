package sessions

import (
	"context"
	"fmt"
	"slices"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/candidate"
	"quantscope/analysis/yardstick"
	"quantscope/quant/codes"
	"quantscope/quant/demo"
	"quantscope/quant/method"
)

// StageCalibrating begins the stage of a measurement that makes codes; behind it
// stand the variant and how far it is.
const StageCalibrating = "calibrating"

// calibrate makes or finds the codes of calibrated variants that are named, on the
// text of the request.
func (p *parties) calibrate(r *MeasureRequest) func(context.Context, *candidate.Candidate, method.Variant, string) (*codes.Store, error) {
	return func(ctx context.Context, ref *candidate.Candidate, v method.Variant, targets string) (*codes.Store, error) {
		o := calibrate.ForOptions{Dir: r.Codes, Set: r.KernelSet, Threads: r.Threads, Mem: r.MemBytes, Program: r.Program, Pause: r.Pause, Warn: r.Warn}
		switch texts := p.options.Calib; len(texts) {
		case 0: // the embedded one, as much of it as is asked for; without it the error is of who calibrates
			if list, err := p.texts(ctx, []string{demo.Calibration}, r, true); err == nil {
				o.Corpus = list[0]
				if err := p.disjoint(list); err != nil {
					return nil, err
				}
			}
		case 1:
			o.Corpus = texts[0]
		default:
			return nil, fmt.Errorf("%w: %d texts are named, and it is calibrated on one: corpus build makes one of several", ErrCorpus, len(texts))
		}
		if r.Progress != nil {
			o.Progress = func(variant string, at calibrate.Progress) {
				r.Progress(yardstick.Progress{Stage: CalibratingStage(variant, at), Party: -1})
			}
		}
		return calibrate.ForCandidate(o)(ctx, ref, v, targets)
	}
}

// CalibratingStage says how far a calibration is, for lines of progress.
func CalibratingStage(variant string, at calibrate.Progress) string {
	s := fmt.Sprintf("%s %s  %d/%d  %s: %s", StageCalibrating, variant, at.Done, at.Units, at.Unit, at.Step)
	if at.Of > 0 {
		s += fmt.Sprintf(" %d %%", 100*at.At/at.Of)
	}
	return s
}

// addBaselines adds what calibrated candidates are held against, where nobody asked
// for it: without it nothing tells a calibration that did nothing.
func (p *parties) addBaselines(o candidate.Options) error {
	for _, c := range slices.Clone(p.candidates) {
		if c.Calibrated == "" || c.Baseline == "" || slices.ContainsFunc(p.candidates, func(b *candidate.Candidate) bool { return b.Presents(c.Baseline) }) {
			continue
		}
		b, err := candidate.BaselineOf(p.ref, c, o)
		if err != nil {
			return err
		}
		if err := p.add(b); err != nil {
			return err
		}
	}
	return nil
}
