package sessions

import (
	"strings"
	"testing"

	"quantscope/quant/demo"
)

func TestNoCalibration(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		st   State
		why  string
	}{
		{"the demo", Options{Checkpoint: demo.Label}, State{}, ""},
		{"another", Options{Checkpoint: "/data/ckpt"}, State{}, "no calibration text"},
		{"a text", Options{Checkpoint: "/data/ckpt", Calibration: CalibrationOptions{Corpus: "text.txt"}}, State{}, ""},
		{"moments", Options{Checkpoint: "/data/ckpt", Calibration: CalibrationOptions{File: "moments"}}, State{}, ""},
		{"calibrated before", Options{Checkpoint: "/data/ckpt"}, State{Calibrations: []*Calibration{{Setup: CalibrationSetup{Tokens: 7}}}}, ""},
	} {
		l := &LiveFeed{job: &Job{calibrator: &jobCalibrator{o: c.o}}, st: &c.st}
		if why := l.NoCalibration(); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q", c.name, why)
		}
	}
	if why := (&LiveFeed{job: &Job{}, st: &State{}}).NoCalibration(); why == "" {
		t.Error("a job that cannot calibrate does not say so")
	}
}
