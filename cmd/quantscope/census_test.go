package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"quantscope/sessions"
)

// censusCase is a case of the census.
func censusCase(parts ...string) string {
	return filepath.Join(append([]string{"..", "..", "analysis", "census", "testdata", "cases"}, parts...)...)
}

// censusJSON is what the tests read of census --json.
type censusJSON struct {
	Pairs     int
	Differing int
	RatioMin  *float64 `json:"ratio_min"`
	RatioMean *float64 `json:"ratio_mean"`
	RatioMax  *float64 `json:"ratio_max"`
	Note      string
	Layers    []struct {
		Layer  int
		Groups []struct{ Expert int }
	}
	Proof *struct {
		Served, Stored float64
		Members        int
	}
	Fixed *struct{ Compensated, Requantized int }
	After *struct{ Pairs, Differing int }
}

func censusDoc(t *testing.T, args ...string) (d censusJSON) {
	t.Helper()
	o := command(t, append([]string{"census", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(o.out), &d); err != nil || o.code != exitGood {
		t.Fatalf("exit %d, %v: %s", o.code, err, o.err)
	}
	return d
}

// C24 is reported with its ratios and with what a server makes of it; lint is the
// gate that fails over it.
func TestCensusOfGateAndUp(t *testing.T) {
	path := censusCase("C24-gate-up-scales")
	d := censusDoc(t, path)
	if d.Pairs != 4 || d.Differing != 2 || *d.RatioMax != 10 || *d.RatioMin != 1.254699945449829 || *d.RatioMean < 3.5 || *d.RatioMean > 3.6 || len(d.Layers) != 1 || d.Layers[0].Layer != 3 {
		t.Errorf("%+v", d)
	}
	o := command(t, "census", path)
	for _, want := range []string{"2 of 4 pairs that servers fuse differ", "experts.3.up_proj", "10  model", "a server that uses the first scale decodes weights of 2 of 4 pairs as 0.1 to 0.797 times what they are"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("%q is not in %q", want, o.out)
		}
	}
	if o.code != exitGood || o.err != "" {
		t.Errorf("exit %d: %s", o.code, o.err)
	}
	if o := command(t, "census", path, "--worst", "1"); strings.Contains(o.out, "experts.1.up_proj") || !strings.Contains(o.out, "1 more") {
		t.Error(o.out)
	}
	if o := command(t, "lint", path); o.code != exitCheckFailed {
		t.Errorf("lint: exit %d", o.code)
	}
}

// C25 and C26 have nothing to compare, which is no failure.
func TestCensusOfNothing(t *testing.T) {
	for _, c := range []struct{ path, note string }{
		{censusCase("C25-two-conventions", "multiplier"), "no two matrices"},
		{censusCase("C25-two-conventions", "divisor"), "no two matrices"},
		{censusCase("C26-fused-experts"), "nothing is quantized"},
		{"demo", "no second-level scales"},
	} {
		if d := censusDoc(t, c.path); d.Pairs != 0 || !strings.Contains(d.Note, c.note) || d.RatioMax != nil || d.Layers == nil {
			t.Errorf("%s: %+v", c.path, d)
		}
		if o := command(t, "census", c.path); o.code != exitGood || !strings.Contains(o.out, c.note) {
			t.Errorf("%s: exit %d, %s", c.path, o.code, o.out)
		}
	}
}

// C26: a quarter of the matrix parameters is in matrices of two dimensions, the
// rest in tensors of all experts, of which there are four.
func TestInspectOfFusedExperts(t *testing.T) {
	var want struct {
		Params2D int64   `json:"params_2d"`
		Params3D int64   `json:"params_3d"`
		Share    float64 `json:"share_2d_of_matrices"`
		Experts  int
	}
	data, err := os.ReadFile(censusCase("C26-fused-experts", "expect.json"))
	if err == nil {
		err = json.Unmarshal(data, &want)
	}
	if err != nil {
		t.Fatal(err)
	}
	o := command(t, "inspect", "--json", "--tensors", censusCase("C26-fused-experts"))
	var r struct {
		Experts int
		Targets struct{ Matrices, Params int64 }
		List    []struct {
			Shape    []int64
			Elements int64
		}
	}
	if err := json.Unmarshal([]byte(o.out), &r); err != nil {
		t.Fatalf("%v: %s", err, o.err)
	}
	sums := map[int]int64{}
	for _, x := range r.List {
		sums[len(x.Shape)] += x.Elements
	}
	if sums[2] != want.Params2D || sums[3] != want.Params3D || float64(sums[2])/float64(sums[2]+sums[3]) != want.Share || r.Experts != want.Experts {
		t.Errorf("%v, %d experts; want %+v", sums, r.Experts, want)
	}
	if r.Targets.Params != want.Params3D || r.Targets.Matrices != 12 { // gate, up and down of each
		t.Errorf("%+v", r.Targets)
	}
}

// The demo, quantized matrix by matrix, proven, mended, and looked at again, all
// from the command line, in both layouts.
func TestCensusProofAndFix(t *testing.T) {
	for _, layout := range []string{"modelopt", "compressed-tensors"} {
		t.Run(layout, func(t *testing.T) {
			dir := exportDemo(t, "nvfp4", layout)
			fixed, second := filepath.Join(t.TempDir(), "fixed"), filepath.Join(t.TempDir(), "second")
			o := command(t, "census", dir, "--against", "demo", "--fix", fixed)
			for _, want := range []string{
				"80 of 80 pairs that servers fuse differ",
				"a server that uses the first scale turns rel_l2 0.0951 into 0.118 in 80 of 80 pairs; compensation brings it to 0.0986; 132 scales clamp",
				" by compensation, ", "as stored", "by requantization", "after   0 of 80 pairs that servers fuse differ",
			} {
				if !strings.Contains(o.out, want) {
					t.Errorf("%q is not in %q", want, o.out)
				}
			}
			if o.code != exitGood {
				t.Fatalf("exit %d: %s", o.code, o.err)
			}
			d := censusDoc(t, fixed, "--against", "demo")
			if d.Pairs != 80 || d.Differing != 0 || d.Proof != nil {
				t.Errorf("%+v", d)
			}
			if o := command(t, "lint", fixed); o.code != exitGood {
				t.Errorf("lint: %s", o.out)
			}
			if d := censusDoc(t, dir, "--against", "demo", "--fix", second); d.Fixed.Compensated+d.Fixed.Requantized != 80 || d.After.Pairs != 80 || d.After.Differing != 0 || d.Proof.Members != 80 {
				t.Errorf("%+v, %+v", d.Fixed, d.After)
			}
			if o := command(t, "census", dir, "--fix", fixed); o.code != exitUsage || !strings.Contains(o.err, "not empty") {
				t.Errorf("exit %d: %s", o.code, o.err)
			}
		})
	}
}

func TestCensusRefuses(t *testing.T) {
	dir := exportDemo(t, "nvfp4", "modelopt")
	for _, c := range []struct {
		args []string
		code int
		word string
	}{
		{[]string{"census"}, exitUsage, "one checkpoint"},
		{[]string{"census", dir, "--threads", "0"}, exitUsage, "--threads 0"},
		{[]string{"census", dir, "--worst", "-1"}, exitUsage, "--worst -1"},
		{[]string{"census", filepath.Join(dir, "none")}, exitBadInput, "none"},
		{[]string{"census", dir, "--against", filepath.Join(dir, "none")}, exitBadInput, "none"},
		{[]string{"census", dir, "--against", dir}, exitBadInput, "can be held against it"},
		{[]string{"census", dir, "--fix", dir}, exitUsage, "source's own"},
		{[]string{"census", "demo", "--fix", filepath.Join(t.TempDir(), "x")}, exitBadInput, "nothing to fix"},
		{[]string{"census", dir, "--session", filepath.Join(dir, "none")}, exitBadInput, "none: no such file or directory: --session adds the census to a session that is there"},
		{[]string{"census", dir, "--session", filepath.Join(dir, "config.json")}, exitBadInput, "config.json"},
	} {
		o := command(t, c.args...)
		if o.code != c.code || o.out != "" || !strings.Contains(o.err, c.word) {
			t.Errorf("%v: exit %d, %q, %q", c.args, o.code, o.out, o.err)
		}
		if lines := strings.Split(strings.TrimSpace(o.err), "\n"); !strings.HasPrefix(lines[len(lines)-1], "quantscope: ") {
			t.Errorf("%v: %q", c.args, o.err)
		}
	}
}

// Broken files are refused as they are everywhere.
func TestCensusOfBrokenFiles(t *testing.T) {
	for _, id := range []string{"C01", "C02", "C03", "C04", "C05", "C09"} {
		dir := caseDir(t, id)
		for file, want := range expected(t, dir).PerFile {
			for _, args := range [][]string{{"census"}, {"census", "--json"}, {"census", "--against", "demo"}} {
				o := command(t, append(args, filepath.Join(dir, file))...)
				o.refused(t, exitBadInput)
				want.mentions(t, o.err)
			}
		}
	}
}

// With --session the census is in the session, with what lint finds.
func TestCensusOfSession(t *testing.T) {
	session := filepath.Join(t.TempDir(), "demo.qscope")
	dir := filepath.Join(t.TempDir(), "out")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4", "--session", session, "--out", dir, "--layout", "modelopt", "--global-scale", "tensor"); o.code != exitGood {
		t.Fatal(o.err)
	}
	if o := command(t, "census", dir, "--against", "demo", "--session", session); o.code != exitGood {
		t.Fatal(o.err)
	}
	feed, err := sessions.OpenSession(session)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	audits := feed.Snapshot().Audits
	if len(audits) != 1 || audits[0].Path != dir || audits[0].Master != "demo" || audits[0].Census.Differing != 80 || audits[0].Census.Proof == nil || len(audits[0].Findings) == 0 {
		t.Errorf("%+v", audits)
	}
}

// docs/commands.md names every key.
func TestCensusIsDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "commands.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := exportDemo(t, "nvfp4", "modelopt")
	for _, args := range [][]string{
		{"census", "--json", dir, "--against", "demo", "--fix", filepath.Join(t.TempDir(), "a")}, {"census", "--json", dir, "--fix", filepath.Join(t.TempDir(), "b")},
		{"census", "--json", "demo"},
	} {
		var v any
		o := command(t, args...)
		if err := json.Unmarshal([]byte(o.out), &v); err != nil {
			t.Fatalf("%v: %s", err, o.err)
		}
		var missing []string
		var keys func(v any)
		keys = func(v any) {
			switch v := v.(type) {
			case map[string]any:
				for k, x := range v {
					if !strings.Contains(string(doc), "`"+k+"`") && !strings.Contains(string(doc), "`"+k+"[]`") && !slices.Contains(missing, k) {
						missing = append(missing, k)
					}
					keys(x)
				}
			case []any:
				for _, x := range v {
					keys(x)
				}
			}
		}
		keys(v)
		if len(missing) > 0 {
			t.Errorf("docs/commands.md does not name %q", missing)
		}
	}
}
