package tui

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quantscope/analysis/census"
	"quantscope/analysis/lint"
	"quantscope/sessions"
)

// fakeAudit is a feed that audits what a test makes up.
type fakeAudit struct {
	*fakeFeed
	asked []sessions.AuditRequest
	give  func(context.Context, sessions.AuditRequest) (*sessions.Audit, error)
}

func (f *fakeAudit) Audit(ctx context.Context, r sessions.AuditRequest) (*sessions.Audit, error) {
	f.asked = append(f.asked, r)
	return f.give(ctx, r)
}

// auditOf is an audit of the demo's pairs, of which every fifth differs.
func auditOf(path string, proof bool) *sessions.Audit { return auditOver(path, 5, 16, proof) }

// auditOver is an audit over so many layers of experts; its sums are made up.
func auditOver(path string, layers, experts int, proof bool) *sessions.Audit {
	r := &census.Report{Path: path, Layout: "modelopt", Convention: "multiplier"}
	for layer := 1; layer <= layers; layer++ {
		l := census.Layer{Layer: layer, MTP: layer == layers, Set: "gate and up", Kind: "expert"}
		for e := range experts {
			g := census.Group{Expert: e, Members: []census.Member{{Name: "gate", Projection: "gate", Scale: 1e-4, Ratio: 1}, {Name: "up", Projection: "up", Scale: 1e-4, Ratio: 1}}}
			if e%5 == 0 {
				g.Differ = true
				g.Members[1].Ratio = 1 + 0.02*float64(e%16-5)*float64(layer%6) + 0.01
				if proof {
					g.Proof = []census.Proof{{Member: "up", Served: 0.2, Stored: 0.095, Compensated: 0.0955, Scales: 1024}}
				}
			}
			l.Groups = append(l.Groups, g)
		}
		l.Totals = census.Totals{Pairs: 16, Differing: 4, RatioMin: 1.01 - 0.1*float64(layer), RatioMean: 1, RatioMax: 1.01 + 0.2*float64(layer)}
		if proof {
			l.Proof = &census.ProofSum{Members: 4, Served: 0.2, Stored: 0.095, Compensated: 0.0955, ServedWorst: 0.2, Scales: 4096}
		}
		r.Layers = append(r.Layers, l)
	}
	r.Totals = census.Totals{Pairs: 80, Differing: 20, RatioMin: 0.51, RatioMean: 1, RatioMax: 2.01}
	a := &sessions.Audit{Path: path, AtUnixMS: 1_764_435_720_000, Census: r, Findings: []lint.Finding{{ID: "globals-differ", Severity: lint.Error, File: "model.safetensors", Message: "layer 1: gate and up differ", Fix: "quantize again"}}}
	if proof {
		r.Master, a.Master = "demo", "demo"
		r.Proof = &census.ProofSum{Members: 20, Served: 0.2, Stored: 0.095, Compensated: 0.0955, ServedWorst: 0.2, Scales: 20480}
	}
	return a
}

// withExport is the demo's session of a run that wrote a checkpoint.
func withExport() *sessions.State {
	st := demoState()
	st.Exports = []sessions.ExportRef{{Dir: "out", Abs: "/data/out", Layout: "modelopt", State: sessions.ExportWhole}}
	return st
}

func auditing80(mode sessions.Mode, st *sessions.State) *fakeAudit {
	return &fakeAudit{fakeFeed: newFakeFeed(mode, st, st), give: func(_ context.Context, r sessions.AuditRequest) (*sessions.Audit, error) {
		if r.Dir == "" {
			return &sessions.Audit{Path: "demo", Census: &census.Report{Note: "no second-level scales: nothing is quantized"}}, nil
		}
		return auditOf(r.Dir, r.Prove), nil
	}}
}

