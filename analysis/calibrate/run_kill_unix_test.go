//go:build unix

package calibrate

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/quant/demo"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
)

// A child process is this test program, told by its environment where to write.
const killEnv = "QUANTSCOPE_TEST_CALIBRATE"

// killTargets are one expert of each of five layers.
const killTargets = `re:model\.layers\.\d\.mlp\.experts\.[0-2]\.`

// killSetup is what children calibrate.
func killSetup(ctx context.Context, dir string) (Setup, func() error, error) {
	ref, err := candidate.Open(ctx, demo.Label, candidate.Options{})
	if err != nil {
		return Setup{}, nil, err
	}
	v, err := method.Parse("int4-g128+gptq")
	if err != nil {
		return Setup{}, nil, err
	}
	sel, err := recipe.Select(ref.Topology, killTargets)
	if err != nil {
		return Setup{}, nil, err
	}
	list, err := corpus.Load(ctx, demo.Calibration, corpus.Options{Tokenizer: ref.Tokenizer, Chunks: 2, Calib: true})
	if err != nil {
		return Setup{}, nil, err
	}
	return Setup{Reference: ref, Variant: v, Targets: killTargets, Matrices: sel.Matrices, Corpus: list[0], Codes: dir, Set: kernels.Best(), Program: "test"}, ref.Close, nil
}

// TestCalibrateChild is no test of its own: under the name of a folder in its
// environment it calibrates into it and tells each matrix and each unit.
func TestCalibrateChild(t *testing.T) {
	dir, ok := os.LookupEnv(killEnv)
	if !ok {
		return
	}
	s, done, err := killSetup(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := done(); err != nil {
			t.Error(err)
		}
	}()
	j, err := Prepare(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	out, err := j.Run(t.Context(), Sink{
		Matrix: func(r Result) error {
			if !r.Again {
				fmt.Println("step")
			}
			return nil
		},
		Unit: func(string, float64) error { fmt.Println("step"); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := out.Store.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestKilled kills the calibrating process again and again, each time after another
// number of steps, until nothing is left to do: the folder is that of a run that
// nobody disturbed, and no kill lost more than one unit.
func TestKilled(t *testing.T) {
	want := t.TempDir()
	s, done, err := killSetup(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := done(); err != nil {
			t.Error(err)
		}
	}()
	into(t, s, want, Sink{})

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	there, kills := 0, 0
	for there < 5 {
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestCalibrateChild$")
		cmd.Env = append(os.Environ(), killEnv+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		after, steps := 2+rng.IntN(14), 0
		lines := bufio.NewScanner(out)
		for steps < after && lines.Scan() {
			if strings.HasPrefix(lines.Text(), "step") {
				steps++
			}
		}
		_ = cmd.Process.Kill() // it may have ended by itself
		if cmd.Wait() != nil {
			kills++
		}
		if !codes.IsStore(dir) {
			continue
		}
		store, err := codes.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		now := 5 - len(store.Missing())
		for _, u := range store.Manifest().Units[:now] {
			if _, _, err := store.Unit(u); err != nil {
				t.Error(err)
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if now < there || now == there && steps >= 10+there { // nine matrices and a unit's end, or a step for each unit read back
			t.Fatalf("%d units are there after %d steps, %d were", now, steps, there)
		}
		there = now
	}
	if kills == 0 {
		t.Error("nobody was killed")
	}
	s.Threads, s.Mem = 1, 48<<20
	into(t, s, dir, Sink{})
	equalFolders(t, "after kills", want, dir)
}
