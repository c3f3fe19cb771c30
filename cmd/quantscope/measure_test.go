package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/sessions"
)

// measureJSON is what the tests read of measure --json.
type measureJSON struct {
	Session    string
	Activation string `json:"activations"`
	Positions  int64
	Of         int64
	Vocab      int
	Corpora    []struct {
		Name, SHA256   string
		Chunks, Tokens int
	}
	Floor      *measuredJSON
	Candidates []measuredJSON
	Pairs      []struct {
		A, B, Sentence string
		DeltaKL        sessions.Figure `json:"delta_kl"`
		Equal          bool
	}
	Gates []struct {
		Gate, Candidate, Message string
		Passed                   bool
	}
	Attribution []struct {
		Candidate, Message string
		Rows               []string
		Whole, Sum         sessions.Figure
	}
	Probes []struct {
		Candidate string
		Name      string
		Output    sessions.Figure `json:"output_error"`
	}
	Base []struct{ Candidate, Block string }
}

type measuredJSON struct {
	Candidate, Of, Effective string
	BitsPerWeight            sessions.Figure `json:"bits_per_weight"`
	KLMean                   sessions.Figure `json:"kl_mean"`
	KLStderr                 sessions.Figure `json:"kl_stderr"`
	KLP99                    sessions.Figure `json:"kl_p99"`
	KLMax                    sessions.Figure `json:"kl_max"`
	Top1, NLL, PPL           sessions.Figure
	Positions, NaN, Infinite int64
	Corpora                  map[string]struct {
		KLMean sessions.Figure `json:"kl_mean"`
	}
	Worst []struct {
		KL             sessions.Figure
		Before, Target string
	}
	Findings   []struct{ ID, Message string }
	Calibrated string
	Added      bool
	Gain       *struct {
		Verdict, Sentence string
		Gain, Low, High   sessions.Figure
	}
}

// measureDoc runs measure without a cache and reads its document.
func measureDoc(t *testing.T, want int, args ...string) measureJSON {
	t.Helper()
	o := command(t, append([]string{"measure", "--json", "--cache", "none"}, args...)...)
	var d measureJSON
	if err := json.Unmarshal([]byte(o.out), &d); err != nil || o.code != want {
		t.Fatalf("%v: exit %d, want %d: %v: %s", args, o.code, want, err, o.err)
	}
	return d
}

