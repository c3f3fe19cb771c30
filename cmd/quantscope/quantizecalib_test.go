package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/calibrate"
	"quantscope/sessions"
)

// A calibrated variant through the command: table, document, codes, an export from
// these alone, and its verification.
func TestQuantizeCalibrated(t *testing.T) {
	dir := t.TempDir()
	session := filepath.Join(dir, "run.qscope")
	args := []string{"quantize", "demo", "--targets", "*layers.1.mlp.experts.[0-3].*", "--variant", "int4-g128,int4-g128+gptq", "--calib-chunks", "4", "--session", session}
	o := command(t, args...)
	if o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	for _, want := range []string{"calibrated", "output error", " → ", "rank bound int4-g128+gptq: tokens 1536, needed 128·16/2 = 1024: met", "gate       int4-g128+gptq: passed", "on 1536 tokens of calib (sha256 ", "1 of 1 unit, 0 read back"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("no %q in\n%s", want, o.out)
		}
	}
	o = command(t, append(args, "--json")...)
	var doc struct {
		Variants []struct {
			Variant     string `json:"variant"`
			Effective   string `json:"effective"`
			Calibration *sessions.CalibrationSummary
		} `json:"variants"`
	}
	if err := json.Unmarshal([]byte(o.out), &doc); err != nil || o.code != exitGood || len(doc.Variants) != 2 {
		t.Fatalf("exit %d, %v: %s", o.code, err, o.out)
	}
	c := doc.Variants[1].Calibration
	if doc.Variants[0].Calibration != nil || c == nil || c.Corpus != "calib" || c.Tokens != 1536 || c.Calibrated != 12 || c.Changed == 0 || !(c.OutRatio < 0.9) || !(c.WeightRatio > 1) ||
		c.Gate != "passed" || c.GateFailed || !c.RankMet || c.FellBackShare != 0 || c.Routed == nil || c.Routed.Experts != 16 || c.Codes != session+".codes/int4-g128+gptq" {
		t.Errorf("%+v", c)
	}

	codes, out := c.Codes, filepath.Join(dir, "out")
	o = command(t, "quantize", "demo", "--from-codes", codes, "--session", filepath.Join(dir, "other.qscope"), "--out", out, "--layout", "quantscope")
	if o.code != exitGood || !strings.Contains(o.out, "1 of 1 unit, 1 read back") || !strings.Contains(o.out, "export   "+out+": quantscope") {
		t.Fatalf("%+v", o)
	}
	o = command(t, "verify", "demo", out, "--codes", codes, "--session", session)
	if o.code != exitGood || !strings.Contains(o.out, "codes       12 equal to those that were kept, bit for bit, by int4-g128+gptq (own; as the codes say)") || !strings.Contains(o.out, "records     12 compared") {
		t.Errorf("%+v", o)
	}

	o = command(t, "quantize", "../../analysis/model/testdata/qwen3_moe", "--from-codes", codes, "--session", filepath.Join(dir, "no.qscope"))
	if o.refused(t, exitBadInput); !strings.Contains(o.err, codes+": they are of another checkpoint (identity ") {
		t.Errorf("%s", o.err)
	}

	for what, c := range map[string]struct {
		args []string
		code int
		want string
	}{
		"another variant":   {[]string{"--from-codes", codes, "--variant", "nvfp4+gptq"}, exitBadInput, "holds codes of int4-g128+gptq, and --variant is nvfp4+gptq"},
		"other targets":     {[]string{"--from-codes", codes, "--targets", "*layers.2.*"}, exitBadInput, "and --targets is \"*layers.2.*\""},
		"another text":      {[]string{"--from-codes", codes, "--calib", "calib"}, exitBadInput, "corpus was"},
		"another damping":   {[]string{"--from-codes", codes, "--damp", "0.5"}, exitBadInput, "damping was 0.01 and is now 0.5"},
		"codes and codes":   {[]string{"--from-codes", codes, "--codes", codes}, exitUsage, "exclude each other"},
		"a layout":          {[]string{"--from-codes", codes, "--out", filepath.Join(dir, "no"), "--layout", "compressed-tensors"}, exitUsage, "own"},
		"no folder":         {[]string{"--from-codes", t.TempDir()}, exitBadInput, "is no folder of codes"},
		"a folder of them":  {[]string{"--from-codes", filepath.Dir(codes)}, exitBadInput, `is no folder of codes, and holds some: "int4-g128+gptq"`},
		"nothing":           {[]string{"--from-codes", filepath.Join(dir, "gone")}, exitBadInput, "is not there"},
		"no calibrated one": {[]string{"--variant", "nvfp4", "--calib", "calib"}, exitUsage, "--calib is for calibrated variants"},
		"two, one folder":   {[]string{"--variant", "nvfp4+gptq,int4-g128+gptq", "--codes", dir}, exitUsage, "--codes names the folder of one calibrated variant"},
		"moments and text":  {[]string{"--variant", "nvfp4+gptq", "--calib", "calib", "--calibration", "x"}, exitUsage, "exclude each other"},
		"no damping":        {[]string{"--variant", "nvfp4+gptq", "--damp", "0"}, exitUsage, "--damp 0: it is a share"},
		"a chunk of one":    {[]string{"--variant", "nvfp4+gptq", "--calib-chunk", "1"}, exitUsage, "a chunk of 1 tokens"},
		"too much damping":  {[]string{"--variant", "nvfp4+gptq", "--damp", "1.5"}, exitUsage, "--damp 1.5"},
		"a projection":      {[]string{"--variant", "nvfp4+gptq", "--calibrate", "gate,,up"}, exitUsage, "empty name"},
		"an unknown one":    {[]string{"--variant", "nvfp4+gptq", "--calibrate", "gates"}, exitUsage, "gates"},
		"a part":            {[]string{"--variant", "nvfp4+gptq", "--part", "1/2"}, exitUsage, "goes through the whole model"},
		"memory":            {[]string{"--variant", "nvfp4+gptq", "--mem", "1MiB"}, exitUsage, "--mem is too little"},
		"a text":            {[]string{"--variant", "nvfp4+gptq", "--calib", filepath.Join(dir, "gone")}, exitBadInput, "gone"},
		"several texts":     {[]string{"--variant", "nvfp4+gptq", "--calib", "demo"}, exitUsage, "holds 5 texts"},
		"saved moments":     {[]string{"--variant", "nvfp4+gptq", "--calibration", filepath.Join(dir, "gone")}, exitBadInput, "gone"},
	} {
		t.Run(what, func(t *testing.T) {
			own := filepath.Join(t.TempDir(), "s.qscope")
			args := append([]string{"quantize", "demo"}, c.args...)
			if what != "no calibrated one" {
				args = append(args, "--session", own)
			}
			o := command(t, args...)
			o.refused(t, c.code)
			if !strings.Contains(o.err, c.want) {
				t.Errorf("%s", o.err)
			}
			if _, err := os.Stat(own); !errors.Is(err, os.ErrNotExist) {
				t.Error("a session was made")
			}
		})
	}
}

