package sessions

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/candidate"
	"quantscope/quant/demo"
)

// textless finds out, beside the run, whether it has a text to calibrate on.
type textless struct {
	once sync.Once
	done sync.WaitGroup
	why  atomic.Pointer[string] // nil: not known, or it has one
}

// NoCalibration is why calibrated variants cannot be added to the run, "" where they
// can or where that is not known yet: the first call begins to find out, as adding
// one would, and waits for nothing.
func (l *LiveFeed) NoCalibration() string {
	if l.job.calibrator == nil {
		return "this run has nothing to calibrate with"
	}
	l.text.once.Do(func() {
		if j, ok := l.job.calibrator.(*jobCalibrator); ok {
			l.text.done.Go(func() {
				if j.textless(l.eng.ctx) {
					why := "the session has no calibration text: quantize CHECKPOINT --calib FILE names one"
					l.text.why.Store(&why)
				}
			})
		}
	})
	if why := l.text.why.Load(); why != nil {
		return *why
	}
	return ""
}

// textless says whether there is no text, and no moments, for a variant that was
// never calibrated. Whatever else is wrong is said when one is added.
func (j *jobCalibrator) textless(ctx context.Context) bool {
	if o := &j.o.Calibration; o.Corpus != "" || o.File != "" || j.o.Checkpoint == demo.Label {
		return false
	}
	ref, err := candidate.Open(ctx, j.o.Checkpoint, candidate.Options{Set: j.o.KernelSet, Threads: j.o.Threads})
	if err != nil {
		return false
	}
	err = j.inputs(ctx, &calibrate.Setup{}, &readyCalib{ref: ref}, calibWant{})
	_ = ref.Close() // it was only read
	return errors.Is(err, calibrate.ErrNoText)
}