// The newest export is audited when the screen is opened, once; p proves it, n
// goes on to the session's own checkpoint.
func TestScenarioAudit(t *testing.T) {
	feed := auditing80(sessions.Saved, withExport())
	d := drive(t, feed, fixed(), 120, 40)
	if len(feed.asked) != 0 {
		t.Fatalf("%d audits before the screen was opened", len(feed.asked))
	}
	d.Press("7").On(ScreenAudit).Sees("export out", "20 of 80 pairs differ", "L1 experts", "M5 experts", "globals-differ", "1 error")
	d.Press("1", "7")
	if len(feed.asked) != 1 || feed.asked[0].Dir != "/data/out" || feed.asked[0].Prove {
		t.Fatalf("asked for %+v", feed.asked)
	}
	d.Press("p").Sees("Against demo", "0.0955", "served", "compens.")
	if r := feed.asked[len(feed.asked)-1]; !r.Prove || r.Dir != "/data/out" || r.Master != "" {
		t.Errorf("the proof asks for %+v", r)
	}
	d.Press("down", "enter").Sees("L2 experts", "up/gate").Press("g").Press("enter").On(ScreenTensor)
	if role := d.m.scene.State.Tensors[d.m.scene.Cursor].Role; role.Layer != 2 || role.Projection != "up" || role.Expert != 5 {
		t.Errorf("the tensor is %+v", role)
	}
	d.Press("esc").On(ScreenAudit).Sees("up/gate").Press("esc").Sees("M5 experts")
	d.Press("n").Sees("source demo", "no second-level scales", "run with --out DIR")
	d.Press("p").Says("there is nothing to prove")
	d.Press("n").Sees("export out", "Against demo")
	d.Press("2", "p").Says("projection gate") // elsewhere p is what it was
}

// A checkpoint that is named is audited, with its master; what is wrong with it
// stays on the screen, and R tries again.
func TestScenarioAuditFolder(t *testing.T) {
	feed := auditing80(sessions.Saved, demoState())
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("7").Sees("source demo").Press("o").Sees("Audit a checkpoint").Type("/data/other").Press("tab").Type("/data/master").Press("enter")
	d.Sees("folder /data/other", "20 of 80").Press("p")
	if r := feed.asked[len(feed.asked)-1]; r.Dir != "/data/other" || r.Master != "/data/master" || !r.Prove {
		t.Errorf("asked for %+v", r)
	}
	good := feed.give
	feed.give = func(context.Context, sessions.AuditRequest) (*sessions.Audit, error) {
		return nil, errors.New("checkpoint: /data/none: no such file or directory")
	}
	n := len(feed.asked)
	d.Press("o").Type("/data/none").Press("enter").Sees("✗ checkpoint: /data/none: no such file or directory", "R tries this one again")
	if len(feed.asked) != n+1 {
		t.Errorf("asked %d times for what is not there", len(feed.asked)-n)
	}
	feed.give = good
	d.Press("R").Sees("20 of 80").Misses("✗")
	d.Press("o", "enter").Says("a checkpoint is needed").Press("esc").Misses("Audit a checkpoint")
	d.Press("N").Sees("folder /data/other")
}

// An audit ends when its subject or its source is left or the person stops it,
// and what it finds then is not shown.
func TestAuditIsCancelled(t *testing.T) {
	feed := auditing80(sessions.Saved, withExport())
	var ended []error
	feed.give = func(ctx context.Context, r sessions.AuditRequest) (*sessions.Audit, error) {
		if r.Dir != "" {
			ended = append(ended, ctx.Err())
		}
		return auditOf(r.Dir, false), nil
	}
	o := fixed()
	replay := newFakePlay(demoState())
	o.OpenReplay = func(string) (sessions.Player, error) { return replay, nil }
	d := drive(t, feed, o, 120, 40)
	for _, c := range []struct {
		name  string
		begin []string
		leave string
		shown string
	}{
		{"stop", []string{"7"}, "esc", "✗ stopped"},
		{"another subject", []string{"R"}, "n", "source demo"},
		{"another source", []string{"n"}, "r", "replay"},
	} {
		for _, key := range c.begin {
			d.Send(keyOf(key))
		}
		if !d.m.scene.Audits.Running {
			t.Fatalf("%s: nothing runs", c.name)
		}
		slow := d.todo
		d.todo = nil
		ended = nil
		d.Press(c.leave)
		d.todo = append(slow, d.todo...)
		d.WaitIdle().Sees(c.shown)
		if len(ended) == 0 || ended[0] == nil {
			t.Errorf("%s: the audit goes on", c.name)
		}
		if s := d.m.scene.Audits.Subjects; len(s) > 1 && s[1].Audit != nil {
			t.Errorf("%s: its answer is shown", c.name)
		}
	}
}