// Too few tokens: what no token reaches falls back, and the run says so and fails.
func TestQuantizeFallsBack(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "few.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("Once upon a time there was a river. ", 4)), 0o666); err != nil {
		t.Fatal(err)
	}
	args := []string{"quantize", "demo", "--targets", "*layers.2.mlp.experts.*", "--variant", "int4-g128+gptq", "--calib", text, "--calib-chunk", "16"}
	o := command(t, append(args, "--session", filepath.Join(dir, "a.qscope"))...)
	if o.code != exitCheckFailed || !strings.Contains(o.err, "something other than what was requested ran (int4-g128+gptq: ") || !strings.Contains(o.err, "% of the parameters), see fallbacks; --allow-fallback accepts it") ||
		!strings.Contains(o.out, "NOT met: Hessians of down projections are rank-deficient") || !strings.Contains(o.out, "fallback  int4-g128+gptq") {
		t.Errorf("exit %d: %s\n%s", o.code, o.err, o.out)
	}
	if o = command(t, append(args, "--session", filepath.Join(dir, "b.qscope"), "--allow-fallback")...); o.code != exitGood {
		t.Errorf("exit %d: %s", o.code, o.err)
	}
}

// Where nothing was calibrated there are no means, and an importance matrix has no text.
func TestNothingTraded(t *testing.T) {
	st := &sessions.State{
		Variants: []sessions.Variant{{Name: "int4-g128+gptq"}}, Tensors: make([]sessions.Tensor, 1),
		Calibrations: []*sessions.Calibration{{
			Setup: sessions.CalibrationSetup{Corpus: "text", Tokens: 512, Inputs: "0123456789abcdef", Units: []string{"layer 1"}, Codes: "c"},
			Units: []sessions.CalibUnit{{Unit: "layer 1", Matrices: []sessions.CalibMatrix{{Trade: calibrate.Trade{Effective: "int4-g128", Why: "no Hessian"}}}}},
		}},
	}
	var b strings.Builder
	printCalibrated(&textReport{w: &b}, st)
	if text := b.String(); strings.Contains(text, "NaN") || strings.Contains(text, "sha256") || !strings.Contains(text, "measured before (0123456789ab), 512 tokens of text, 1 of 1 unit") {
		t.Errorf("%s", text)
	}
	st.Calibrations[0].Setup.CorpusSHA = "fedcba9876543210"
	b.Reset()
	printCalibrated(&textReport{w: &b}, st)
	if !strings.Contains(b.String(), "of text (sha256 fedcba987654), 1 of 1 unit") {
		t.Errorf("%s", b.String())
	}
}

