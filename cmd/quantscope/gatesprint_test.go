package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
	"quantscope/analysis/gates/suite"
	"quantscope/sessions"
)

// gatesFixture is a run with everything that output speaks of: a probe that falls
// short, one that is worse, one with errors, checks in each state, drafts.
func gatesFixture() (*gates.Report, *sessions.GateRun) {
	probe := func(id, group string, need float64, cases ...suite.Case) suite.Probe {
		return suite.Probe{ID: id, Group: group, Grader: "exact", Passes: 1, Need: need, Cases: cases}
	}
	turn := func(id, q string) suite.Case { return suite.Case{ID: id, Turns: []suite.Turn{{User: q}}} }
	s := &gates.Setup{
		Suite: "tiny", Path: "tiny.yaml", SHA256: strings.Repeat("ab", 32), Program: "0.1.0", Set: "avx512",
		Probes: []suite.Probe{probe("sums", "arithmetic", 1, turn("a", "What is 1+1?"), turn("b", "What is 2+2?")), probe("korean", "scripts", 0.5, turn("k", "한국어"))},
		Arms:   []gates.Arm{{Label: "bf16", Spec: "demo", Role: gates.Baseline}, {Label: "bad\x1b[31m", Spec: "nvfp4", Role: gates.Candidate}, {Label: "bf16 again", Spec: "demo", Role: gates.Placebo}},
	}
	result := func(arm, p, c int, fault grade.Fault, text, reason string) *gates.Result {
		return &gates.Result{Arm: arm, Probe: p, Case: c, Answer: grade.Answer{Replies: []chat.Reply{{Text: text}}}, Verdict: grade.Verdict{Passed: fault == "", Fault: fault, Reason: reason}}
	}
	run := &sessions.GateRun{Setup: s, End: &gates.End{State: "finished"}, Results: []*gates.Result{
		result(0, 0, 0, "", "2", "2"), result(0, 0, 1, "", "4", "4"), result(0, 1, 0, "", "네", "script"),
		result(1, 0, 0, grade.WrongAnswer, "3", "3 is not 2"), result(1, 0, 1, grade.Erred, "", "timeout"), result(1, 1, 0, grade.Replacement, "네\ufffd\x00", "1 replacement character"),
	}}
	rep := &gates.Report{
		Setup: s,
		Checks: []gates.Check{
			{ID: gates.CheckChanged, Arm: 1, State: gates.CheckPassed, Message: "answers differ", Figures: map[string]float64{"differ": 0.5}},
			{ID: gates.CheckCached, Arm: 1, State: gates.CheckFailed, Message: "128 of 128 tokens were remembered"},
			{ID: gates.CheckRank, Arm: -1, State: gates.CheckUnknown, Message: "no log probabilities are told"},
			{ID: gates.CheckMatchedK, Arm: -1, State: gates.CheckIdle, Message: "nothing is drafted"},
		},
		Rows: []gates.Row{
			{Probe: 0, Arm: 0, Passed: 2, Of: 2, All: 2, Low: 0.342, High: 1, OK: true},
			{Probe: 0, Arm: 1, Passed: 0, Of: 2, All: 2, Low: 0, High: 0.658, Erred: 1},
			{Probe: 1, Arm: 0, Passed: 1, Of: 1, All: 1, Low: 0.207, High: 1, OK: true},
			{Probe: 1, Arm: 1, Passed: 0, Of: 1, All: 1, Low: 0, High: 0.793, Replacement: 1, Events: 1},
		},
		Pairs: []gates.Pair{
			{Probe: 0, Arm: 1, OnlyBase: 2, P: 0.5, Low: -1, High: 0, Band: 0.9, Noise: 0, Worse: true, Verdict: "worse on sums"},
			{Probe: -1, Arm: 1, OnlyBase: 3, P: math.NaN(), Noise: -1, Verdict: "0 of 3 against 3 of 3"},
		},
		Meters: []*gates.Meter{
			{Arm: 0, Identity: chat.Identity{Engine: "quantscope", Model: "demo", Speculative: 2}, Tokens: 300, Seconds: 2, Counted: &chat.Counters{Drafts: 100, Drafted: 200, Accepted: 150, Speculative: 2, ByPosition: []int64{90, 60}}},
			{Arm: 1, Tokens: 10, Seconds: 0, Counted: &chat.Counters{Drafts: 10, Drafted: 20, Accepted: 15, Speculative: 2}},
		},
		Fails: []gates.Fail{{Kind: gates.FailNeed, Probe: 0, Arm: 1, Message: "bad: sums: 0 of 2"}, {Kind: gates.FailCheck, Probe: -1, Arm: 1, Message: "cached"}},
	}
	return rep, run
}

