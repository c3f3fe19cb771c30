package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"quantscope/quant/demo"
	"quantscope/sessions"
	"quantscope/views"
)

// colours are the SGR parameters of an escape sequence that set a colour.
var sgr = regexp.MustCompile("\x1b\\[([0-9;]*)m")

func coloured(out string) []string {
	var found []string
	for _, m := range sgr.FindAllStringSubmatch(out, -1) {
		for _, p := range strings.Split(m[1], ";") {
			n, _ := strconv.Atoi(p)
			if n >= 30 && n <= 38 || n >= 40 && n <= 48 || n >= 90 && n <= 107 {
				found = append(found, m[0])
			}
		}
	}
	return found
}

// The terminal situations of case C42, by name, so that one that is added to the
// matrix without a check here is noticed.
func TestTerminalMatrix(t *testing.T) {
	checks := map[string]func(t *testing.T){
		"stdout to a pipe, no tty": func(t *testing.T) {
			o := command(t, "demo", "--variant", "nvfp4")
			if o.code != exitGood || strings.Contains(o.out, "\x1b") || !strings.Contains(o.err, "terminal") {
				t.Errorf("%+v", o)
			}
		},
		"NO_COLOR set": func(t *testing.T) {
			term := openTerminal(t, 80, 24, []string{"TERM=xterm-256color", "NO_COLOR=1"}, "--variant", "nvfp4")
			term.Until(0, "finished")
			term.Press("q")
			if code := term.leave(); code != exitGood {
				t.Errorf("exit %d", code)
			}
			if c := coloured(term.Written()); len(c) > 0 {
				t.Errorf("%d colour sequences, the first %q", len(c), c[0])
			}
		},
		"dumb terminal": func(t *testing.T) {
			term := openTerminal(t, 80, 24, []string{"TERM=dumb"}, "--variant", "nvfp4")
			if code := term.exit(); code != exitGood {
				t.Errorf("exit %d", code)
			}
			term.Close() // then all that it wrote has been read
			if out := term.Written(); strings.Contains(out, "\x1b") || !strings.Contains(out, "nvfp4") {
				t.Errorf("not a plain report: %q", out)
			}
		},
		"no truecolor": func(t *testing.T) {
			term := openTerminal(t, 80, 24, []string{"TERM=xterm", "COLORTERM="}, "--variant", "nvfp4")
			term.Until(0, "finished")
			term.Press("q")
			if code := term.leave(); code != exitGood {
				t.Errorf("exit %d", code)
			}
			for _, no := range []string{"38;2;", "48;2;"} {
				if strings.Contains(term.Written(), no) {
					t.Errorf("%q is written", no)
				}
			}
		},
		"one column":             func(t *testing.T) { smallTerminal(t, 1, 1) },
		"narrow":                 func(t *testing.T) { smallTerminal(t, 20, 6) },
		"zero size reported":     func(t *testing.T) { smallTerminal(t, 0, 0) },
		"interrupt during a run": interruptedRun,
		// A worker's panic needs a kernel that panics, so it is tried where one can be
		// put in: TestWorkerPanicOnTerminal of package tui, on a terminal as here.
		"panic in a worker": func(t *testing.T) {
			source, err := os.ReadFile(filepath.Join("..", "..", "tui", "worker_linux_test.go"))
			if err != nil || !strings.Contains(string(source), "func TestWorkerPanicOnTerminal(") {
				t.Errorf("tui has no TestWorkerPanicOnTerminal (%v)", err)
			}
		},
	}
	data, err := os.ReadFile(filepath.Join(caseDir(t, "C42"), "matrix.json"))
	if err != nil {
		t.Fatal(err)
	}
	var matrix struct{ Situations []struct{ Name string } }
	if err := json.Unmarshal(data, &matrix); err != nil {
		t.Fatal(err)
	}
	if len(matrix.Situations) != len(checks) {
		t.Errorf("%d situations, %d checks", len(matrix.Situations), len(checks))
	}
	for _, s := range matrix.Situations {
		check, ok := checks[s.Name]
		if !ok {
			t.Errorf("no check of %q", s.Name)
			continue
		}
		t.Run(s.Name, check)
	}
}

// smallTerminal opens a session where nothing fits, goes through its screens and
// quits.
func smallTerminal(t *testing.T, cols, rows uint16) {
	session := filepath.Join(t.TempDir(), "demo.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4", "--session", session); o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	term := openTerminal(t, cols, rows, []string{"TERM=xterm-256color"}, session)
	term.UntilRaw(0, "\x1b[?1049h")
	term.Press("1248?qq")
	if code := term.leave(); code != exitGood {
		t.Errorf("exit %d", code)
	}
}

// interruptedRun presses ctrl+c in mid-run: exit 130 within two seconds, and the
// session holds what was measured.
func interruptedRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "big")
	synth := demo.Synth{Layers: 2, Experts: 32, Hidden: 64, Intermediate: 1024, Seed: 1}
	if err := synth.Write(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	session := filepath.Join(t.TempDir(), "run.qscope")
	term := openTerminal(t, 80, 24, []string{"TERM=xterm-256color"}, dir, "--variant", "nvfp4+sweep", "--session", session, "--threads", "1", "--mem", "1B") // a row at a time: long enough for a key
	term.Until(0, "/192")
	term.Press("\x03")
	start := time.Now()
	if code := term.leave(); code != exitInterrupted {
		t.Errorf("exit %d", code)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("workers stopped after %v", d)
	}
	info, err := sessions.Inspect(session)
	if err != nil {
		t.Fatal(err)
	}
	if info.Progress.Done >= 192 {
		t.Errorf("the run was over before the key: %+v", info.Progress)
	}
	if !strings.Contains(term.Written(), "goes on") {
		t.Errorf("the way to go on is not said: %q", tail(term.Written(), 500))
	}
}

// Quitting a run that is not finished is what a person chose, so the exit code is
// 0; what is left to do and how is said.
func TestQuitDuringRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "big")
	synth := demo.Synth{Layers: 2, Experts: 32, Hidden: 64, Intermediate: 1024, Seed: 1}
	if err := synth.Write(t.Context(), dir, nil); err != nil {
		t.Fatal(err)
	}
	session := filepath.Join(t.TempDir(), "run.qscope")
	term := openTerminal(t, 80, 24, []string{"TERM=xterm-256color"}, dir, "--variant", "nvfp4+sweep", "--session", session, "--threads", "1", "--mem", "1B") // a row at a time: long enough for a key
	term.Until(0, "/192")
	term.Press("qq")
	if code := term.leave(); code != exitGood {
		t.Errorf("exit %d", code)
	}
	info, err := sessions.Inspect(session)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("unfinished: %d of 192 are measured and kept; --session %s goes on", info.Progress.Done, session)
	if !strings.Contains(term.Written(), want) {
		t.Errorf("%q is not said: %q", want, tail(term.Written(), 500))
	}
}

// C41 at four widths: no line of a report is wider than its terminal.
func TestReportsFitTheTerminal(t *testing.T) {
	path := filepath.Join(caseDir(t, "C41"), "model.safetensors")
	for _, cols := range []uint16{20, 40, 80, 200} {
		for _, args := range [][]string{{"inspect", path, "--tensors"}, {"lint", path}} {
			term := openTerminal(t, cols, 50, []string{"TERM=xterm-256color"}, args...)
			term.exit()
			term.Close()
			for _, line := range strings.Split(term.Written(), "\n") {
				if w := views.Width(strings.TrimRight(line, "\r")); w > int(cols) {
					t.Errorf("%s at %d columns: a line of %d: %q", args[0], cols, w, line)
				}
			}
		}
	}
}