// With nothing to round calibration changes no code: the gate fails the command, and
// an export too is not finished, which is no interruption.
func TestGateFailsExport(t *testing.T) {
	const tensor = "model.layers.1.mlp.experts.0.gate_proj.weight"
	bad := demoFolder(t)
	spoilWeight(t, bad, tensor, 0, make([]uint16, 128*128)...)
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	args := []string{"quantize", bad, "--targets", tensor, "--variant", "int4-g128+gptq", "--calib", "calib", "--calib-chunks", "4", "--session", filepath.Join(dir, "a.qscope"), "--out", out, "--layout", "quantscope"}
	for _, more := range [][]string{nil, {"--resume"}} {
		o := command(t, append(args, more...)...)
		if o.code != exitCheckFailed || !strings.Contains(o.err, "int4-g128+gptq: fidelity gate failed") || !strings.Contains(o.err, "; "+out+" is incomplete") || !strings.Contains(o.out, "(finished)") {
			t.Errorf("%v: exit %d: %s\n%s", more, o.code, o.err, o.out)
		}
		if _, err := os.Stat(filepath.Join(out, "config.json")); !errors.Is(err, os.ErrNotExist) {
			t.Error("the export has its config.json")
		}
	}
}

// A calibrated variant that is its baseline fails the command, though all was measured.
func TestGateFailed(t *testing.T) {
	st := &sessions.State{
		Variants: []sessions.Variant{{Name: "int4-g128+gptq"}}, Tensors: make([]sessions.Tensor, 1), Progress: sessions.Progress{State: sessions.RunFinished},
		Calibrations: []*sessions.Calibration{{
			Units: []sessions.CalibUnit{{Unit: "layer 1", Matrices: []sessions.CalibMatrix{{Trade: calibrate.Trade{Effective: "int4-g128+gptq", Codes: 10}}}}},
			End:   &sessions.CalibrateEnd{State: sessions.RunFinished, Calibrated: 1, Gate: "calibration changed nothing: 1 matrix, 10 codes"},
		}},
	}
	err := verdict("s.qscope", st, true, nil)
	if err == nil || exitCode(err) != exitCheckFailed || !strings.Contains(err.Error(), "int4-g128+gptq: fidelity gate failed: calibration changed nothing") {
		t.Errorf("%v", err)
	}
	st.Calibrations[0].End.Gate = ""
	if err := verdict("s.qscope", st, true, nil); err != nil {
		t.Errorf("%v", err)
	}
}

// Every key of a calibration is in docs/commands.md.
func TestCalibrationKeysAreDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(sessions.CalibrationSummary{Routed: &sessions.RoutedTokens{}, Only: []string{"gate"}, Reason: "x", Warnings: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	var check func(raw json.RawMessage)
	check = func(raw json.RawMessage) {
		var keys map[string]json.RawMessage
		if json.Unmarshal(raw, &keys) != nil {
			return
		}
		for k, v := range keys {
			if !strings.Contains(string(doc), "`"+k+"`") && !strings.Contains(string(doc), "`"+k+"[]`") {
				t.Errorf("docs/commands.md does not name %s", k)
			}
			check(v)
		}
	}
	check(text)
}

// What a session holds of a calibrated variant is not passed off as what is asked for
// now, whether the variant is finished or its codes alone are left.
func TestCalibratedOtherwiseIsRefused(t *testing.T) {
	dir := t.TempDir()
	session := filepath.Join(dir, "run.qscope")
	base := []string{"quantize", "demo", "--targets", "*layers.1.mlp.experts.[0-1].*", "--variant", "int4-g128+gptq", "--session", session, "--allow-fallback"}
	if o := command(t, append(base, "--calib-chunks", "4", "--calibrate", "up,gate")...); o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	again := func() {
		t.Helper()
		for want, args := range map[string][]string{
			"damping was 0.01 and is now 0.5": {"--damp", "0.5"},
			"of 3 chunks and 1152 tokens":     {"--calib-chunks", "3"},
			"corpus was":                      {"--calib", "prose"},
			"calibrated projections was":      {"--calibrate", "gate"},
			"no matrix is one":                {"--calibrate", "gates"},
			"gone":                            {"--calibration", filepath.Join(dir, "gone")},
		} {
			o := command(t, append(base, args...)...)
			if o.code == exitGood || o.out != "" || !strings.Contains(o.err, want) {
				t.Errorf("%v: exit %d: %s", args, o.code, o.err)
			}
		}
		for _, args := range [][]string{nil, {"--calib-chunks", "4"}, {"--calib", "calib", "--calib-chunks", "4", "--damp", "0.01", "--calibrate", "gate, up,gate"}} {
			if o := command(t, append(base, args...)...); o.code != exitGood || !strings.Contains(o.out, "on 1536 tokens of calib") {
				t.Errorf("%v: exit %d: %s", args, o.code, o.err)
			}
		}
	}
	again()
	if err := os.Remove(session); err != nil {
		t.Fatal(err)
	}
	again()
}