// On the demo: the reference is at 0, the floor far below what is quantized, a method
// that searches scales better than one that does not, and all of that is in the
// session, from which the same command reports without a pass.
func TestMeasureDemo(t *testing.T) {
	session := filepath.Join(t.TempDir(), "kl.qscope")
	args := []string{"demo", "--candidate", "nvfp4,nvfp4+mse_ge1", "--candidate", "same=ref", "--corpus", "prose", "--corpus", "chat", "--chunks", "4", "--session", session}
	d := measureDoc(t, exitGood, args...)
	if d.Positions != 8*383 || d.Of != d.Positions || len(d.Corpora) != 2 || d.Corpora[1].Name != "chat" || d.Vocab != 1024 {
		t.Errorf("%d of %d positions, corpora %+v, vocabulary %d", d.Positions, d.Of, d.Corpora, d.Vocab)
	}
	if len(d.Candidates) != 3 || d.Floor == nil {
		t.Fatalf("%d candidates, floor %v", len(d.Candidates), d.Floor)
	}
	rtn, mse, same := d.Candidates[0], d.Candidates[1], d.Candidates[2]
	if same.Candidate != "same" || same.KLMean != 0 || same.KLMax != 0 || same.Top1 != 1 {
		t.Errorf("the reference against itself: %+v", same)
	}
	if !(d.Floor.KLMean > 0 && d.Floor.KLMean < 0.1*mse.KLMean) {
		t.Errorf("floor %v, candidate %v", d.Floor.KLMean, mse.KLMean)
	}
	if !(rtn.KLMean > 0.015 && rtn.KLMean < 0.06 && mse.KLMean < rtn.KLMean && rtn.KLP99 > rtn.KLMean && rtn.KLMax > rtn.KLP99 && rtn.KLStderr > 0) {
		t.Errorf("%+v and %+v", rtn, mse)
	}
	if !(rtn.BitsPerWeight > 4.5 && rtn.BitsPerWeight < 16) || math.Abs(math.Log(float64(rtn.PPL))-float64(rtn.NLL)) > 1e-12 {
		t.Errorf("%v bits a weight, perplexity %v of %v", rtn.BitsPerWeight, rtn.PPL, rtn.NLL)
	}
	whole := (rtn.Corpora["prose"].KLMean + rtn.Corpora["chat"].KLMean) / 2
	if math.Abs(float64(whole-rtn.KLMean)) > 1e-12 {
		t.Errorf("corpora of as many positions have the mean %v, all %v", whole, rtn.KLMean)
	}
	if len(rtn.Worst) != 5 || rtn.Worst[0].KL != rtn.KLMax || rtn.Worst[0].Target == "" {
		t.Errorf("worst %+v", rtn.Worst)
	}
	found := false
	for _, p := range d.Pairs {
		if p.A == "nvfp4" && p.B == "nvfp4+mse_ge1" {
			found = true
			if p.DeltaKL != mse.KLMean-rtn.KLMean && math.Abs(float64(p.DeltaKL-(mse.KLMean-rtn.KLMean))) > 1e-12 {
				t.Errorf("%+v", p)
			}
			if !strings.HasPrefix(p.Sentence, "nvfp4+mse_ge1 is better than nvfp4 by ") || !strings.Contains(p.Sentence, " of 8 chunks") {
				t.Error(p.Sentence)
			}
		}
	}
	if !found {
		t.Errorf("no pair with the baseline: %+v", d.Pairs)
	}

	// A report of what is there has the same figures, and costs no pass.
	before, err := os.ReadFile(session)
	if err != nil {
		t.Fatal(err)
	}
	if again := measureDoc(t, exitGood, args...); again.Candidates[0].KLMean != rtn.KLMean || again.Pairs[0].Sentence != d.Pairs[0].Sentence || len(again.Gates) != len(d.Gates) {
		t.Errorf("reported again: %+v", again.Candidates[0])
	}
	st, err := savedState(session)
	if err != nil || len(st.Yards) != 1 || len(st.Variants) != 0 || len(st.Tensors) != 240 || st.Yards[0].End.State != sessions.RunFinished {
		t.Fatalf("%v: %d measurements, %d variants, %d tensors", err, len(st.Yards), len(st.Variants), len(st.Tensors))
	}
	if len(before) == 0 || st.LastSeq == 0 {
		t.Error("an empty session")
	}

	// Another candidate is a measurement of its own; a run over the same checkpoint
	// goes on with the session.
	measureDoc(t, exitGood, "demo", "--candidate", "fp8", "--corpus", "prose", "--chunks", "1", "--session", session)
	if o := command(t, "quantize", "demo", "--variant", "nvfp4", "--session", session); o.code != exitGood {
		t.Fatalf("quantize: %s", o.err)
	}
	if st, err = savedState(session); err != nil || len(st.Yards) != 2 || st.Progress.Done != 240 {
		t.Errorf("%v: %d measurements, %+v", err, len(st.Yards), st.Progress)
	}
	if o := command(t, "sessions", "info", session); o.code != exitGood || !strings.Contains(o.out, "KL") || !strings.Contains(o.out, "nvfp4+mse_ge1") {
		t.Errorf("sessions info says nothing of it: %s %s", o.out, o.err)
	}
}

// The text has the table with the floor, the sentences and the gates.
func TestMeasureText(t *testing.T) {
	o := command(t, "measure", "demo", "--candidate", "nvfp4,nvfp4+mse", "--corpus", "code", "--chunks", "2", "--cache", "none", "--keep", "*.layers.1.*", "--probe")
	if o.code != exitGood {
		t.Fatal(o.err)
	}
	for _, want := range []string{
		"KL mean, nats", "· bf16 activations (floor)", "the ruler's floor:", "KL by confidence", "KL by class", "nvfp4+mse and nvfp4 are not told apart: ",
		"↳ nvfp4 keep *.layers.1.*", "where it comes from", "output error ‖(Ŵ−W)x‖/‖Wx‖ of nvfp4", "worst positions of nvfp4", "gate finite", "2 chunks, 768 tokens",
	} {
		if !strings.Contains(o.out, want) {
			t.Errorf("%q is not in\n%s", want, o.out)
		}
	}
	for _, line := range strings.Split(o.out, "\n") {
		if strings.ContainsFunc(line, func(r rune) bool { return r < 0x20 || r == 0x7f || r == 0xfffd }) {
			t.Errorf("a control character in %q", line)
		}
	}
	if !strings.Contains(o.err, "2/2 chunks") {
		t.Errorf("progress: %s", o.err)
	}
}

