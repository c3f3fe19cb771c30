package sessions

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/serve"
	"quantscope/analysis/gates/suite"
	"quantscope/kernels"
)

// prepared opens a run of gates until the test ends.
func prepared(t *testing.T, path string, r GatesRequest) *PreparedGates {
	t.Helper()
	p, err := PrepareGates(t.Context(), path, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// smallSuite is a file of what the demo knows.
func smallSuite(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "small.yaml")
	const text = `name: small
probes:
  - id: capitals
    about: Capitals.
    grader: contains
    settings: {max_tokens: 32}
    cases:
      - {id: korea, ask: "한국의 수도는 어디입니까?", want: {text: 서울}}
      - {id: russia, ask: "Какой город столица России?", want: {text: Москва}}
  - id: bread
    about: Bread.
    grader: contains
    cases:
      - {id: bread, ask: "What is bread made of?", want: {text: flour}}
`
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Gates of the demo in process: a session is made, arms answer in their order, and
// the same request again asks nothing.
func TestGatesOfTheDemo(t *testing.T) {
	path := sessionPath(t)
	r := GatesRequest{Checkpoint: "demo", Candidates: []string{"four=nvfp4"}, Suite: smallSuite(t), Probes: "cap*", Passes: 2, Threads: 2, Program: "test"}
	p := prepared(t, path, r)
	if !p.Made || p.Path != path {
		t.Errorf("made %v at %s", p.Made, p.Path)
	}
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	if len(st.Gates) != 1 || st.Meta.SourcePath != "demo" || len(st.Tensors) == 0 || st.Meta.Served() {
		t.Fatalf("%d runs of %s", len(st.Gates), st.Meta.SourcePath)
	}
	g := st.Gates[0]
	var arms []string
	for i, a := range g.Setup.Arms {
		arms = append(arms, a.Label+" "+a.Spec+" "+string(a.Role)+" "+g.Opened[i].Kind)
	}
	if got := strings.Join(arms, ", "); got != "demo demo baseline process, four nvfp4 candidate process, demo again demo placebo process" {
		t.Errorf("arms %s", got)
	}
	if done, of := g.Answers(); done != 12 || of != 12 || g.End.State != string(RunFinished) || g.Setup.Suite != "small" || len(g.Meters) != 3 {
		t.Errorf("%d of %d answers of %s, %+v", done, of, g.Setup.Suite, g.End)
	}
	said := 0
	r.Report = func(rep *gates.Report) { said = len(rep.Rows) }
	again := prepared(t, path, r)
	if again.Made {
		t.Error("the session is made again")
	}
	if err := again.Run(t.Context()); err != nil || said == 0 {
		t.Errorf("%d rows, %v", said, err)
	}
	if now := openState(t, path); now.LastSeq != st.LastSeq {
		t.Errorf("the same request writes %d events", now.LastSeq-st.LastSeq)
	}
}

// serveDemo serves the demo until the test ends.
func serveDemo(t *testing.T) string {
	t.Helper()
	c, err := candidate.Open(t.Context(), "demo", candidate.Options{Set: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	e, err := local.New(t.Context(), c, local.Options{Set: kernels.Best(), Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(serve.Handler(e, serve.Options{Model: "demo", Version: "test"}))
	t.Cleanup(func() {
		s.Close()
		if err := errors.Join(e.Close(), c.Close()); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}

// Gates against a server alone have a session without tensors, which everything that
// opens sessions lives with.
func TestServedSession(t *testing.T) {
	url := serveDemo(t)
	path := sessionPath(t)
	r := GatesRequest{Servers: []string{"mine=" + url + "/v1"}, Suite: smallSuite(t), NoPlacebo: true, Program: "test"}
	if err := prepared(t, path, r).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	g := st.Gates[0]
	if !st.Meta.Served() || st.Meta.SourcePath != url+"/v1" || len(st.Tensors) != 0 || g.Setup.Arms[0].Label != "mine" || g.Setup.Arms[0].Role != gates.Baseline || g.Opened[0].Kind != "server" {
		t.Fatalf("%+v", st.Meta)
	}
	if done, of := g.Answers(); done != 3 || of != 3 || g.End.State != string(RunFinished) {
		t.Errorf("%d of %d answers, %+v", done, of, g.End)
	}
	for _, res := range g.Results {
		if !res.Verdict.Passed {
			t.Errorf("case %d: %s", res.Case, res.Verdict.Reason)
		}
	}
	if err := prepared(t, path, r).Run(t.Context()); err != nil || openState(t, path).LastSeq != st.LastSeq {
		t.Errorf("the same request: %v", err)
	}

	infos, errs := List(filepath.Dir(path))
	if len(infos) != 1 || len(errs) != 0 || infos[0].Tensors != 0 || infos[0].Progress.State != RunIdle || len(infos[0].Gates) != 1 {
		t.Errorf("%+v, %v", infos, errs)
	}
	p := play(t, path, MaxSpeed)
	p.p.Step(1 << 20)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	diffStates(t, openState(t, path), p.st)
	var out strings.Builder
	for format, export := range map[string]error{"jsonl": ExportJSONL(t.Context(), &out, path), "csv": ExportCSV(t.Context(), &out, path), "parquet": ExportParquet(t.Context(), &out, path)} {
		if export != nil {
			t.Errorf("%s: %v", format, export)
		}
	}
	if _, err := Digest(t.Context(), path); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"a part of a checkpoint": Merge(t.Context(), sessionPath(t), []string{path, path}, MergeOptions{}),
		"cannot be resumed": func() error {
			_, err := Start(t.Context(), Options{Checkpoint: "demo", Session: path, Variants: []string{"nvfp4"}})
			return err
		}(),
		"no checkpoint":           openFeed(t, path).(Measurer).Measure(t.Context(), MeasureRequest{Candidates: []string{"nvfp4"}}),
		"is made of a checkpoint": openFeed(t, path).(Gater).Gates(t.Context(), GatesRequest{Candidates: []string{"nvfp4"}, Servers: []string{url}}),
		"source identity":         openFeed(t, path).(Gater).Gates(t.Context(), GatesRequest{Checkpoint: "demo", Servers: []string{url}}),
		"nobody is named":         openFeed(t, path).(Gater).Gates(t.Context(), GatesRequest{}),
	} {
		if err == nil || !strings.Contains(err.Error(), what) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What cannot be run is refused before anything is asked, in a line, and leaves no
// session behind.
func TestGatesRefused(t *testing.T) {
	for _, c := range []struct {
		says string
		is   error
		r    GatesRequest
	}{
		{"nobody is named to be asked", ErrNoArm, GatesRequest{}},
		{"and neither candidate nor server is named", ErrNoArm, GatesRequest{Checkpoint: "demo", NoBaseline: true}},
		{"candidate nvfp4 is made of a checkpoint, and none is named", ErrNoArm, GatesRequest{Servers: []string{"http://127.0.0.1:1"}, Candidates: []string{"nvfp4"}}},
		{`two candidates are called "demo"; LABEL=http://127.0.0.1:1 gives`, ErrLabel, GatesRequest{Checkpoint: "demo", Servers: []string{"demo=http://127.0.0.1:1"}}},
		{`two candidates are called "nvfp4"`, ErrLabel, GatesRequest{Checkpoint: "demo", Candidates: []string{"nvfp4", "nvfp4"}}},
		{`two candidates are called "demo again"`, ErrLabel, GatesRequest{Checkpoint: "demo", Candidates: []string{"demo again=nvfp4"}}},
		{`server "nothing" is no URL such as`, ErrServer, GatesRequest{Servers: []string{"nothing"}}},
		{`server "ftp://there" is no URL`, ErrServer, GatesRequest{Servers: []string{"ftp://there"}}},
		{"a key stands in the environment", ErrServer, GatesRequest{Servers: []string{"http://me:hidden@there"}}},
		{"no probe of the suite demo is called nothing (known: ", ErrProbe, GatesRequest{Checkpoint: "demo", Probes: "nothing"}},
		{"re:(: ", ErrProbe, GatesRequest{Checkpoint: "demo", Probes: "re:("}},
		{"-1 passes", nil, GatesRequest{Checkpoint: "demo", Passes: -1}},
		{"name its checkpoint, or a file of ids", nil, GatesRequest{Servers: []string{"http://127.0.0.1:1"}, Texts: "gatestart_test.go"}},
		{"/nowhere", nil, GatesRequest{Checkpoint: "/nowhere"}},
		{"/nowhere.yaml", nil, GatesRequest{Checkpoint: "demo", Suite: "/nowhere.yaml"}},
		{"unheard", candidate.ErrSpec, GatesRequest{Checkpoint: "demo", Candidates: []string{"unheard"}}},
	} {
		path := sessionPath(t)
		_, err := PrepareGates(t.Context(), path, c.r)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "hidden") || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v", c.says, err)
		}
		if infos, errs := List(filepath.Dir(path)); len(infos)+len(errs) > 0 {
			t.Errorf("%s: a session is left", c.says)
		}
	}
}

// A server that is not there is an error of the environment; what was recorded stays.
func TestNoServerThere(t *testing.T) {
	path := sessionPath(t)
	p := prepared(t, path, GatesRequest{Servers: []string{"http://127.0.0.1:1"}, Suite: smallSuite(t)})
	err := p.Run(t.Context())
	if env := (*EnvError)(nil); !errors.As(err, &env) || !strings.Contains(err.Error(), "127.0.0.1:1") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
	st := openState(t, path)
	if len(st.Gates) != 1 || st.Gates[0].End == nil || st.Gates[0].End.State != string(RunStopped) || !strings.Contains(st.Gates[0].End.Reason, "127.0.0.1:1") {
		t.Errorf("%+v", st.Gates)
	}
}

func TestChosenProbes(t *testing.T) {
	s := gateSuite()
	s.Probes = append(s.Probes, suite.Probe{ID: "sums/sampled"})
	for patterns, want := range map[string]string{
		"": "sums,needle/long,sums/sampled", " ": "sums,needle/long,sums/sampled", "sums": "sums", "sums,needle*": "sums,needle/long", "sums*": "sums,sums/sampled",
		"needle/lo?g": "needle/long", "re:^(sums|x),?$": "sums", "needle/long,re:sampled": "needle/long,sums/sampled", "*": "sums,needle/long,sums/sampled",
	} {
		ps, err := chosenProbes(s, patterns)
		if got := strings.ReplaceAll(probeIDs(ps), ", ", ","); err != nil || got != want {
			t.Errorf("%q names %s, not %s: %v", patterns, got, want, err)
		}
	}
	for _, patterns := range []string{"nothing", "sums,nothing", "re:[", "[", "re:nothing"} {
		if _, err := chosenProbes(s, patterns); !errors.Is(err, ErrProbe) {
			t.Errorf("%q: %v", patterns, err)
		}
	}
}

func TestServerLabels(t *testing.T) {
	for spec, want := range map[string]string{
		"http://127.0.0.1:8000": "127.0.0.1:8000 http://127.0.0.1:8000", "http://there:1/v1/": "there:1 http://there:1/v1", "a b=https://there/x/v1": "a b https://there/x/v1",
		"http://there/?k=v": "there http://there/?k=v",
	} {
		a, err := server(spec, &GatesRequest{})
		if got := a.Label + " " + a.Spec; err != nil || got != want {
			t.Errorf("%s: %s, %v", spec, got, err)
		}
	}
}