// What a session recorded is shown without looking again, and a replay that goes
// backwards forgets it.
func TestAuditsOfTheSession(t *testing.T) {
	st := demoState()
	st.Audits = []*sessions.Audit{auditOf("/data/out", true)}
	feed := auditing80(sessions.Saved, st)
	d := drive(t, feed, fixed(), 120, 40)
	d.Press("7").Sees("recorded /data/out", "Against demo")
	if len(feed.asked) != 0 {
		t.Errorf("asked for %+v", feed.asked)
	}
	feed.fakeFeed.give(sessions.Batch{Audits: []*sessions.Audit{auditOf("/data/second", false)}})
	d.WaitIdle().Sees("recorded /data/second")
	before := demoState()
	feed.fakeFeed.give(sessions.Batch{Reset: before, Progress: before.Progress})
	d.WaitIdle().Sees("source demo").Misses("recorded")
}

// A feed that cannot audit says so.
func TestAuditIsNotToBeHad(t *testing.T) {
	d := drive(t, newFakeFeed(sessions.Saved, demoState(), demoState()), fixed(), 80, 24)
	d.Press("7").Sees("checkpoints cannot be audited from here").Press("o").Says("checkpoints cannot be audited from here")
}

// The screen over the real engine: a run exports the demo with a scale of each
// tensor's own, the export is audited, proven and drilled into; the replay of
// the session shows the audit.
func TestScenarioAuditOfExport(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	dir := filepath.Join(t.TempDir(), "out")
	live, err := sessions.Start(ctx, sessions.Options{
		Checkpoint: "demo", Session: filepath.Join(t.TempDir(), "demo.qscope"), Variants: []string{"nvfp4"}, Threads: 1, Program: "test",
		GlobalScale: "tensor", Export: &sessions.ExportOptions{Dir: dir, Layout: "modelopt"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := live.Close(); err != nil {
			t.Error(err)
		}
	}()
	d := drive(t, live, withSessions(), 120, 40)
	d.Press("7").Sees("source demo", "no second-level scales")
	d.Until(ctx, func(st *sessions.State) bool { return len(st.Exports) == 1 })
	d.Sees("export "+dir[:20], "80 pairs differ", "globals-differ")
	d.Until(ctx, func(st *sessions.State) bool { return len(st.Audits) == 1 })
	d.Press("p").Sees("Against demo", "on average as stored")
	d.Until(ctx, func(st *sessions.State) bool { return len(st.Audits) == 2 })
	if n := len(d.m.scene.Audits.Subjects); n != 2 {
		t.Errorf("%d subjects: %+v", n, d.m.scene.Audits.Subjects)
	}
	r := d.m.scene.Audits.Shown().Audit.Census
	if p := r.Proof; p == nil || p.Members != r.Differing || !(p.Stored < p.Compensated && p.Compensated < p.Served) {
		t.Errorf("proof %+v of %d pairs", p, r.Differing)
	}
	d.Press("enter").Sees("up/gate").Press("g", "enter").On(ScreenTensor)
	if det := d.m.scene.Detail; det == nil || !strings.Contains(d.m.scene.State.Tensors[det.Tensor].Name, "up_proj") {
		t.Errorf("the tensor is %+v", det)
	}
	d.Press("esc", "esc", "r").Sees("» replay").Press("home").WaitIdle()
	if n := len(d.m.scene.State.Audits); n != 0 {
		t.Fatalf("%d audits at the beginning of the replay", n)
	}
	d.Press("end").Until(ctx, func(st *sessions.State) bool { return len(st.Audits) == 2 })
	d.Press("7").Sees("Against demo", "80 pairs differ")
}

// The screens of an audit at the sizes that the design names.
func TestAuditScreens(t *testing.T) {
	for _, size := range []struct{ w, h int }{{80, 24}, {120, 40}, {200, 60}} {
		d := drive(t, auditing80(sessions.Saved, withExport()), fixed(), size.w, size.h)
		for _, c := range []struct{ name, keys string }{{"audit", "7 p"}, {"audit-pairs", "enter g"}, {"audit-form", "o"}} {
			d.Press(strings.Fields(c.keys)...)
			fits(t, d.m.View(), size.w, size.h)
			golden(t, fmt.Sprintf("%s-%dx%d", c.name, size.w, size.h), d.m.View())
		}
	}
}
