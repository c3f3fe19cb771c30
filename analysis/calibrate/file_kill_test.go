package calibrate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/method"
)

// fileChildEnv makes TestFileChild measure into the file that it names, through
// the variant before it, if any.
const fileChildEnv = "QUANTSCOPE_TEST_MOMENTS"

// TestFileChild is what TestFileKilled runs in a process of its own. It tells its
// steps.
func TestFileChild(t *testing.T) {
	what := os.Getenv(fileChildEnv)
	if what == "" {
		return
	}
	through, path, _ := strings.Cut(what, " ")
	step := func(what string) { fmt.Println("step", what) }
	if err := measureInto(t.Context(), path, through, step); err != nil {
		t.Fatal(err)
	}
}

// measureInto measures some of the demo's text.
func measureInto(ctx context.Context, path, through string, step func(string)) (err error) {
	ref, err := candidate.Open(ctx, demo.Label, candidate.Options{Set: kernels.Best(), Threads: 2})
	if err != nil {
		return err
	}
	defer ref.Close()
	list, err := corpus.Load(ctx, demo.Calibration, corpus.Options{Tokenizer: ref.Tokenizer, Chunks: 2, Calib: true})
	if err != nil {
		return err
	}
	sink := Sink{
		Progress: func(p Progress) { step(p.Step + " " + p.Unit) },
		Unit:     func(unit string, _ float64) error { step("kept " + unit); return nil },
	}
	var w *FileWriter
	if through == "-" {
		j, err := PrepareMeasure(ctx, MeasureSetup{Reference: ref, Corpus: list[0], Hessians: true, Threads: 2, Program: "test"})
		if err != nil {
			return err
		}
		if w, err = CreateFile(path, j.Header(), j.Units(), list[0].Chunks); err != nil {
			return err
		}
		if err := j.Run(ctx, w, sink); err != nil {
			return err
		}
	} else {
		v, err := method.Parse(through)
		if err != nil {
			return err
		}
		s := Setup{Reference: ref, Variant: v, Targets: "default", Globals: export.Shared, Corpus: list[0], Codes: CodesBeside(path), Threads: 2, Program: "test"}
		if s.Matrices, _, err = candidate.SelectTargets(ref, ""); err != nil {
			return err
		}
		j, err := Prepare(ctx, s)
		if err != nil {
			return err
		}
		units, err := j.Kept()
		if err != nil {
			return err
		}
		if w, err = CreateFile(path, j.FileHeader(), units, list[0].Chunks); err != nil {
			return err
		}
		o, err := j.RunInto(ctx, w, sink)
		if err != nil {
			return err
		}
		if err := o.Store.Close(); err != nil {
			return err
		}
	}
	step("committing")
	return w.Commit(ctx)
}

// Killed at any of its steps, again and again, the file comes out byte for byte as
// if nothing had happened, and no unit that was kept is measured again.
func TestFileKilled(t *testing.T) {
	for _, through := range []string{"-", "int4-g32+gptq"} {
		whole := filepath.Join(t.TempDir(), "whole")
		var steps []string
		if err := measureInto(t.Context(), whole, through, func(s string) { steps = append(steps, s) }); err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(whole)
		if err != nil {
			t.Fatal(err)
		}
		killed := filepath.Join(t.TempDir(), "killed")
		kept := map[string]bool{}
		kills := 0
		for {
			told, done := runChild(t, through, killed, 2+3*kills)
			for _, s := range told {
				what, unit, _ := strings.Cut(s, " ")
				if what == "looking" && kept[unit] && through != "-" {
					t.Errorf("%s is measured again", unit)
				}
				kept[unit] = kept[unit] || what == "kept"
			}
			if done {
				break
			}
			if kills++; kills > 40 {
				t.Fatalf("%s: does not come to its end; %d units are kept", through, len(kept))
			}
			if _, err := OpenFile(t.Context(), killed); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("a file that is not whole: %v", err)
			}
		}
		got, err := os.ReadFile(killed)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: other bytes after %d kills", through, kills)
		}
		if kills < 3 || !slices.Contains(steps, "committing") {
			t.Errorf("%s: killed %d times", through, kills)
		}
		if _, err := os.Stat(killed + partsSuffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the parts are left: %v", err)
		}
	}
}

// runChild runs a measurement and kills it after so many steps, or lets it end.
func runChild(t *testing.T, through, path string, steps int) (told []string, done bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFileChild$", "-test.v")
	cmd.Env = append(os.Environ(), fileChildEnv+"="+through+" "+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var other []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		s, ok := strings.CutPrefix(lines.Text(), "step ")
		if !ok {
			other = append(other, lines.Text())
			continue
		}
		if told = append(told, s); len(told) == steps {
			_ = cmd.Process.Kill() // it may have ended by itself
		}
	}
	err = cmd.Wait()
	if err != nil && len(told) < steps {
		t.Fatalf("the child ended with %v: %s", err, strings.Join(other, "\n"))
	}
	return told, err == nil
}
