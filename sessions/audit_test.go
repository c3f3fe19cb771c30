package sessions

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"quantscope/analysis/census"
	"quantscope/analysis/lint"
)

// madeUpAudit is an audit of two pairs, of which one differs.
func madeUpAudit() Audit {
	totals := census.Totals{Pairs: 2, Differing: 1, RatioMin: 1.25, RatioMean: 1.25, RatioMax: 1.25}
	return Audit{
		Path: "/made/up", Master: "/the/master", AtUnixMS: 1_700_000_000_000,
		Census: &census.Report{
			Path: "/made/up", Layout: "modelopt", Convention: "multiplier", Totals: totals,
			Layers: []census.Layer{{Layer: 1, Set: "gate and up", Kind: "expert", Totals: totals, Groups: []census.Group{
				{Expert: 0, Members: []census.Member{{Name: "a.gate", Projection: "gate", Scale: 0.5, Ratio: 1}, {Name: "a.up", Projection: "up", Scale: 0.5, Ratio: 1}}},
				{Expert: 1, Differ: true, Members: []census.Member{{Name: "b.gate", Projection: "gate", Scale: 0.4, Ratio: 1}, {Name: "b.up", Projection: "up", Scale: 0.5, Ratio: 1.25}},
					Proof: []census.Proof{{Member: "b.up", Served: 0.2, Stored: 0.09, Compensated: 0.095, Clamped: 3, Scales: 64, RoundingCost: 0.005}}},
			}}},
		},
		Findings: []lint.Finding{{ID: "globals-differ", Severity: lint.Error, File: "model.safetensors", Tensor: "b.up", Message: "differ", Fix: "mend"}},
	}
}

// An audit that is recorded is there in a fresh open and comes in a replay.
func TestRecordAudit(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(8)
	runJob(t, job, path, "f1")
	before := openState(t, path)
	want := []*Audit{new(madeUpAudit()), new(madeUpAudit())}
	want[1].Path, want[1].AtUnixMS = "/another", 0
	for _, a := range want {
		if err := RecordAudit(path, *a); err != nil {
			t.Fatal(err)
		}
	}
	st := openState(t, path)
	if at := st.Audits[1].AtUnixMS; time.Since(time.UnixMilli(at)) > time.Hour {
		t.Errorf("an audit without a time is of %v", time.UnixMilli(at))
	}
	want[1].AtUnixMS = st.Audits[1].AtUnixMS
	if diff := cmp.Diff(want, st.Audits); diff != "" {
		t.Errorf("audits (-want +got):\n%s", diff)
	}
	if n := len(st.Log); n != len(before.Log)+2 || st.Log[n-2].Kind != EventAudit || st.Log[n-2].Message != "audit of /made/up: 1 of 2 pairs differ, by 1.25 to 1.25, 1 finding" {
		t.Errorf("the log ends with %+v", st.Log[n-2:])
	}
	if st.Progress != before.Progress || st.LastSeq != before.LastSeq+2 {
		t.Errorf("progress %+v and event %d, before %+v and %d", st.Progress, st.LastSeq, before.Progress, before.LastSeq)
	}

	p := play(t, path, MaxSpeed)
	if len(p.st.Audits) != 0 {
		t.Errorf("%d audits before the beginning", len(p.st.Audits))
	}
	p.p.Step(math.MaxInt32)
	if !p.next() {
		t.Fatal("nothing is played")
	}
	if diff := cmp.Diff(st.Audits, p.st.Audits); diff != "" {
		t.Errorf("at the end of the replay (-want +got):\n%s", diff)
	}
	p.p.Step(-1)
	if !p.next() || len(p.st.Audits) != 1 {
		t.Errorf("a step before the end there are %d audits, want 1", len(p.st.Audits))
	}

	// What is recorded does not keep a run from going on.
	if end := runJob(t, job, path, "f1", "f2"); end.State != RunFinished || end.Done != 16 {
		t.Errorf("the session goes on to %+v", end)
	}
	if n := len(openState(t, path).Audits); n != 2 {
		t.Errorf("%d audits after it", n)
	}
}

func TestRecordAuditRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.qscope")
	job, _ := fakeJob(4)
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f1"}})
	if err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if err := RecordAudit(path, madeUpAudit()); !errors.As(err, &busy) {
		t.Errorf("while a run writes it: %v", err)
	}
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("no session"), 0o600); err != nil {
		t.Fatal(err)
	}
	infinite := madeUpAudit()
	infinite.Census.RatioMax = math.Inf(1)
	for _, c := range []struct {
		path string
		a    Audit
		want string
	}{
		{filepath.Join(dir, "none.qscope"), madeUpAudit(), "no such file"},
		{filepath.Join(dir, "text"), madeUpAudit(), "not an SQLite file"},
		{path, Audit{Path: "x"}, "without a census"},
		{path, infinite, "the audit of /made/up cannot be recorded"},
	} {
		if err := RecordAudit(c.path, c.a); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.path, err, c.want)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 { // the session and the text
		t.Errorf("left behind: %v", entries)
	}
	if st := openState(t, path); len(st.Audits) != 0 {
		t.Errorf("%d audits were recorded", len(st.Audits))
	}
}

