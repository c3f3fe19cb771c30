package sessions

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/calibrate"
	"quantscope/kernels"
)

// fakeCalib calibrates a fakeJob: a unit for each layer of 16 tensors. What a unit
// chose is kept in a folder by an empty file of the unit's name.
type fakeCalib struct {
	job *Job
	dir string // of codes
	sha string // of the text

	trade  func(t int) calibrate.Trade // nil: plainTrade
	factor float64                     // of taps, 0: 1
	before func(unit string) error     // called as a unit begins; may be nil
	after  func(unit string) error     // called once its codes are kept
	fail   error                       // of preparing

	made []string // units that were computed, in this process
}

// plainTrade is what an undisturbed matrix traded.
func plainTrade(t int) calibrate.Trade {
	return calibrate.Trade{
		Effective: "c1", Input: fmt.Sprintf("layer %d router", t/16), Tokens: 1000, N: 32, Rank: 32, Cond: 100, DampShare: 0.125,
		Codes: 256, Changed: 40, Rel2: 0.02, BaseRel2: 0.0125, Out2: 0.005, BaseOut2: 0.01,
	}
}

// withCalib gives a job calibrated variants c1, c2 and so on.
func withCalib(t testing.TB, job *Job) *fakeCalib {
	f := &fakeCalib{job: job, dir: filepath.Join(t.TempDir(), "codes"), sha: "abcdef0123456789"}
	f.join()
	return f
}

func (f *fakeCalib) join() {
	parse := f.job.Parse
	f.job.Parse = func(name string) (Quantizer, error) {
		if !strings.HasPrefix(name, "c") {
			return parse(name)
		}
		return Quantizer{Calibrated: true, Variant: Variant{Name: name, Effective: name, Scheme: "fake", BitsPerWeight: 4.5, Multipliers: []string{"1.0"}}}, nil
	}
	f.job.calibrator = f
}

func (f *fakeCalib) prepare(_ context.Context, w calibWant) (preparedCalib, error) {
	if f.fail != nil {
		return nil, f.fail
	}
	return &fakeReady{f: f, w: w}, nil
}

type fakeReady struct {
	f *fakeCalib
	w calibWant
}

func (r *fakeReady) units() (units []string) {
	for t := 0; t < len(r.f.job.Tensors); t += 16 {
		units = append(units, fmt.Sprintf("layer %d", t/16))
	}
	return units
}

func (r *fakeReady) setup() CalibrationSetup {
	return CalibrationSetup{
		Variant: r.w.id, Corpus: "text", CorpusSource: "text.txt", CorpusSHA: r.f.sha, Chunks: 4, Tokens: 1000, Damp: 0.01, Inputs: InputsSequential, Codes: r.f.dir,
		Units: r.units(), Rank: calibrate.RankBound{Inner: 32, Experts: 16, TopK: 2, Tokens: 1000, Need: 256}, Program: r.w.env.Program, KernelSet: r.w.env.KernelSet,
		ParamsOfAll: int64(len(r.f.job.Tensors)) * 256,
	}
}

func (r *fakeReady) notes() []calibNote { return nil }
func (r *fakeReady) close() error       { return nil }

func (r *fakeReady) run(ctx context.Context, sink calibrate.Sink) (*calibrate.Outcome, error) {
	f := r.f
	o := &calibrate.Outcome{Params: r.setup().ParamsOfAll, Rank: r.setup().Rank, Warnings: []string{"few tokens"}}
	for i, unit := range r.units() {
		if f.before != nil {
			if err := f.before(unit); err != nil {
				return o, err
			}
		}
		if err := sink.Pause(ctx); err != nil {
			return o, err
		}
		sink.Progress(calibrate.Progress{Unit: unit, Units: len(r.units()), Done: i, Step: "quantizing", Of: 100, At: 50, Tokens: int64(2000 * i)})
		kept := filepath.Join(f.dir, r.w.variant+" "+unit)
		_, err := os.Stat(kept)
		again := err == nil
		if !again {
			f.made = append(f.made, unit)
		}
		sink.Counts(calibrate.Counts{Layer: i, Tokens: 1000, TopK: 2, Expert: slices.Repeat([]int64{125}, 16)})
		for t := 16 * i; t < min(16*i+16, len(f.job.Tensors)); t++ {
			if err := r.matrix(ctx, t, again, o, sink); err != nil {
				return o, err
			}
		}
		if !again {
			if err := os.MkdirAll(f.dir, 0o755); err != nil {
				return o, err
			}
			if err := os.WriteFile(kept, nil, 0o644); err != nil {
				return o, err
			}
		}
		if f.after != nil {
			if err := f.after(unit); err != nil {
				return o, err
			}
		}
		if err := sink.Unit(unit, 0.5); err != nil {
			return o, err
		}
	}
	return o, nil
}

func (r *fakeReady) matrix(ctx context.Context, t int, again bool, o *calibrate.Outcome, sink calibrate.Sink) error {
	f := r.f
	m, err := f.job.Source.Read(ctx, t, make([]byte, f.job.Source.Need(t)))
	if err != nil {
		return err
	}
	trade := plainTrade(t)
	if f.trade != nil {
		trade = f.trade(t)
	}
	if trade.Why != "" && !trade.Chosen {
		o.FellBack += 256
		o.Fallbacks = append(o.Fallbacks, calibrate.Fallback{Matrix: t, Effective: trade.Effective, Reason: trade.Why})
	} else if !trade.Chosen {
		o.Calibrated++
		o.Changed += trade.Changed
	}
	factor := f.factor
	if factor == 0 {
		factor = 1
	}
	tap := fakeTap(m, factor)
	tap.HasMoments, tap.SumW, tap.SumW3, tap.SumW4 = false, 0, 0, 0 // codes know nothing of them
	return sink.Matrix(calibrate.Result{Matrix: t, Source: kernels.Matrix{Element: m.Element, Rows: m.Rows, Cols: m.Cols, Data: m.Data}, Tap: tap, Trade: trade, Again: again})
}
