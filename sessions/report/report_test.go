package report

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"

	"quantscope/analysis/landscape"
	"quantscope/sessions"
)

func TestTheSameSessionGivesTheSameBytes(t *testing.T) {
	st := fixture(4, 8, "nvfp4", "nvfp4+mse")
	one := write(t, build(t, st, Options{Pricing: true}))
	for range 3 {
		if two := write(t, build(t, st.Clone(), Options{Pricing: true})); one != two {
			t.Fatal("a second report of the same session differs")
		}
	}
}

// What a browser is told must be whole: tags in balance, ids unique, nothing that
// is fetched, and a policy that names the page's own style and script.
func TestPageIsWhole(t *testing.T) {
	html := write(t, build(t, fixture(4, 8, "nvfp4", "nvfp4+mse"), Options{Pricing: true, Settings: map[string]string{"numerics": "2"}}))
	balanced(t, html)
	seen := map[string]bool{}
	for _, m := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if seen[m[1]] {
			t.Errorf("id %q twice", m[1])
		}
		seen[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`aria-labelledby="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		for id := range strings.FieldsSeq(m[1]) {
			if !seen[id] {
				t.Errorf("no element has the id %q", id)
			}
		}
	}
	for _, fetched := range []string{"http:", "https:", " src=", " href=", "@import", "url(h", "url(/", "ZgotmplZ", "NaN", "%!"} {
		at := strings.Index(strings.ReplaceAll(html, "http://www.w3.org/2000/svg", ""), fetched)
		if at >= 0 {
			t.Errorf("the page has %q: …%.80s", fetched, html[max(0, at-40):])
		}
	}
	for _, want := range []string{"sha256-", "numerics", "<dt>numerics</dt><dd>2</dd>", strings.Repeat("5c", 32), "2025-11-30T00:00:00Z", "prefers-color-scheme: dark", "@media print", "What protection would cost"} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(html, "/somewhere") {
		t.Error("the folder of the session is told")
	}
}

// balanced asserts that every element that is opened is closed, in order.
func balanced(t *testing.T, html string) {
	t.Helper()
	body := regexp.MustCompile(`(?s)<(style|script)>.*?</(style|script)>`).ReplaceAllString(html, "")
	void := map[string]bool{"meta": true, "br": true, "!DOCTYPE": true, "link": true, "img": true}
	var open []string
	for _, m := range regexp.MustCompile(`<(/?)([A-Za-z!][A-Za-z0-9]*)([^<>]*?)(/?)>`).FindAllStringSubmatch(body, -1) {
		switch {
		case void[m[2]] || m[4] == "/":
		case m[1] == "":
			open = append(open, m[2])
		case len(open) == 0 || open[len(open)-1] != m[2]:
			t.Fatalf("</%s> closes %v", m[2], open)
		default:
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Fatalf("never closed: %v", open)
	}
}

// Whatever a session calls its tensors, files, variants and itself is text.
func TestHostileNamesStayText(t *testing.T) {
	st := fixture(2, 2, "nvfp4", hostile)
	plain := write(t, build(t, fixture(2, 2, "nvfp4", "other"), Options{Pricing: true}))
	for i := range st.Tensors {
		st.Tensors[i].Name += hostile
		st.Tensors[i].File = hostile
		st.Tensors[i].Role.Projection += hostile
	}
	st.Meta.Path, st.Meta.SourcePath, st.Meta.Summary, st.Meta.Targets, st.Meta.Family = hostile, hostile, hostile, hostile, hostile
	st.Meta.Program, st.Meta.KernelSet, st.Meta.SourceIdentity = hostile, hostile, hostile
	st.Variants[1].Effective = hostile + "!"
	st.Log = append(st.Log, sessions.Event{Kind: sessions.EventFinding, Variant: 1, Tensor: 0, Message: hostile})
	html := write(t, build(t, st, Options{Pricing: true, Settings: map[string]string{hostile: hostile}, Records: hostile}))
	for _, bad := range []string{"<script>alert", "<img", "onerror=alert(2)>"} {
		if strings.Contains(html, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	if !strings.Contains(html, "&lt;script&gt;alert(1)") {
		t.Error("the name is not there as text")
	}
	balanced(t, html)
	count := func(html, tag string) int { return strings.Count(html, "<"+tag) }
	for _, tag := range []string{"script", "style", "svg class=\"plot\"", "iframe", "object", "a "} {
		if a, b := count(html, tag), count(plain, tag); a != b {
			t.Errorf("%d <%s, %d without hostile names", a, tag, b)
		}
	}
}

func TestSizeOfALargeSession(t *testing.T) {
	st := fixture(48, 258, "nvfp4", "nvfp4+mse", "int4-g128")
	if len(st.Tensors) != 37_152 {
		t.Fatalf("%d tensors", len(st.Tensors))
	}
	html := write(t, build(t, st, Options{Pricing: true}))
	if len(html) >= 3_000_000 {
		t.Errorf("%d bytes", len(html))
	}
	if !strings.Contains(html, "100 of 37,152 tensors") {
		t.Error("the table of the worst does not say what it leaves out")
	}
}

// A session that has little or nothing is reported with reasons, not with
// figures that do not exist.
func TestPoorSessions(t *testing.T) {
	for name, st := range map[string]*sessions.State{
		"empty":        {},
		"no variants":  fixture(2, 2),
		"one layer":    fixture(1, 4, "nvfp4"),
		"one tensor":   one(fixture(1, 1, "nvfp4")),
		"nothing yet":  change(fixture(2, 4, "nvfp4"), func(r *sessions.Record) { *r = sessions.Record{} }),
		"all failed":   change(fixture(2, 4, "nvfp4"), func(r *sessions.Record) { *r = sessions.Record{Seq: 1, Tensor: r.Tensor, Failed: true} }),
		"NaN":          change(fixture(2, 4, "nvfp4"), func(r *sessions.Record) { r.Rel2, r.RelL2, r.Cos = math.NaN(), math.NaN(), math.NaN() }),
		"infinite":     change(fixture(2, 4, "nvfp4"), func(r *sessions.Record) { r.Rel2, r.RelL2 = math.Inf(1), math.Inf(1) }),
		"no variance":  change(fixture(3, 4, "nvfp4"), func(r *sessions.Record) { r.Rel2, r.RelL2 = 0.01, 0.1 }),
		"no error":     change(fixture(3, 4, "nvfp4"), func(r *sessions.Record) { r.Rel2, r.RelL2, r.Cos, r.E2 = 0, 0, 1, 0 }),
		"tiny error":   change(fixture(3, 4, "nvfp4"), func(r *sessions.Record) { r.Rel2, r.RelL2 = r.Rel2*1e-300, r.RelL2*1e-150 }),
		"unknown name": fixture(2, 4, "made-up"),
		"outside":      outside(fixture(2, 4, "nvfp4")),
	} {
		t.Run(name, func(t *testing.T) {
			html := write(t, build(t, st, Options{Pricing: true}))
			balanced(t, html)
			if name == "no error" && !strings.Contains(html, "Nothing is lost, so there is nothing to protect.") {
				t.Error("a price of nothing")
			}
			for _, bad := range []string{"NaN", "+Inf", "%!"} {
				if i := strings.Index(html, bad); i >= 0 {
					t.Errorf("the page says %q: %s", bad, html[max(0, i-80):i+20])
				}
			}
		})
	}
}

func one(st *sessions.State) *sessions.State {
	st.Tensors, st.Records[0] = st.Tensors[:1], st.Records[0][:1]
	return st
}

func outside(st *sessions.State) *sessions.State {
	for i := range st.Tensors {
		st.Tensors[i].Role.Layer = -1
	}
	return st
}

func change(st *sessions.State, f func(*sessions.Record)) *sessions.State {
	for v := range st.Records {
		for i := range st.Records[v] {
			f(&st.Records[v][i])
		}
	}
	return st
}

// A run that is not over, and one with failures, say so where a reader begins.
func TestUnfinishedIsSaid(t *testing.T) {
	st := fixture(3, 4, "nvfp4", "nvfp4+mse")
	for i := range st.Tensors[:10] {
		st.Records[1][i] = sessions.Record{}
	}
	st.Records[0][3] = sessions.Record{Seq: 9, Tensor: 3, Failed: true}
	st.Records[0][4].Rel2, st.Records[0][4].RelL2 = math.NaN(), math.NaN()
	st.Progress.State, st.Progress.Done, st.Progress.Failed = sessions.RunRunning, 61, 1
	st.Log = []sessions.Event{
		{Kind: sessions.EventFailed, Variant: 0, Tensor: 3, Message: "model.safetensors: read"},
		{Kind: sessions.EventFallback, Variant: 0, Tensor: 5, Message: "no room for scales"},
		{Kind: sessions.EventFinding, Variant: -1, Tensor: -1, Message: "session file run.qscope is damaged"},
	}
	html := write(t, build(t, st, Options{}))
	for _, want := range []string{
		"Not all is measured (running): 10 of 72 measurements are missing.", "1 measurement failed.", "1 fallback:", "Session file run.qscope is damaged.",
		"10 tensors not measured yet.", "1 tensor failed.", "1 tensor without a finite figure.", `class="bad"`, `class="pending"`, "no room for scales",
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestVariantsAreChosen(t *testing.T) {
	st := fixture(2, 4, "nvfp4", "nvfp4+mse")
	st.Log = []sessions.Event{{Kind: sessions.EventFailed, Variant: 0, Tensor: 1, Message: "of the other"}}
	r := build(t, st, Options{Variants: []int{1}})
	if len(r.Variants) != 1 || r.Variants[0].Summary.Variant != "nvfp4+mse" || len(r.Notes) != 0 {
		t.Fatalf("%+v", r)
	}
	if r.Variants[0].Pricing != nil || strings.Contains(write(t, r), "What protection would cost") {
		t.Error("a price that nobody asked for")
	}
	for _, id := range []int{-1, 2} {
		if _, err := Build(t.Context(), st, Options{Variants: []int{id}}); err == nil || !strings.Contains(err.Error(), "the session has 2") {
			t.Errorf("variant %d: %v", id, err)
		}
	}
}

func TestContextEndsIt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Build(ctx, fixture(2, 4, "nvfp4"), Options{Pricing: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Nothing in a report changes the session that it is of.
func TestStateIsKept(t *testing.T) {
	st := fixture(2, 4, "nvfp4", "nvfp4+mse")
	before, err := json.Marshal([]any{st.Tensors, st.Variants, st.Records[0][0].Rel2})
	if err != nil {
		t.Fatal(err)
	}
	write(t, build(t, st, Options{Pricing: true}))
	after, _ := json.Marshal([]any{st.Tensors, st.Variants, st.Records[0][0].Rel2})
	if string(before) != string(after) {
		t.Error("the state changed")
	}
}

func TestFiguresHaveReasons(t *testing.T) {
	g := &landscape.Group{
		Role: "attention", Tensors: 4, MeanRel2: interval(0.009, 0.0001), MeanRelL2: landscape.Exact(0.0949), CosMin: landscape.Exact(0.995), CosMax: landscape.Exact(0.996),
		WorstOverMean: landscape.Exact(1.25), WorstCount: 1, WorstShare: interval(0.3, 0.01),
		Anova: landscape.Anova{Why: "no experts"}, Neighbours: landscape.Neighbours{Why: "no experts"}, Tail: landscape.Tail{Why: "fewer than 8 tensors"},
	}
	got := map[string]Figure{}
	for _, f := range Figures(g) {
		got[f.Name] = f
	}
	for name, want := range map[string][3]string{
		"mean rel2":                {"0.009000", "[0.008900, 0.009100]", ""},
		"worst over mean":          {"1.250", "", ""},
		"share of worst 1 %":       {"30.00 %", "[29.00 %, 31.00 %]", ""},
		"F":                        {none, "", "no experts"},
		"adjusted p":               {none, "", "no experts"},
		"mean ρ of experts' ranks": {none, "", "no experts"},
		"tensors in the tail":      {none, "", "fewer than 8 tensors"},
		"clamped high":             {"0", "", ""},
	} {
		if f := got[name]; f.Value != want[0] || f.Interval != want[1] || f.Why != want[2] {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