// A token that is a part of a character is written as its bytes, once.
func TestMeasureQuotesTokens(t *testing.T) {
	o := command(t, "measure", "demo", "--candidate", "nvfp4@all", "--corpus", "multi", "--chunks", "1", "--cache", "none", "--no-floor")
	if o.code != exitGood || !strings.Contains(o.out, `reference "\x`) || strings.Contains(o.out, `\\x`) {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}

// Commas separate variants, with targets or not, and patterns of targets.
func TestSplitVariants(t *testing.T) {
	for spec, want := range map[string][]string{
		"nvfp4":                       {"nvfp4"},
		"nvfp4, nvfp4+mse":            {"nvfp4", "nvfp4+mse"},
		"nvfp4@linear,fp8@all,mxfp4":  {"nvfp4@linear", "fp8@all", "mxfp4"},
		"nvfp4@*.q_proj,*.k_proj,fp8": {"nvfp4@*.q_proj,*.k_proj", "fp8"},
		"nvfp4,nvpf4":                 {"nvfp4", "nvpf4"},
		"./a,b":                       {"./a,b"},
		"A=nvfp4,fp8":                 {"A=nvfp4,fp8"},
	} {
		if got := splitVariants(spec); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", spec, got, want)
		}
	}
}

// A session of nothing but a measurement says so wherever it is listed.
func TestSessionsListMeasurements(t *testing.T) {
	dir := t.TempDir()
	session := filepath.Join(dir, "kl.qscope")
	if o := command(t, "measure", "demo", "--candidate", "nvfp4,fp8", "--corpus", "math", "--chunks", "1", "--cache", "none", "--session", session); o.code != exitGood {
		t.Fatal(o.err)
	}
	if o := command(t, "sessions", "list", dir); !strings.Contains(o.out, "KL of 2 candidates (finished)") {
		t.Errorf("%s%s", o.out, o.err)
	}
	var d struct {
		Sessions []struct {
			Measurements []struct {
				Reference, State string
				Candidates       []string
			}
		}
	}
	o := command(t, "sessions", "list", dir, "--json")
	if err := json.Unmarshal([]byte(o.out), &d); err != nil || len(d.Sessions) != 1 || len(d.Sessions[0].Measurements) != 1 {
		t.Fatalf("%v: %s", err, o.out)
	}
	if m := d.Sessions[0].Measurements[0]; m.Reference != "demo" || m.State != "finished" || !slices.Equal(m.Candidates, []string{"nvfp4", "fp8"}) {
		t.Errorf("%+v", m)
	}
	if o := command(t, "sessions", "info", session); !strings.Contains(o.out, "KL to demo: nvfp4, fp8: finished") || strings.Contains(o.out, "worst/mean") {
		t.Errorf("%s", o.out)
	}
}

// The floor is made with the activations that the measurement has not.
func TestMeasureFloorWords(t *testing.T) {
	o := command(t, "measure", "demo", "--candidate", "nvfp4", "--corpus", "math", "--chunks", "1", "--cache", "none", "--activations", "bf16")
	if o.code != exitGood || !strings.Contains(o.out, "· f32 activations (floor)") || !strings.Contains(o.out, "own weights, activations not rounded;") {
		t.Errorf("exit %d: %s%s", o.code, o.out, o.err)
	}
}

// Memory that no chunk fits in is a flag at fault, and the message says what is needed.
func TestMeasureMemory(t *testing.T) {
	o := command(t, "measure", "demo", "--candidate", "nvfp4", "--corpus", "math", "--chunks", "1", "--cache", "none", "--mem", "1KiB")
	if o.code != exitUsage || !strings.Contains(o.err, "--mem is too little: one chunk takes ") {
		t.Errorf("exit %d: %s", o.code, o.err)
	}
}

