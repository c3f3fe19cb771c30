package views

import (
	"fmt"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// Only the measurement that runs says so: of the others one that has not ended is
// interrupted where nobody can go on with it, and R is named where it does
// something.
func TestKLSaysWhatRuns(t *testing.T) {
	const of = "13 of 40 chunks scored"
	for _, c := range []struct {
		name       string
		mode       sessions.Mode
		work       KLWork
		says, hide string
	}{
		{"saved", sessions.Saved, KLWork{Runs: -1}, "■ interrupted: " + of + "; figures are of those, R goes on", "▶"},
		{"saved and measuring it", sessions.Saved, KLWork{Running: true, Runs: 0}, "▶ " + of, "interrupted"},
		{"saved and measuring another", sessions.Saved, KLWork{Running: true, Runs: 1}, "■ interrupted: " + of + "; figures are of those", "R goes on"},
		{"which is not known yet", sessions.Saved, KLWork{Running: true, Runs: -1}, "▶ " + of, "interrupted"},
		{"followed", sessions.Follow, KLWork{Runs: -1, Off: "no"}, "▶ " + of, "space"},
		{"replayed", sessions.Replay, KLWork{Runs: -1, Off: "no"}, "▶ " + of, "space"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := klScene(t, termenv.Ascii, 13, false)
			c.work.Report = s.KL.Report
			s.KL, s.Mode = c.work, c.mode
			p := NewKL(s)
			p.SetSize(118, 35)
			if text := p.View(); !strings.Contains(text, c.says) || strings.Contains(text, c.hide) {
				t.Errorf("want %q and no %q in\n%s", c.says, c.hide, text)
			}
		})
	}
}

// Before there is a figure a held measurement is not said to go on.
func TestKLPausedBeforeTheFirstChunk(t *testing.T) {
	s := klScene(t, termenv.Ascii, 0, false)
	s.KL = KLWork{Running: true, Paused: true, Progress: yardstick.Progress{Stage: "candidates", Done: 1, Total: 7}}
	p := NewKL(s)
	p.SetSize(118, 35)
	if text := p.View(); !strings.Contains(text, "‖ paused: computing candidates") || !strings.Contains(text, "space goes on") || strings.Contains(text, "▶") {
		t.Error(text)
	}
}

// What a batch brings while a measurement runs is of that one.
func TestKLLearnsWhatRuns(t *testing.T) {
	s := klScene(t, termenv.Ascii, 13, false)
	p := NewKL(s)
	s.KL.Runs = -1
	p.Apply(sessions.Batch{YardChunks: []sessions.YardChunk{{Yard: 0}}})
	if s.KL.Runs != -1 {
		t.Error("nothing runs, and it is known which one it is")
	}
	s.KL.Running = true
	p.Apply(sessions.Batch{YardsBegun: []sessions.YardBegun{{Yard: 1}}})
	if s.KL.Runs != 1 {
		t.Errorf("what began is 1, not %d", s.KL.Runs)
	}
	p.Apply(sessions.Batch{YardChunks: []sessions.YardChunk{{Yard: 0}}})
	if s.KL.Runs != 0 {
		t.Errorf("what is scored is 0, not %d", s.KL.Runs)
	}
}

// The table shows all corpora or none, and stays where it is while the selection
// moves and when a measurement ends.
func TestKLTableHolds(t *testing.T) {
	done, begun := klScene(t, termenv.Ascii, 40, false), klScene(t, termenv.Ascii, 13, false)
	begun.KL.Running = true
	for w := 60; w < 130; w += 3 {
		p := NewKL(done)
		p.SetSize(w, 35)
		at := -1
		for range done.KL.Report.Results {
			lines := strings.Split(p.View(), "\n")
			for y, line := range lines {
				if !strings.HasPrefix(line, "  candidate") {
					continue
				}
				if at >= 0 && y != at {
					t.Errorf("%d cells: the table is in line %d, and in line %d with another selection", w, at, y)
				}
				at = y
				n := 0
				for _, c := range []string{" prose", " code", " math", " multi", " chat"} {
					if strings.Contains(line, c) {
						n++
					}
				}
				if n != 0 && n != 5 {
					t.Errorf("%d cells: %d of 5 corpora: %q", w, n, line)
				}
				break
			}
			hit(p, "down")
		}
		p = NewKL(begun)
		p.SetSize(w, 35)
		if lines := strings.Split(p.View(), "\n"); at < 0 || !strings.HasPrefix(lines[at], "  candidate") {
			t.Errorf("%d cells: the table is in line %d when all is scored, and not before", w, at)
		}
	}
}