func TestGatesText(t *testing.T) {
	rep, run := gatesFixture()
	var b strings.Builder
	if err := printGates(&b, rep, gatesOf("s.qscope", rep, run, 2)); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	for _, want := range []string{
		"k 2: 75.0 % accepted, 2.50 tokens a step", "150 tok/s",
		"  FAILED   cached bad␛[31m           128 of 128 tokens were remembered\n",
		"  unknown  rank                      no log probabilities are told\n",
		"  nothing to check: matched-k\n",
		"sums    100 %  2/2 [34, 100]      0/2 [0, 66] !▼E        ·\n",
		"korean   50 %  1/1 [21, 100]      0/1 [0, 79] !�         ·\n",
		"against bf16, answer by answer", "  bad␛[31m  0 of 3 against 3 of 3\n    sums: worse on sums\n",
		"    answer  네\ufffd␀\n", "shut  need       bad: sums: 0 of 2\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %q in\n%s", want, out)
		}
	}
	// Of the candidate drafts are counted and no time is known: acceptance alone is not told.
	if strings.Count(out, "accepted") != 1 {
		t.Errorf("acceptance stands without a rate:\n%s", out)
	}
	if strings.ContainsRune(out, '\x1b') || strings.ContainsRune(out, 0) {
		t.Error("control characters reach the terminal")
	}
	rep.Setup.Probes[1].Against = true
	b.Reset()
	if err := printGates(&b, rep, gatesOf("x.qscope", rep, run, 0)); err != nil || !strings.Contains(b.String(), "over cases; in sum without probes that ask for the baseline's own text)") {
		t.Errorf("%v: a probe that is not in the sum is not named in\n%s", err, b.String())
	}
}

