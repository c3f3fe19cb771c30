package views

import (
	"math"
	"slices"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/muesli/termenv"

	"quantscope/analysis/calibrate"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// calibScene looks at the calibrated variant of a session by one of its figures.
func calibScene(t testing.TB, state *sessions.State, profile termenv.Profile, metric string) *Scene {
	s := sceneIn(t, state, profile)
	m, ok := MetricByName(metric)
	if !ok {
		t.Fatal(metric)
	}
	s.SetMetric(m)
	s.SetVariant(1)
	return s
}

// The tokens of an expert are those of all its projections; only its down
// projection is below rank, an expert without tokens is all inactive, and what
// fell back has no figure of calibration.
func TestStatesOfCalibration(t *testing.T) {
	state := viewstest.Calibrated()
	tokens, damping := calibScene(t, state, termenv.Ascii, "tokens"), calibScene(t, state, termenv.Ascii, "damping")
	seen := map[CellState]int{}
	for id := range state.Tensors {
		tr := tokens.Trade(1, id)
		r := &state.Tensors[id].Role
		n := state.Calibrations[0].Units[r.Layer-1].Counts[0].Expert[r.Expert]
		want := Measured
		switch {
		case n == 0:
			want = Inactive
		case n < 128 && r.Projection == "down":
			want = BelowRank
		}
		got := tokens.States(1)[id]
		if got != want || got.HasValue() && tokens.Values(1)[id] != float64(n) {
			t.Fatalf("%s: state %d and %v tokens, want %d and %d", state.Tensors[id].Name, got, tokens.Values(1)[id], want, n)
		}
		seen[got]++
		want = Measured
		if n == 0 && r.Projection == "down" {
			want = FellBack
		}
		if got := damping.States(1)[id]; got != want || got.HasValue() && damping.Values(1)[id] != float64(tr.DampShare) {
			t.Fatalf("%s: damping in state %d, want %d", state.Tensors[id].Name, got, want)
		}
		if st := damping.States(0)[id]; st != Absent {
			t.Fatalf("%s: state %d under a variant that is not calibrated", state.Tensors[id].Name, st)
		}
	}
	if seen[Inactive] == 0 || seen[BelowRank] == 0 {
		t.Errorf("%v", seen)
	}
}

// The map fills layer by layer, whatever is read in between, and another state
// leaves nothing of the first behind.
func TestTradesFollowTheState(t *testing.T) {
	state := viewstest.Calibrated()
	setup, units := viewstest.Calibration(state, 1)
	state.Calibrations = nil
	s := calibScene(t, state, termenv.Ascii, "tokens")
	m := NewMap(s)
	m.SetSize(70, 30)
	has := func() (n int) {
		for _, st := range s.States(1) {
			if st != NotYet && st != Absent {
				n++
			}
		}
		return n
	}
	give := func(b sessions.Batch) {
		state.LastSeq++
		b.LastSeq = state.LastSeq
		state.Apply(b)
		m.Apply(b)
		s.Touch()
	}
	give(sessions.Batch{CalibsBegun: []sessions.CalibBegun{{Setup: setup}}})
	if has() != 0 || !strings.Contains(m.View(), "0 of 5 layers") {
		t.Errorf("%d before the first layer:\n%s", has(), m.View())
	}
	for i, u := range units {
		give(sessions.Batch{CalibsDone: []sessions.CalibDone{{Unit: u}}})
		if has() != 48*(i+1) {
			t.Fatalf("%d tensors after %d layers", has(), i+1)
		}
		_ = m.View()
	}
	// A second calibration of the variant: its trades are newer.
	u := units[0]
	u.Matrices = slices.Clone(u.Matrices)
	u.Matrices[0].Out2 = 0.123
	give(sessions.Batch{CalibsBegun: []sessions.CalibBegun{{Calibration: 1, Setup: setup}}, CalibsDone: []sessions.CalibDone{{Calibration: 1, Unit: u}}})
	if tr := s.Trade(1, u.Matrices[0].Tensor); tr.Out2 != 0.123 {
		t.Errorf("out2 %v is of the older calibration", tr.Out2)
	}
	for id := range state.Tensors { // as the state itself says
		want, ok := state.Trade(1, id)
		if tr := s.Trade(1, id); !ok || !sameTrade(*tr, want) {
			t.Fatalf("%s: %+v, want %+v", state.Tensors[id].Name, *tr, want)
		}
	}
	// A state with as many calibrations and layers whose figures differ.
	other := state.Clone()
	changed := other.Calibrations[1].Units[0]
	changed.Matrices = slices.Clone(changed.Matrices)
	changed.Matrices[0].Out2 = 0.456
	other.Calibrations[1].Units[0] = changed
	give(sessions.Batch{Reset: other})
	if tr := s.Trade(1, changed.Matrices[0].Tensor); tr.Out2 != 0.456 {
		t.Errorf("out2 %v is of the state before", tr.Out2)
	}
	empty := state.Clone()
	empty.Calibrations = empty.Calibrations[:1]
	empty.Calibrations[0].Units = nil
	give(sessions.Batch{Reset: empty})
	if has() != 0 {
		t.Errorf("%d tensors after a replay went back to the beginning", has())
	}
}

// sameTrade compares what is a NaN as equal.
func sameTrade(a, b calibrate.Trade) bool {
	for _, p := range [][2]*calibrate.Float{{&a.Cond, &b.Cond}, {&a.DampShare, &b.DampShare}, {&a.Out2, &b.Out2}, {&a.BaseOut2, &b.BaseOut2}} {
		for _, f := range p {
			if math.IsNaN(float64(*f)) {
				*f = -1
			}
		}
	}
	return a == b
}

// The line of totals has the counts, the bound with its figures and its verdict,
// and shortens before it is cut.
func TestTokenWords(t *testing.T) {
	c := calibTotals{experts: 64, inactive: 3, below: 12, rank: calibrate.RankBound{Inner: 128, Experts: 16, TopK: 2, Tokens: 98_304, Need: 1024}}
	for w, want := range map[int]string{
		100: "3 of 64 experts inactive, 12 below rank; T 98,304 ≥ 128·16/2 = 1,024 needed: met",
		74:  "3 of 64 experts inactive, 12 below rank; T 98,304 ≥ 128·16/2 needed: met",
		71:  "3 of 64 experts inactive, 12 below rank; T 98,304 ≥ 1,024 needed: met",
		58:  "3 of 64 experts inactive, 12 below rank; rank bound met",
		64:  "3 of 64 experts inactive, 12 below rank; T 98,304 ≥ 1,024: met",
	} {
		if got := c.tokenWords(w); got != want {
			t.Errorf("%d cells: %q, want %q", w, got, want)
		}
	}
	first := calibTotals{rank: c.rank} // before the first layer is done
	if got, want := first.tokenWords(100), "nothing counted yet; T 98,304 ≥ 128·16/2 = 1,024 needed: met"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	dense := calibTotals{rank: calibrate.RankBound{Tokens: 98_304}}
	if got, want := dense.tokenWords(100), "T 98,304; the model has no experts"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.rank.Tokens = 512
	if got := c.tokenWords(100); !strings.HasSuffix(got, "T 512 < 128·16/2 = 1,024 needed: NOT met") {
		t.Error(got)
	}
}

// A gate that failed is the first thing that the totals say.
func TestRunWords(t *testing.T) {
	c := calibTotals{matrices: 240, ran: 230, fell: 8, chosen: 2, weights: 240, fellWeights: 8, codes: 100, changed: 40}
	if got, want := c.runWords(120), "230 of 240 calibrated, 8 fell back (3.33 % of weights), 2 left out as asked; 40.00 % of codes changed"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := c.runWords(50), "230 of 240 calibrated, 8 fell back (3.33 %)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	c.end = &sessions.CalibrateEnd{Gate: "all 230 matrices equal their baseline"}
	if got := c.runWords(200); !strings.HasPrefix(got, "fidelity gate FAILED: all 230 matrices equal their baseline; 230 of 240") {
		t.Error(got)
	}
}

// What fell back leads the list of the worst, with what ran and why.
func TestWorstShowsFallbacks(t *testing.T) {
	s := calibScene(t, viewstest.Calibrated(), termenv.Ascii, "out2")
	p := NewWorst(s)
	p.SetSize(110, 30)
	hit(p, "home")
	lines := strings.Split(p.View(), "\n")
	if !strings.Contains(lines[1], "↓ ran as int4-g128: no token of the calibration text") || !strings.Contains(lines[1], "fell back") {
		t.Error(lines[1])
	}
	s.SetMetric(Metrics()[0]) // by a figure of its record it has a rank, and is marked
	if text := p.View(); strings.Contains(text, "fell back") {
		t.Error(text)
	}
	s.SetCursor(slices.IndexFunc(s.State.Tensors, func(x sessions.Tensor) bool { tr := s.Trade(1, x.ID); return fellBack(tr) }))
	if text := p.View(); !strings.Contains(text, "↓ ran as int4-g128: no token") {
		t.Error(text)
	}
}

// Places on a logarithmic scale: equal factors are equal steps.
func TestLogScale(t *testing.T) {
	s := Scale{Lo: 10, Hi: 1000, Log: true}
	for v, want := range map[float64]float64{10: 0, 100: 0.5, 1000: 1, 1: 0, 1e6: 1, 0: 0, -3: 0} {
		if got := s.Place(v); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v is at %v, want %v", v, got, want)
		}
	}
	s.Flip = true
	if got := s.Place(10); got != 1 {
		t.Errorf("flipped 10 is at %v", got)
	}
	if s = (Scale{Lo: 0, Hi: 4, Log: true}); s.Place(1) != 0.25 {
		t.Errorf("without a positive limit the scale is linear: %v", s.Place(1))
	}
}

