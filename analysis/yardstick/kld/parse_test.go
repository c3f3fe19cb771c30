package kld

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseStatistics(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "printed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := ParseStatistics(strings.NewReader("llama_model_loader: loaded\nsystem_info: n_threads = 2 | CPU : SSE3 = 1\n" + string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Lines) != 6+12+16 || len(p.Running) != 11 {
		t.Errorf("%d lines, %d of them running", len(p.Lines), len(p.Running))
	}
	r := open(t, filepath.Join("testdata", "base.kld"))
	s := compare(t, r, readF32(t, filepath.Join("testdata", "candidate.f32")), new(strings.Builder))
	for key, want := range map[string]Figure{
		"Mean PPL(Q)": s.PPL(), "Mean ln(PPL(Q)/PPL(base))": s.LogRatio(), "Mean KLD": s.KL(),
		"Cor(ln(PPL(Q)), ln(PPL(base)))": {100 * s.Correlation(), math.NaN()}, "99.9% KLD": {sorted(s.kls).at(.999), math.NaN()},
		"RMS Δp": s.RMSdP().percent(), "Same top p": s.SameTop().percent(), "0.1% Δp": {100 * sorted(s.dps).at(.001), math.NaN()},
	} {
		l, ok := p.Find(key)
		if !ok || math.Abs(l.Value-want.Value) > 0.006 || math.IsNaN(l.Err) != math.IsNaN(want.Err) || math.Abs(l.Err-want.Err) > 0.006 {
			t.Errorf("%s: %+v, want %+v", key, l, want)
		}
	}
	if last := p.Running[10]; last.Chunk != 11 || math.Abs(last.KL.Value-s.KL().Value) > 1e-5 || math.Abs(last.SameTop.Err-100*s.SameTop().Err) > 1e-3 {
		t.Errorf("the last running line: %+v", last)
	}
	if _, ok := p.Find("Mean  KLD"); ok {
		t.Error("a key that is not there")
	}
}

func TestParseOldBuilds(t *testing.T) {
	// A build of early 2024: seven numbers a row, the share not in percent, and the
	// second 99.0% is the 95th percentile.
	p, err := ParseStatistics(strings.NewReader(strings.Join([]string{
		"chunk        PPL          ln(PPL(Q)/PPL(base))          KL-Divergence           Same top",
		"   1        7.5000       0.01000 ±    0.00200       0.00300 ±    0.00040    0.98000",
		"====== KL divergence statistics ======",
		"Mean    KLD:   0.003000 ±   0.000400",
		"99.0%   KLD:   0.050000",
		"99.0%   KLD:   0.020000",
		"====== Token probability statistics ======",
		"Same top p: 98.000 ± 0.500 %",
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	if r := p.Running[0]; r.Chunk != 1 || r.PPL.Value != 7.5 || !math.IsNaN(r.PPL.Err) || r.KL != (Figure{.003, .0004}) || r.SameTop.Value != 98 {
		t.Errorf("running line %+v", r)
	}
	a, okA := p.Find("99.0% KLD")
	b, okB := p.Find("95.0% KLD")
	if !okA || !okB || a.Value != .05 || b.Value != .02 {
		t.Errorf("percentiles %+v %+v", a, b)
	}
}

func TestParseIncomplete(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "printed.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []string{"", "Same top p", "RMS Δp", "====== KL"} {
		end := strings.Index(string(text), cut)
		if _, err := ParseStatistics(strings.NewReader(string(text)[:end])); !errors.Is(err, ErrIncomplete) {
			t.Errorf("cut before %q: %v", cut, err)
		}
	}
	if _, err := ParseStatistics(strings.NewReader(strings.Repeat("x", maxLine+1))); err == nil {
		t.Error("a line without end")
	}
}

func FuzzParseStatistics(f *testing.F) {
	text, err := os.ReadFile(filepath.Join("testdata", "printed.txt"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(text))
	f.Add("   1        nan       -inf ±    0.00200       0.00300 ±    1e999    0.98000\n")
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := ParseStatistics(strings.NewReader(text)); err == nil && len(p.Lines) == 0 {
			t.Error("no error and no lines")
		}
	})
}
