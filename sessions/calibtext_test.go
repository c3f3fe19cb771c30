package sessions

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/quant/demo"
)

// Whether there is a text is what adding a variant would find: a file that is
// named, or the embedded text wherever the tokenizer is the demo's.
func TestNoCalibration(t *testing.T) {
	dir := t.TempDir()
	known, other := filepath.Join(dir, "known"), filepath.Join(dir, "other")
	for _, d := range []string{known, other} {
		if err := (demo.Synth{Layers: 1, Experts: 2, Hidden: 64, Intermediate: 64, Seed: 1}).Write(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(filepath.Join(other, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    Options
		why  string
	}{
		{"the demo", Options{Checkpoint: demo.Label}, ""},
		{"another of the demo's tokenizer", Options{Checkpoint: known}, ""},
		{"another", Options{Checkpoint: other}, "no calibration text"},
		{"a text", Options{Checkpoint: other, Calibration: CalibrationOptions{Corpus: "text.txt"}}, ""},
		{"moments", Options{Checkpoint: other, Calibration: CalibrationOptions{File: "moments"}}, ""},
		{"gone", Options{Checkpoint: filepath.Join(dir, "gone")}, ""},
	} {
		c.o.KernelSet = kernels.Best()
		l := &LiveFeed{job: &Job{calibrator: &jobCalibrator{o: c.o}}, eng: &engine{ctx: t.Context()}}
		if why := l.NoCalibration(); why != "" && c.why == "" {
			t.Errorf("%s: %q", c.name, why)
		}
		l.text.done.Wait()
		if why := l.NoCalibration(); (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
			t.Errorf("%s: %q", c.name, why)
		}
	}
	if why := (&LiveFeed{job: &Job{}}).NoCalibration(); why == "" {
		t.Error("a job that cannot calibrate does not say so")
	}
}
