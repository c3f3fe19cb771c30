package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
	"quantscope/sessions"
)

// analyzed is a session of the demo under two variants.
func analyzed(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "demo.qscope")
	if o := command(t, "quantize", "demo", "--variant", "nvfp4,nvfp4+mse", "--session", path); o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	return path
}

func TestAnalyzeSaysTheVerdictFirst(t *testing.T) {
	session := analyzed(t)
	o := command(t, "analyze", session)
	if o.code != exitGood || o.err != "" {
		t.Fatalf("%+v", o)
	}
	verdict, figures := strings.Index(o.out, "nvfp4, routed experts: flat: the worst"), strings.Index(o.out, "mean rel2")
	if verdict < 0 || figures < verdict {
		t.Errorf("no verdict before the figures: %s", o.out)
	}
	for _, want := range []string{"── nvfp4 · routed experts · 240 tensors", "── nvfp4+mse · routed", "0.009049", "worst over mean", "kurtosis", "L4 → M5", "stands out    nothing of 5 layers, 16 expert indices and 3 projections"} {
		if !strings.Contains(o.out, want) {
			t.Errorf("the text does not say %q", want)
		}
	}
	one := command(t, "analyze", session, "--variant", "nvfp4+rtn")
	if one.code != exitGood || strings.Contains(one.out, "nvfp4+mse") || !strings.Contains(one.out, "── nvfp4 ·") {
		t.Errorf("%+v", one)
	}
}

func TestAnalyzeAsJSON(t *testing.T) {
	session := analyzed(t)
	o := command(t, "analyze", session, "--json")
	var d struct {
		Identity   string
		Confidence float64
		Variants   []struct {
			Variant string
			Bytes   int64
			Groups  []struct {
				Role     string
				Tensors  int
				MeanRel2 struct{ Value, Low, High float64 } `json:"mean_rel2"`
				Verdict  struct{ Kind, Sentence string }
			}
			Pricing any
		}
	}
	if err := json.Unmarshal([]byte(o.out), &d); err != nil || o.code != exitGood {
		t.Fatalf("%v %+v", err, o)
	}
	if len(d.Variants) != 2 || d.Confidence != 0.95 || d.Identity == "" || d.Variants[0].Pricing != nil || d.Variants[0].Bytes != 3932160*9/16+4*240 {
		t.Fatalf("%+v", d)
	}
	g := d.Variants[0].Groups[0]
	if g.Role != "routed experts" || g.Tensors != 240 || g.Verdict.Kind != "flat" || !(g.MeanRel2.Low < g.MeanRel2.Value && g.MeanRel2.Value < g.MeanRel2.High) {
		t.Errorf("%+v", g)
	}
}

func TestAnalyzeWritesAReport(t *testing.T) {
	session := analyzed(t)
	html := filepath.Join(t.TempDir(), "report.html")
	if o := command(t, "analyze", session, "--html", html); o.code != exitGood || !strings.HasPrefix(o.out, html+": ") {
		t.Fatalf("%+v", o)
	}
	first, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<!DOCTYPE html>", "What protection would cost", "records, sha256", "demo.qscope", "<dt>numerics</dt>"} {
		if !strings.Contains(string(first), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(string(first), filepath.Dir(session)) {
		t.Error("the report tells the folder of the session")
	}
	o := command(t, "analyze", session, "--html", html)
	o.refused(t, exitUsage)
	if !strings.Contains(o.err, "--force") {
		t.Error(o.err)
	}
	if o := command(t, "analyze", session, "--html", html, "--force", "--json"); o.code != exitGood || !strings.Contains(o.out, `"bytes"`) || !strings.Contains(o.out, `"curves"`) {
		t.Errorf("%.300s %s", o.out, o.err)
	}
	second, err := os.ReadFile(html)
	if err != nil || string(first) != string(second) {
		t.Errorf("the second report of the session differs (%v)", err)
	}
	left, err := os.ReadDir(filepath.Dir(html))
	if err != nil || len(left) != 1 {
		t.Errorf("beside the report: %v %v", left, err)
	}
}

// A report goes over no session, whether it is the one that it is of or another.
func TestAnalyzeKeepsSessions(t *testing.T) {
	session, other := analyzed(t), analyzed(t)
	before, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{session, other} {
		o := command(t, "analyze", session, "--html", out, "--force")
		o.refused(t, exitEnvironment)
		if !strings.Contains(o.err, "is the session itself") && !strings.Contains(o.err, "is a session") {
			t.Error(o.err)
		}
	}
	after, err := os.ReadFile(other)
	if err != nil || string(before) != string(after) {
		t.Error("the other session changed")
	}
}

func TestAnalyzeRefuses(t *testing.T) {
	session := analyzed(t)
	folder := t.TempDir()
	text := filepath.Join(folder, "x.qscope")
	if err := os.WriteFile(text, []byte("no session"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{}, exitUsage, "takes one session"},
		{[]string{session, session}, exitUsage, "takes one session"},
		{[]string{session, "--variant", "nvfp5"}, exitUsage, "it has: nvfp4, nvfp4+mse"},
		{[]string{session, "--variant", "nvfp4+sweep"}, exitUsage, "it has: nvfp4, nvfp4+mse"},
		{[]string{session, "--force"}, exitUsage, "--force goes with --html"},
		{[]string{session, "--html", folder}, exitEnvironment, "is a folder"},
		{[]string{session, "--html", filepath.Join(folder, "gone", "r.html")}, exitEnvironment, "gone"},
		{[]string{text}, exitBadInput, "is not a session"},
		{[]string{filepath.Join(folder, "gone.qscope")}, exitBadInput, "no such file"},
	} {
		o := command(t, append([]string{"analyze"}, c.args...)...)
		o.refused(t, c.code)
		if !strings.Contains(o.err, c.want) {
			t.Errorf("%v: %s", c.args, o.err)
		}
	}
}

// A session that somebody writes is reported as far as it is, and says so.
func TestAnalyzeReadsAlong(t *testing.T) {
	path := filepath.Join(t.TempDir(), "live.qscope")
	feed, err := sessions.Start(t.Context(), sessions.Options{Checkpoint: "demo", Session: path, Variants: []string{"nvfp4+sweep"}, Threads: 1, Program: version, KernelSet: kernels.Best()})
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	feed.Pause()
	html := path + ".html"
	o := command(t, "analyze", path, "--html", html, "--json")
	if o.code != exitGood {
		t.Fatalf("%+v", o)
	}
	page, err := os.ReadFile(html)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "Not all is measured") || strings.Contains(o.out, "records_sha256") || strings.Contains(string(page), "records, sha256") {
		t.Errorf("a session that is being written is reported as a finished one: %.400s", o.out)
	}
	if text := command(t, "analyze", path); text.code != exitGood || !strings.Contains(text.out, "  note      Not all is measured (") {
		t.Errorf("%+v", text)
	}
}