// comparing looks at A and B of a state.
func comparing(t testing.TB, state *sessions.State, a, b int) (*Scene, *Compare) {
	s := sceneOf(t, state)
	s.Baseline, s.Variant = a, b
	return s, newCompare(s)
}

// The trade of a calibrated variant and its baseline, and of one that is neither.
func TestTradeSides(t *testing.T) {
	state := viewstest.Calibrated()
	for _, c := range []struct {
		a, b  int
		sides [2]tradeSide
		note  string
	}{
		{0, 1, [2]tradeSide{tradeOfOther, tradeOwn}, "A is not calibrated: its figures are of B's baseline"},
		{1, 0, [2]tradeSide{tradeOwn, tradeOfOther}, "B is not calibrated: its figures are of A's baseline"},
		{2, 1, [2]tradeSide{tradeNone, tradeOwn}, "A is not calibrated and not the baseline of B"},
		{0, 2, [2]tradeSide{}, ""},
	} {
		s, p := comparing(t, state, c.a, c.b)
		sideA, sideB := s.tradeSides(c.a, c.b)
		if sideA != c.sides[0] || sideB != c.sides[1] {
			t.Errorf("%d, %d: sides %d and %d, want %v", c.a, c.b, sideA, sideB, c.sides)
		}
		p.SetSize(118, 35)
		if hit(p, "c") != (c.note != "") {
			t.Errorf("%d, %d: c works: %v", c.a, c.b, c.note == "")
		}
		if text := strings.Join(strings.Fields(p.View()), " "); c.note != "" && !strings.Contains(text, strings.Fields(c.note)[0]+" is not calibrated") {
			t.Errorf("%d, %d: no note in\n%s", c.a, c.b, p.View())
		}
	}
}

