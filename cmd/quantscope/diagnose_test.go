package main

import (
	"encoding/json"
	"strings"
	"testing"

	"quantscope/sessions"
)

// The document and the text of a diagnosis say the same: arms, the rank bound, tokens
// of experts, damping and the sentence.
func TestDiagnose(t *testing.T) {
	args := []string{"calibrate", "diagnose", "demo", "--variant", "int4-g128+gptq", "--chunks", "1", "--eval", "prose", "--eval-chunks", "3", "--codes", t.TempDir()}
	o := command(t, append(args, "--json")...)
	var d struct {
		Variant, Baseline, Advice, Sentence string
		Corpus                              struct{ Tokens, Chunks int }
		RankBound                           struct{ Need, Tokens int }      `json:"rank_bound"`
		Met                                 bool                            `json:"rank_bound_met"`
		Experts                             struct{ Experts, Inactive int } `json:"tokens_per_expert"`
		Downs, Others                       struct {
			Matrices  int
			DampShare sessions.Figure
		}
		Arms []struct {
			Arm, Effective        string
			Calibrated, Positions int
			KL                    sessions.Figure `json:"kl_mean"`
			Gain                  *struct{ Verdict, Sentence string }
		}
		Beyond *struct{ Verdict, Sentence string } `json:"full_over_gate_up"`
		Notes  []string
	}
	if err := json.Unmarshal([]byte(o.out), &d); err != nil || o.code != exitGood {
		t.Fatalf("exit %d, %v: %s%s", o.code, err, o.out, o.err)
	}
	if d.Variant != "int4-g128+gptq" || d.Baseline != "int4-g128" || d.Corpus.Tokens != 384 || d.RankBound.Need != 1024 || d.RankBound.Tokens != 384 || d.Met || d.Experts.Experts != 64 || d.Experts.Inactive == 0 {
		t.Errorf("%+v", d)
	}
	if d.Advice != "more text" || !strings.HasPrefix(d.Sentence, "more text: down projections have ") || !(d.Downs.DampShare > 0.5) || !(d.Others.DampShare < 0.2) || d.Others.Matrices != 128 || len(d.Notes) == 0 {
		t.Errorf("%+v", d)
	}
	if len(d.Arms) != 3 || d.Arms[0].Gain != nil || d.Arms[1].Gain == nil || d.Arms[2].Gain == nil || d.Arms[1].Calibrated != 128 || d.Arms[2].Positions != 3*383 || d.Beyond == nil || !strings.Contains(d.Beyond.Sentence, "gate and up alone") {
		t.Errorf("%+v, %+v", d.Arms, d.Beyond)
	}
	o = command(t, args...) // the codes are found
	for _, want := range []string{
		"demo: int4-g128+gptq against int4-g128\n", "  calibrated on  calib (demo): 384 tokens in 1 chunk, sha256 ", "rank bound: 384 tokens", "gate,up   ", "full   ", "down projections  ", d.Sentence + "\n", "note  full: int4-g128+gptq: ",
	} {
		if o.code != exitGood || !strings.Contains(o.out, want) {
			t.Errorf("exit %d, no %q in\n%s%s", o.code, want, o.out, o.err)
		}
	}
}

// What cannot be diagnosed is refused with a line.
func TestDiagnoseRefuses(t *testing.T) {
	for _, c := range []struct {
		code int
		args []string
		says string
	}{
		{exitUsage, []string{"demo"}, "--variant names what to diagnose"},
		{exitUsage, []string{"--variant", "int4-g128+gptq"}, "diagnose takes one checkpoint"},
		{exitUsage, []string{"demo", "--variant", "int4-g128"}, "int4-g128 is not calibrated"},
		{exitUsage, []string{"demo", "--variant", "int4-g128+gpqt"}, "gpqt"},
		{exitUsage, []string{"demo", "--variant", "int4-g128+gptq", "--targets", "nothing"}, "nothing"},
		{exitUsage, []string{"demo", "--variant", "int4-g128+gptq", "--damp", "0"}, "--damp 0"},
		{exitUsage, []string{"demo", "--variant", "int4-g128+gptq", "--damp", "2"}, "--damp 2"},
		{exitUsage, []string{"demo", "--variant", "int4-g128+gptq", "--eval-chunks", "-1"}, "--eval-chunks -1"},
		{exitBadInput, []string{"demo", "--variant", "int4-g128+gptq", "--corpus", "calib", "--eval", "calib"}, "evaluation text is in the calibration text"},
		{exitBadInput, []string{"nowhere", "--variant", "int4-g128+gptq"}, "nowhere"},
		{exitUsage, []string{"../../analysis/model/testdata/qwen3_moe", "--variant", "nvfp4+imatrix"}, "--eval names the text"},
		{exitUsage, []string{"demo", "--variant", "int4-g128+gptq", "--corpus", "demo"}, "5 texts"},
	} {
		o := command(t, append([]string{"calibrate", "diagnose", "--codes", t.TempDir()}, c.args...)...)
		if line := strings.TrimSpace(o.err); o.code != c.code || !strings.Contains(line, c.says) || strings.Contains(line, "\n") {
			t.Errorf("%v: exit %d, want %d: %q does not say %q", c.args, o.code, c.code, o.err, c.says)
		}
	}
}