// What passed for several arms is one line, what failed is a line an arm; a check is
// idle where no arm had anything to check.
func TestGatesChecksOfArms(t *testing.T) {
	d := &gatesDocument{Checks: []gatesCheck{
		{ID: "rank", Candidate: "a", State: gates.CheckPassed, Message: "rank 1"}, {ID: "rank", Candidate: "b", State: gates.CheckPassed, Message: "rank 2"},
		{ID: "rank", Candidate: "c", State: gates.CheckFailed, Message: "rank 300"}, {ID: "rank", Candidate: "d", State: gates.CheckFailed, Message: "rank 400"},
		{ID: "acceptance", Candidate: "a", State: gates.CheckIdle}, {ID: "acceptance", Candidate: "b", State: gates.CheckPassed, Message: "whole"}, {ID: "nonce", Candidate: "a", State: gates.CheckIdle},
	}}
	var b strings.Builder
	d.checkLines(newReport(&b))
	want := "" +
		"  FAILED   rank c                    rank 300\n" +
		"  FAILED   rank d                    rank 400\n" +
		"  passed   rank                      2 arms; a: rank 1\n" +
		"  passed   acceptance b              whole\n" +
		"  nothing to check: nonce\n"
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestGatesDocument(t *testing.T) {
	rep, run := gatesFixture()
	text, err := json.Marshal(gatesOf("s.qscope", rep, run, 1))
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Suite  string
		State  string
		Probes []struct {
			Suite, Probe, Candidate string
			Passed, Passes          int
			Low, High               float64
		}
		Arms []struct {
			Candidate   string
			Speculation *struct {
				Acceptance float64
				Length     float64 `json:"accepted_length"`
				Rate       float64 `json:"tokens_per_s"`
			}
		}
		Pairs []struct {
			P     any
			Noise *int `json:"placebo_discordant"`
		}
		Failing []struct{ Candidate, Output string }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.Suite != "tiny" || d.State != "finished" || len(d.Probes) != 4 || d.Probes[1].Candidate != "bad\x1b[31m" || d.Probes[1].Passes != 2 || d.Probes[0].Low != 0.342 {
		t.Errorf("%+v", d)
	}
	if s := d.Arms[0].Speculation; s == nil || s.Acceptance != 0.75 || s.Length != 2.5 || s.Rate != 150 {
		t.Errorf("speculation of the baseline: %+v", s)
	}
	if d.Arms[1].Speculation != nil {
		t.Error("acceptance is told without tokens/s")
	}
	if d.Pairs[1].P != "NaN" || d.Pairs[1].Noise != nil || d.Pairs[0].Noise == nil {
		t.Errorf("pairs: %+v", d.Pairs)
	}
	if len(d.Failing) != 1 || d.Failing[0].Output != "3" {
		t.Errorf("failing answers: %+v, want the first of the candidate alone", d.Failing)
	}
}

func TestGatesJUnit(t *testing.T) {
	rep, run := gatesFixture()
	path := filepath.Join(t.TempDir(), "out.xml")
	if err := writeJUnit(path, gatesOf("s.qscope", rep, run, 5)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got junitSuites
	if err := xml.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	// Checks: passed, failed, and two that are skipped. Probes: two good ones of the
	// baseline; of the candidate one with an error and one that falls short.
	if got.Tests != 8 || got.Failures != 2 || got.Errors != 1 || got.Skipped != 2 {
		t.Errorf("tests %d, failures %d, errors %d, skipped %d", got.Tests, got.Failures, got.Errors, got.Skipped)
	}
	if strings.ContainsAny(string(text), "\x00\x1b") {
		t.Error("characters that XML forbids are in the file")
	}
	if files, _ := os.ReadDir(filepath.Dir(path)); len(files) != 1 {
		t.Errorf("%d files are left", len(files))
	}
	err = writeJUnit(filepath.Join(t.TempDir(), "none", "out.xml"), gatesOf("s.qscope", rep, run, 5))
	if exitCode(err) != exitEnvironment {
		t.Errorf("no folder: %v", err)
	}
}

// TestGatesSaid holds that results are printed though the file for them cannot be
// written.
func TestGatesSaid(t *testing.T) {
	rep, run := gatesFixture()
	f := gatesFlags{json: true, junit: filepath.Join(t.TempDir(), "absent", "x.xml")}
	var out bytes.Buffer
	err := f.say(&out, rep, gatesOf("x.qscope", rep, run, 0))
	if exitOf(err) != exitEnvironment || !json.Valid(out.Bytes()) {
		t.Errorf("%v, printed %q", err, out.String())
	}
}

// TestGatesProbesAgain holds that every --probe counts.
func TestGatesProbesAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.qscope")
	for _, args := range [][]string{{"--probe", "facts", "--probe", "absent"}, {"--probe", "absent", "--probe", "facts"}} {
		if o := command(t, append([]string{"gates", "demo", "--session", path}, args...)...); o.code == exitGood || !strings.Contains(o.err, "called absent") {
			t.Errorf("%v: exit %d, %s", args, o.code, o.err)
		}
	}
}

func TestGatesVerdict(t *testing.T) {
	rep, _ := gatesFixture()
	for on, want := range map[string]int{"need": exitCheckFailed, "check": exitCheckFailed, "regression": exitGood, "error": exitGood, "none": exitGood} {
		f := gatesFlags{failOn: []string{on}}
		if err := f.verdict(rep); exitOf(err) != want {
			t.Errorf("--fail-on %s: %v, want exit %d", on, err, want)
		}
	}
	all := gatesFlags{failOn: []string{"need", "check"}}
	if err := all.verdict(rep); err == nil || !strings.Contains(err.Error(), "bad: sums: 0 of 2 (and 1 more)") {
		t.Errorf("%v", err)
	}
	for _, bad := range [][]string{{"nothing"}, {"none", "need"}} {
		f := gatesFlags{failOn: bad}
		if _, err := f.shutBy(); exitOf(err) != exitUsage {
			t.Errorf("--fail-on %v: %v", bad, err)
		}
	}
}

func exitOf(err error) int {
	if err == nil {
		return exitGood
	}
	return exitCode(err)
}

func TestGatesErrors(t *testing.T) {
	for kind, want := range map[chat.Kind]int{
		chat.Absent: exitEnvironment, chat.Timeout: exitEnvironment, chat.Status: exitEnvironment, chat.Cut: exitEnvironment,
		chat.Malformed: exitEnvironment, chat.Wrong: exitEnvironment, chat.Refused: exitBadInput,
	} {
		if got := exitCode(gatesError(&chat.Error{At: "http://x", Kind: kind, Reason: "no"})); got != want {
			t.Errorf("%s: exit %d, want %d", kind, got, want)
		}
	}
	if got := exitCode(gatesError(errors.Join(suite.ErrSuite))); got != exitBadInput {
		t.Errorf("a suite that cannot be read: exit %d", got)
	}
}

func TestGatesUsage(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nobody":      {[]string{}, "there is nobody to ask"},
		"two":         {[]string{"demo", "demo"}, "takes one checkpoint"},
		"no baseline": {[]string{"--no-baseline", "--server", "http://127.0.0.1:1"}, "--no-baseline goes with a checkpoint"},
		"checkpoint":  {[]string{"--candidate", "nvfp4", "--server", "http://127.0.0.1:1"}, "--candidate nvfp4: name the checkpoint"},
		"model":       {[]string{"demo", "--model", "x"}, "--model and --key-env go with --server"},
		"key":         {[]string{"demo", "--key-env", "X"}, "--model and --key-env go with --server"},
		"fail-on":     {[]string{"demo", "--fail-on", "any"}, "want need, regression, check, error, or none alone"},
		"force":       {[]string{"demo", "--force"}, "--force goes with --junit"},
		"k":           {[]string{"demo", "--speculate", "9"}, "--speculate 9"},
		"activations": {[]string{"demo", "--activations", "f16"}, "none of f32, bf16"},
		"timeout":     {[]string{"demo", "--timeout", "0s"}, "--timeout 0s"},
		"passes":      {[]string{"demo", "--passes", "-1"}, "--passes -1"},
	} {
		if o := command(t, append([]string{"gates"}, c.args...)...); o.code != exitUsage || !strings.Contains(o.err, c.want) {
			t.Errorf("%s: exit %d, %q, want %q", name, o.code, o.err, c.want)
		}
	}
}

// What prints a session says which gates it holds, and how far they came.
func TestGatesOfASession(t *testing.T) {
	_, run := gatesFixture()
	broken := *run
	broken.End, broken.Results = nil, run.Results[:2]
	var b strings.Builder
	if err := printRun(&b, "a.qscope", &sessions.State{Gates: []*sessions.GateRun{run, &broken}}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  gates     suite tiny: bf16, bad␛[31m, bf16 again: finished, 6 of 9 answers\n",
		"  gates     suite tiny: bf16, bad␛[31m, bf16 again: interrupted, 2 of 9 answers\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