// The list is in order of what B loses, its means are those of the rows with both
// figures, and the other way round every ratio is turned over.
func TestTradeList(t *testing.T) {
	state := viewstest.Calibrated()
	s, _ := comparing(t, state, 0, 1)
	var l, back tradeList
	l.update(s, 0, 1)
	back.update(s, 1, 0)
	ratio := map[int]float64{}
	var relB, outA float64
	n := 0
	for i, r := range l.rows {
		if i > 0 && r.ratio > l.rows[i-1].ratio {
			t.Fatalf("row %d: %v after %v", i, r.ratio, l.rows[i-1].ratio)
		}
		ratio[r.tensor] = r.ratio
		if !math.IsNaN(r.ratio) {
			relB, outA, n = relB+r.relB, outA+r.outA, n+1
		}
	}
	for _, r := range back.rows {
		if math.IsNaN(r.ratio) != math.IsNaN(ratio[r.tensor]) || math.Abs(r.ratio*ratio[r.tensor]-1) > 1e-12 {
			t.Fatalf("tensor %d: %v one way, %v the other", r.tensor, ratio[r.tensor], r.ratio)
		}
	}
	if l.n != n || l.n != 239 || l.without != 1 || l.fell != 1 || l.heavier != n || math.Abs(l.relB-relB/float64(n)) > 1e-15 || math.Abs(l.outA-outA/float64(n)) > 1e-15 {
		t.Errorf("%d of %d rows, %d without, %d fell back, %d heavier", l.n, n, l.without, l.fell, l.heavier)
	}
	if !(l.outB < l.outA && l.relB > l.relA && l.lower < l.n && l.lower > 230) || l.losses() != l.n-l.lower {
		t.Errorf("%+v", l)
	}
	if text := l.sentence(&state.Variants[0], &state.Variants[1]); !strings.Contains(text, "more weight error") || !strings.Contains(text, "less output error on the calibration text than int4-g128") {
		t.Error(text)
	}
}