// Parts are summed, a ceiling fails, and a file of log probabilities that is written
// is a reference to which the model is at its rounding.
func TestMeasureParts(t *testing.T) {
	dir := t.TempDir()
	base := filepath.Join(dir, "base.kld")
	d := measureDoc(t, exitCheckFailed, "demo", "--candidate", "all=nvfp4@all", "--attribute", "--ceiling", "0.001", "--corpus", "prose", "--chunks", "1", "--half", "--write-kl-base", base)
	if len(d.Attribution) != 1 || len(d.Attribution[0].Rows) < 4 || !strings.Contains(d.Attribution[0].Message, "parts") {
		t.Errorf("%+v", d.Attribution)
	}
	var sum sessions.Figure
	for _, c := range d.Candidates[1:] {
		if c.Of != "all" {
			t.Errorf("%s is of %q", c.Candidate, c.Of)
		}
		sum += c.KLMean
	}
	if a := d.Attribution[0]; math.Abs(float64(sum-a.Sum)) > 1e-9 || a.Whole != d.Candidates[0].KLMean {
		t.Errorf("rows sum up to %v: %+v", sum, a)
	}
	if i := slices.IndexFunc(d.Gates, func(g struct {
		Gate, Candidate, Message string
		Passed                   bool
	}) bool {
		return g.Gate == "kl-ceiling" && g.Candidate == "all"
	}); i < 0 || d.Gates[i].Passed {
		t.Errorf("%+v", d.Gates)
	}
	f := measureDoc(t, exitGood, "demo", "--candidate", "same=ref", "--kl-base", base)
	if len(f.Base) == 0 || !strings.Contains(f.Base[0].Block, "Same top p: 100.000") || !(f.Candidates[0].KLMean < 1e-4) || f.Positions != 191 {
		t.Errorf("%d positions, %+v", f.Positions, f.Candidates[0])
	}
	if o := command(t, "measure", "demo", "--candidate", "nvfp4", "--cache", "none", "--corpus", "prose", "--write-kl-base", base); o.code != exitUsage || !strings.Contains(o.err, "--force overwrites it") {
		t.Errorf("exit %d: %s", o.code, o.err)
	}
}

// A row of attribution that is its candidate over again is not made, and that is
// said.
func TestMeasureKeepsNothing(t *testing.T) {
	o := command(t, "measure", "demo", "--json", "--cache", "none", "--corpus", "math", "--chunks", "2", "--candidate", "nvfp4", "--candidate", "nvfp4@all",
		"--keep", "lm_head.weight", "--session", filepath.Join(t.TempDir(), "kl.qscope"))
	var d measureJSON
	if err := json.Unmarshal([]byte(o.out), &d); err != nil || o.code != exitGood {
		t.Fatalf("exit %d: %v: %s", o.code, err, o.err)
	}
	var names []string
	for _, c := range d.Candidates {
		names = append(names, c.Candidate)
	}
	if want := []string{"nvfp4", "nvfp4@all", "nvfp4@all keep lm_head.weight"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	if !strings.Contains(o.err, "keep lm_head.weight changes nothing in nvfp4: no row is added") {
		t.Errorf("%s", o.err)
	}
}

// A measurement that is broken off keeps what was scored and says how to go on.
func TestMeasureInterrupted(t *testing.T) {
	session := filepath.Join(t.TempDir(), "kl.qscope")
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	args := []string{"measure", "demo", "--candidate", "nvfp4", "--corpus", "prose", "--corpus", "math", "--cache", "none", "--session", session, "--json", "--mem", "24MiB"}
	ctx, cancel := context.WithCancel(t.Context())
	var out, diag bytes.Buffer
	std := streams{in: strings.NewReader(""), out: &out, err: writerFunc(func(b []byte) (int, error) {
		if bytes.Contains(b, []byte("nvfp4")) { // the first chunks are scored
			cancel()
		}
		return diag.Write(b)
	}), live: true}
	if code := run(ctx, args, std); code != exitInterrupted || out.Len() > 0 || !strings.Contains(diag.String(), "--session "+session+" goes on") {
		t.Fatalf("exit %d: %s%s", code, out.String(), diag.String())
	}
	st, err := savedState(session)
	if err != nil || len(st.Yards) != 1 {
		t.Fatal(err)
	}
	done, of := st.Yards[0].Positions()
	if done == 0 || done == of || st.Yards[0].End == nil || st.Yards[0].End.State != sessions.RunCancelled {
		t.Fatalf("%d of %d, %+v", done, of, st.Yards[0].End)
	}
	d := measureDoc(t, exitGood, append(args[1:len(args)-3:len(args)-3], "--no-floor=false")...)
	whole := measureDoc(t, exitGood, "demo", "--candidate", "nvfp4", "--corpus", "prose", "--corpus", "math")
	if d.Positions != of || d.Candidates[0].KLMean != whole.Candidates[0].KLMean || d.Candidates[0].KLMax != whole.Candidates[0].KLMax {
		t.Errorf("gone on with: %+v, in one go: %+v", d.Candidates[0], whole.Candidates[0])
	}
	if st, err = savedState(session); err != nil || len(st.Yards) != 1 || st.Yards[0].End.State != sessions.RunFinished {
		t.Errorf("%v: %+v", err, st.Yards)
	}
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

var _ io.Writer = writerFunc(nil)
