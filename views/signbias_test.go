package views

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"quantscope/kernels"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// coded is the demo's session whose second variant has codebooks: its sign biases are
// even and odd in turn, and grow with the tensor's number.
func coded() *sessions.State {
	st := viewstest.Demo()
	for t := range st.Tensors {
		r := &st.Records[1][t]
		r.Bias, r.RowBias, r.RowBiasMax, r.Codebook = 0.001*float64(t+1), 0.03, 0.11, 1<<15|1<<10|1<<0|1<<5
		if t%2 == 0 {
			r.Bias = -r.Bias
		}
		r.Deep = 0
	}
	return st
}

// The sign bias of formats without a codebook is not there, is drawn as such, and the
// detail says why; of others it is ranked by its magnitude, on a scale around 0.
func TestSignBias(t *testing.T) {
	s := sceneOf(t, coded())
	m, ok := MetricByName("sign_bias")
	if !ok {
		t.Fatal("sign_bias is no metric")
	}
	s.SetMetric(m)
	n := len(s.State.Tensors)
	if got := worstOf(s, 1, 3); !slices.Equal(got, []int{n - 1, n - 2, n - 3}) {
		t.Errorf("worst are %v, want the last three", got)
	}
	for _, tensor := range []int{0, n - 1} {
		want := -0.001
		if tensor > 0 {
			want = 0.001 * float64(n)
		}
		if got := s.Values(1)[tensor]; got != want || s.States(1)[tensor] != Measured {
			t.Errorf("tensor %d: %v, %v, want %v", tensor, got, s.States(1)[tensor], want)
		}
		if got := s.Values(0)[tensor]; !math.IsNaN(got) || s.States(0)[tensor] != Absent {
			t.Errorf("nvfp4: %v, %v, want none", got, s.States(0)[tensor])
		}
	}
	pane := NewMap(s).(*Map)
	pane.SetSize(69, 31)
	pane.View()
	if k := pane.heat.scale; !k.Diverging || !k.Far || k.Lo != -k.Hi {
		t.Errorf("scale %+v", k)
	}
	// Of the experts' three projections a cell shows the one farthest from 0.
	pane.SetSize(20, 31)
	pane.View()
	row, col := pane.heat.cellOf(0)
	if c := pane.heat.cells[row*len(pane.heat.layout.cols)+col]; math.Abs(c.value) < 0.003 {
		t.Errorf("the first cell shows %v of −0.001, 0.002, −0.003 and more", c.value)
	}

	s.Detail = &Detail{Tensor: s.Cursor, Taps: []*kernels.Tap{nil, {HasBias: true, Bias: kernels.Bias{L2: 0.0941, Sym: 0.0973}}, nil}}
	d := NewDetail(s)
	d.SetSize(60, 60)
	view := ansi.Strip(d.View())
	for _, want := range []string{"sign bias", "row bias", "of a row", "codebook", "least rel2", "if ±a ±b", "0.0941", "0.0973", "+0.1010", "the sign of errors is kept of codebooks alone"} {
		if s.Cursor%2 == 0 {
			want = strings.Replace(want, "+0.1010", "−0.1010", 1)
		}
		if !strings.Contains(view, want) {
			t.Errorf("the detail lacks %q:\n%s", want, view)
		}
	}
	table := tensorTable(s, s.Cursor, 110, 24)
	for _, want := range []string{"sign bias", "codebook", "−6 −1 0 3"} {
		if !strings.Contains(ansi.Strip(table), want) {
			t.Errorf("the tensor's table lacks %q:\n%s", want, table)
		}
	}
}

// Compare takes what is nearer to 0 as better, whatever its sign.
func TestCompareSignBias(t *testing.T) {
	st := coded()
	for i := range st.Tensors {
		r := &st.Records[2][i]
		r.Codebook, r.Bias = 1<<0, -st.Records[1][i].Bias/2
	}
	s := sceneOf(t, st)
	s.Baseline, s.Variant = 1, 2
	m, _ := MetricByName("sign_bias")
	s.SetMetric(m)
	p := newCompare(s)
	p.SetSize(120, 36)
	p.View()
	if by := p.pairs.outcome.by; by.Wins != len(st.Tensors) || by.Losses != 0 {
		t.Errorf("%d wins, %d losses of %d that halve their bias and turn it", by.Wins, by.Losses, len(st.Tensors))
	}
	for i, c := range p.pairs.changes { // of magnitudes, so that its sign says what is better
		if want := -math.Abs(st.Records[2][i].Bias); math.Abs(c-want) > 1e-12 {
			t.Fatalf("tensor %d: from %v to %v is %v, want %v", i, st.Records[1][i].Bias, st.Records[2][i].Bias, c, want)
		}
	}
	s.Baseline, s.Variant = 2, 1
	s.Touch()
	p.View()
	if by, worst := p.pairs.outcome.by, p.pairs.outcome.worst; by.Losses != len(st.Tensors) || worst[0].tensor != len(st.Tensors)-1 {
		t.Errorf("%d losses; the worst is %+v", by.Losses, worst[0])
	}
}