// What a run exported is known to whoever opens its session, wherever from.
func TestStateKnowsExports(t *testing.T) {
	source, dir := synthetic(t), filepath.Join(t.TempDir(), "out")
	path := sessionPath(t)
	if _, err := runExport(t, t.Context(), Options{Checkpoint: source, Session: path, Variants: []string{"nvfp4"}, Export: &ExportOptions{Dir: dir, Layout: "modelopt"}}, nil); err != nil {
		t.Fatal(err)
	}
	want := []ExportRef{{Dir: dir, Layout: "modelopt", State: ExportWhole}}
	if diff := cmp.Diff(want, openState(t, path).Exports); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
	if got := (ExportRef{Dir: "out", Abs: "/data/out"}).Place(); got != "/data/out" {
		t.Errorf("a relative folder is at %s", got)
	}
}

// A run whose session records what its audit saw: an export of the demo with a
// second-level scale a tensor, which a server would mix up, and the proof of it.
func TestAuditOfExport(t *testing.T) {
	path, dir := sessionPath(t), filepath.Join(t.TempDir(), "out")
	l, err := Start(t.Context(), Options{
		Checkpoint: "demo", Session: path, Variants: []string{"nvfp4"}, Program: "test",
		GlobalScale: "tensor", Export: &ExportOptions{Dir: dir, Layout: "modelopt"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps := map[AuditStep]int{}
	live, err := l.Audit(t.Context(), AuditRequest{Dir: dir, Prove: true, Progress: func(p AuditProgress) {
		if p.Done > p.Total {
			t.Errorf("%+v", p)
		}
		steps[p.Step]++
	}})
	if err != nil {
		t.Fatal(err)
	}
	if c := live.Census; c.Pairs != 80 || c.Differing == 0 || c.Proof == nil || live.Master != "demo" || live.Path != dir {
		t.Fatalf("%+v against %s: %+v", c.Totals, live.Master, c.Proof)
	}
	if steps[AuditCensus] != 1 || steps[AuditLint] != 1 || steps[AuditProof] < 2 {
		t.Errorf("steps %v", steps)
	}
	if !lint.Failed(live.Findings) {
		t.Errorf("lint finds nothing: %+v", live.Findings)
	}
	own, err := l.Audit(t.Context(), AuditRequest{})
	if err != nil || own.Census.Pairs != 0 || own.Census.Note == "" || own.Path != "demo" {
		t.Errorf("the source: %+v, %v", own, err)
	}
	if _, err := l.Audit(t.Context(), AuditRequest{Prove: true}); err == nil || !strings.Contains(err.Error(), "against itself") {
		t.Errorf("the source against itself: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	f, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	st := f.Snapshot()
	if diff := cmp.Diff([]*Audit{live}, st.Audits); diff != "" { // that of the source has nothing to keep
		t.Errorf("recorded (-live +read):\n%.2000s", diff)
	}
	if len(st.Exports) != 1 || st.Exports[0].Place() != dir {
		t.Errorf("exports %+v", st.Exports)
	}
	// A saved session audits the same and records nothing.
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := f.(Auditor).Audit(t.Context(), AuditRequest{Dir: dir, Prove: true})
	if err != nil {
		t.Fatal(err)
	}
	again.AtUnixMS = live.AtUnixMS
	if diff := cmp.Diff(live, again); diff != "" {
		t.Errorf("again (-live +saved):\n%.2000s", diff)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("an audit of a saved session changed it")
	}
	// What is beside the weights is held against the source's.
	if err := os.Remove(filepath.Join(dir, "generation_config.json")); err != nil {
		t.Fatal(err)
	}
	lost, err := f.(Auditor).Audit(t.Context(), AuditRequest{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if len(lost.Findings) != len(live.Findings)+1 || !slices.ContainsFunc(lost.Findings, func(f lint.Finding) bool { return f.File == "generation_config.json" }) {
		t.Errorf("without a file that the source has: %+v", lost.Findings)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.(Auditor).Audit(ctx, AuditRequest{Dir: dir, Prove: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context: %v", err)
	}
}

// A checkpoint that is gone is named, and where it was.
func TestAuditOfWhatIsGone(t *testing.T) {
	source, path := synthetic(t), sessionPath(t)
	l, err := Start(t.Context(), Options{Checkpoint: source, Session: path, Variants: []string{"nvfp4"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(source); err != nil {
		t.Fatal(err)
	}
	f, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.(Auditor).Audit(t.Context(), AuditRequest{}); err == nil || !strings.Contains(err.Error(), "its checkpoint was "+source) {
		t.Errorf("the source: %v", err)
	}
	if _, err := f.(Auditor).Audit(t.Context(), AuditRequest{Dir: filepath.Join(source, "out")}); err == nil || !strings.Contains(err.Error(), "out") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := NewStatic(f.Snapshot()).(Auditor).Audit(t.Context(), AuditRequest{}); !errors.Is(err, errInMemory) {
		t.Errorf("a session in memory: %v", err)
	}
}