// A row of a part stands below its candidate and is named for the part alone;
// sorted it has its whole name. What is said of a candidate is not that a part of
// it alone is better.
func TestKLNamesParts(t *testing.T) {
	s := klScene(t, termenv.Ascii, 40, false)
	setup := s.State.Yards[0].Setup
	for i := range 2 {
		part := yardstick.Party{Label: fmt.Sprintf("nvfp4 only part %d", i), Spec: "nvfp4", BitsPerWeight: 12, Baseline: -1, Of: 2, Part: "x"}
		setup.Candidates = append(setup.Candidates, part)
		for _, k := range s.State.Yards[0].Chunks {
			k.Rows = append(k.Rows, k.Rows[1])
		}
	}
	s.KL.Report = viewstest.YardReport(s.State.Yards[0])
	s.KL.Report.Pairs = []yardstick.Pair{{A: 2, B: 7, DKL: -0.01, Low: -0.02, High: -0.005, Wins: 4, Chunks: 4}, {A: 1, B: 2, DKL: 0.02, Low: 0.01, High: 0.03, Chunks: 4}}
	p := NewKL(s)
	p.SetSize(118, 35)
	hit(p, "down")
	if text := p.View(); !strings.Contains(text, "└ only part 1 ") || strings.Contains(text, "nvfp4 only part") {
		t.Errorf("no row of a part alone in\n%s", text)
	}
	if p.at != 2 || !strings.HasPrefix(p.sentence(), "nvfp4 is worse than fp8") {
		t.Errorf("of %d: %s", p.at, p.sentence())
	}
	hit(p, "s")
	if text := p.View(); !strings.Contains(text, "  nvfp4 only part 1 ") || strings.Contains(text, "└") {
		t.Errorf("no whole name in\n%s", text)
	}
}

// A corpus of which nothing is scored yet has no figure, and none that is wrong.
func TestKLCorpusNotBegun(t *testing.T) {
	s := klScene(t, termenv.Ascii, 3, false)
	p := NewKL(s)
	for _, w := range []int{78, 118, 198} {
		p.SetSize(w, 35)
		p.part = klCorpora
		if text := p.View(); strings.Contains(text, "NaN") || !strings.Contains(text, " –") {
			t.Errorf("%d cells: NaN, or no – in\n%s", w, text)
		}
	}
}

// What has no figure everywhere is said before gates that fail for that reason.
func TestKLCountsNaN(t *testing.T) {
	s := klScene(t, termenv.Ascii, 40, false)
	r := s.KL.Report
	r.Results[2].All.NaN, r.Results[3].All.Infinite = 1278, 12
	r.Gates = []yardstick.Gate{{Name: "finite", Of: 2}, {Name: "finite", Of: 3}, {Name: "fidelity", Of: 4}}
	p := NewKL(s)
	p.SetSize(118, 35)
	for _, want := range []string{"× 1,278 NaN", "× 12 ∞", "✗ fidelity"} {
		if !strings.Contains(p.View(), want) {
			t.Errorf("no %q in\n%s", want, p.View())
		}
	}
}

// The chart of a chunk has the position where it stands, and is as high as that.
func TestKLInTheChunk(t *testing.T) {
	p := NewKL(klScene(t, termenv.Ascii, 40, false))
	p.SetSize(118, 36)
	for _, key := range []string{"down", "down", "enter", "down", "enter"} {
		hit(p, key)
	}
	k := &p.rows.worst[p.worst.selected]
	text := p.View()
	_, chart, ok := strings.Cut(text, "KL in the chunk  of nvfp4+mse, ")
	if mark := fmt.Sprintf("▲%d ", k.At+1); !ok || !strings.Contains(chart, mark) {
		t.Fatalf("no %q in\n%s", mark, text)
	}
	checkSize(t, text, 118, 36)
}
