package views

import (
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// klCalibrated looks at a measurement with calibrated candidates.
func klCalibrated(t testing.TB, profile termenv.Profile) *KL {
	s := sceneIn(t, viewstest.Calibrated(), profile)
	y, r := viewstest.CalibratedYard()
	s.State.Yards = []*sessions.Yard{y}
	s.KL = KLWork{Report: r}
	return NewKL(s)
}

func TestKLCalibratedGolden(t *testing.T) {
	for _, size := range paneSizes {
		t.Run(size.name, func(t *testing.T) {
			p := klCalibrated(t, termenv.Ascii)
			p.SetSize(size.w, size.h)
			hit(p, "down")
			checkSize(t, p.View(), size.w, size.h)
			checkGolden(t, p.Title()+"\n"+p.View())
		})
	}
}

// Each verdict has its word, a tie is loud, and at every usual size the whole
// comparison with the baseline is in the row.
func TestKLSaysWhatCalibrationGained(t *testing.T) {
	for _, w := range []int{78, 118, 198} {
		p := klCalibrated(t, termenv.Ascii)
		p.SetSize(w, 35)
		text := p.View()
		for row, want := range map[string][]string{
			"int4-g128+gptq ":    {"−25.0 % [", "] better", "↓ 1 fell back"},
			"int4-g128+gptq+act": {"−1.0 % [−3.0, +1.0]", "not shown"},
			"nvfp4+imatrix":      {"+10.0 % [", "WORSE"},
			"nvfp4+gptq":         {"TIE: nothing changed", "✗ fidelity"},
		} {
			found := false
			for _, line := range strings.Split(text, "\n") {
				if !strings.HasPrefix(strings.TrimLeft(line, "▸ "), row) || found || strings.Contains(line, " is ") {
					continue
				}
				found = true
				for i, part := range want {
					if !strings.Contains(line, part) && !(w < 100 && i == len(want)-1 && strings.ContainsAny(part, "↓✗")) {
						t.Errorf("%d cells: no %q in %q", w, part, line)
					}
				}
			}
			if !found {
				t.Errorf("%d cells: no row %s in\n%s", w, row, text)
			}
		}
	}
}

// One order keeps every baseline with what is held against it.
func TestKLFamilies(t *testing.T) {
	p := klCalibrated(t, termenv.Ascii)
	p.SetSize(118, 35)
	for range len(klOrders) - 1 {
		hit(p, "s")
	}
	_ = p.View()
	var names []string
	for _, c := range p.rows.order {
		names = append(names, p.rows.party(c).Spec)
	}
	want := "demo nvfp4 nvfp4+gptq nvfp4+imatrix int4-g128 int4-g128+gptq int4-g128+gptq+act"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// Candidates that name each other as baselines are listed once.
	p.rows.report.Setup.Candidates[1].Baseline, p.rows.report.Setup.Candidates[4].Baseline = 4, 1
	p.rows.families()
	if len(p.rows.order) != len(names) {
		t.Errorf("%v", p.rows.order)
	}
}

// What the selected candidate was calibrated on stands on top.
func TestKLSaysWhatItWasCalibratedOn(t *testing.T) {
	p := klCalibrated(t, termenv.Ascii)
	p.SetSize(198, 35)
	hit(p, "down")
	if text := p.View(); !strings.Contains(text, "int4-g128+gptq is calibrated on calib (demo): 98304 tokens in 256 chunks, sha256 6a0bac2e91e3; 1 fell back: layers.2.mlp.experts.8.down_proj: no token") {
		t.Error(text)
	}
}

// What Compare says of KL is shortened, and then left out, before it is cut.
func TestCompareHeadIsNotCut(t *testing.T) {
	s := klCalibrated(t, termenv.Ascii).scene
	s.Baseline, s.Variant = 0, 1
	s.KL.Compared = &KLCompared{A: "int4-g128", B: "int4-g128+gptq", KLA: 0.0363, KLB: 0.0303, Pair: yardstick.Pair{DKL: -0.006, Low: -0.007, High: -0.005, Chunks: 72}}
	p := newCompare(s)
	p.SetSize(198, 55)
	hit(p, "c")
	_ = p.View()
	seen := map[string]bool{}
	for h, from := range map[int]int{1: 160, 2: 90} {
		for w := from; w < 300; w++ {
			text := strings.TrimSpace(p.head(&s.State.Variants[0], &s.State.Variants[1], rect{w: w, h: h}))
			if strings.Contains(text, "…") || !strings.HasSuffix(text, ".") {
				t.Fatalf("%d×%d: %q", w, h, text)
			}
			for _, part := range []string{"KL to the reference falls", "; KL 0."} {
				seen[part] = seen[part] || strings.Contains(text, part)
			}
			seen["none"] = seen["none"] || !strings.Contains(text, "KL")
		}
	}
	if len(seen) != 3 || !seen["KL to the reference falls"] || !seen["; KL 0."] || !seen["none"] {
		t.Errorf("%v", seen)
	}
}