func TestTradeGolden(t *testing.T) {
	for _, size := range paneSizes {
		for at, part := range []string{"table", "chart", "sums"} {
			if at > 0 && size.name != "80x24" {
				continue
			}
			t.Run(size.name+"-"+part, func(t *testing.T) {
				_, p := comparing(t, viewstest.Calibrated(), 0, 1)
				p.SetSize(size.w, size.h)
				hit(p, "c")
				for range at {
					hit(p, "o")
				}
				hit(p, "g")
				checkSize(t, p.View(), size.w, size.h)
				checkGolden(t, p.Title()+"\n"+p.View())
			})
		}
	}
}

// A click on a row of the table puts the cursor on its tensor.
func TestTradeClick(t *testing.T) {
	s, p := comparing(t, viewstest.Calibrated(), 0, 1)
	p.SetSize(118, 35)
	hit(p, "c")
	_ = p.View()
	r := p.layout().parts[compareTradeTable]
	from, _, _ := p.trades.tradeWindow(s.Cursor, r.h)
	if ok, _ := p.HandleMouse(r.x+4, r.y+3, tea.MouseMsg{Action: tea.MouseActionPress, Button: tea.MouseButtonLeft}); !ok || s.Cursor != p.trades.rows[from+2].tensor {
		t.Errorf("%v: cursor %d, want %d", ok, s.Cursor, p.trades.rows[from+2].tensor)
	}
}

// Labels of logarithmic axes stand at their places and apart.
func TestLogTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		n      int
		first  string
		least  int
	}{{-3, 0, 60, "0.001", 4}, {math.Log10(0.004), math.Log10(0.012), 60, "0.004", 4}, {-8, 2, 30, "1.0e−06", 2}, {-2, 0, 12, "0.01", 2}, {0, 0, 60, "", 0}, {math.NaN(), 1, 60, "", 0}} {
		ticks := logTicks(c.lo, c.hi, c.n)
		if len(ticks) < c.least || len(ticks) > 0 && ticks[0].label != c.first {
			t.Errorf("%v to %v in %d: %v", c.lo, c.hi, c.n, ticks)
		}
		for i := 1; i < len(ticks); i++ {
			if ticks[i].at-ticks[i-1].at < 2 || ticks[i].at >= c.n {
				t.Errorf("%v to %v in %d: %v", c.lo, c.hi, c.n, ticks)
			}
		}
	}
}

// The tensor's own screen says what ran instead of what was asked for, and what
// calibration did to it.
func TestTensorSaysWhatRan(t *testing.T) {
	s := calibScene(t, viewstest.Calibrated(), termenv.Ascii, "rel_l2")
	s.SetCursor(slices.IndexFunc(s.State.Tensors, func(x sessions.Tensor) bool { return fellBack(s.Trade(1, x.ID)) }))
	p := newTensor(s)
	p.SetSize(198, 55)
	text := p.View()
	for _, want := range []string{"↓ int4-g128+gptq ran as int4-g128: no token of the calibration text was routed to it", "ran as", "H rank", "out/baseline"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	s.SetCursor(0)
	if text := p.View(); !strings.Contains(text, "as asked") || strings.Contains(text, "↓") {
		t.Error(text)
	}
}
