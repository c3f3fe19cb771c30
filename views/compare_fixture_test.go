package views

import (
	"math"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/kernels"
	"quantscope/sessions"
	"quantscope/views/viewstest"
)

// noise is a fixed sequence of numbers in [0, 1): splitmix64.
type noise uint64

func (n *noise) next() float64 {
	*n += 0x9e3779b97f4a7c15
	z := uint64(*n)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}

func (n *noise) normal() float64 {
	return math.Sqrt(-2*math.Log(1-n.next())) * math.Cos(2*math.Pi*n.next())
}

// varied is the demo with more life in it than viewstest gives: the variants
// differ from tensor to tensor, the third loses to the first on a few, and all
// kinds of clipping occur.
func varied() *sessions.State {
	s := viewstest.Demo()
	for v := range s.Records {
		for t := range s.Records[v] {
			vary(&s.Records[v][t])
		}
	}
	return s
}

func vary(r *sessions.Record) {
	n := noise(r.Tensor*31 + r.Variant)
	r.RelL2 *= 1 + 0.01*n.normal()
	if r.Variant == 2 && r.Tensor%61 == 7 {
		r.RelL2 *= 1.16
	}
	r.Rel2 = r.RelL2 * r.RelL2
	r.Cos, r.SQNR, r.E2 = math.Sqrt(1-r.Rel2), -20*math.Log10(r.RelL2), r.Rel2*r.W2
	r.ZeroBlocks = int64(4 * n.next() * n.next())
	r.SubnormalClipped = int64(2 * n.next() * float64(r.Variant))
	for i := range r.Depth {
		r.Depth[i] = uint32(float64(r.Deep) * 0.42 * math.Pow(0.58, float64(i-1)))
	}
	r.Depth[0] = uint32(r.Shallow * 4 / 5)
	r.Depth[1] += uint32(r.Shallow / 5)
}

// firstDone is a state in which only the first tensors of each variant are
// measured.
func firstDone(s *sessions.State, done int) *sessions.State {
	for v := range s.Records {
		clear(s.Records[v][min(done, len(s.Records[v])):])
	}
	s.Progress.State = sessions.RunRunning
	return s
}

// big is the largest session: 37,152 tensors under four variants.
func big() *sessions.State {
	s := viewstest.Big(43, 288, "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "nvfp4+sweep")
	for v := range s.Records {
		for t := range s.Records[v] {
			vary(&s.Records[v][t])
		}
	}
	return s
}

// sceneOf looks at a state without colours.
func sceneOf(t testing.TB, state *sessions.State) *Scene { return sceneIn(t, state, termenv.Ascii) }

func sceneIn(t testing.TB, state *sessions.State, profile termenv.Profile) *Scene {
	t.Helper()
	th, err := NewTheme("", profile, true)
	if err != nil {
		t.Fatal(err)
	}
	return &Scene{
		State: state, Theme: th, Mode: sessions.Live, Variant: min(1, len(state.Variants)-1), Metric: Metrics()[0],
		Cursor: min(100, len(state.Tensors)-1), Filter: Filter{Count: len(state.Tensors)},
	}
}

// checkSize fails unless view is exactly h lines of at most w cells.
func checkSize(t interface {
	Helper()
	Errorf(string, ...any)
}, view string, w, h int) {
	t.Helper()
	if h <= 0 {
		if view != "" {
			t.Errorf("%d×%d: %q, want nothing", w, h, view)
		}
		return
	}
	lines := strings.Split(view, "\n")
	if len(lines) != h {
		t.Errorf("%d×%d: %d lines", w, h, len(lines))
	}
	for i, line := range lines {
		if n := Width(line); n > max(w, 0) {
			t.Errorf("%d×%d: line %d is %d cells: %q", w, h, i, n, line)
		}
	}
}

// anyRecord makes a record of a tensor that nobody would expect.
func anyRecord(n *noise, variant, tensor int) sessions.Record {
	odd := func() float64 {
		switch int(n.next() * 8) {
		case 0:
			return math.NaN()
		case 1:
			return math.Inf(1)
		case 2:
			return math.Inf(-1)
		case 3:
			return 0
		case 4:
			return math.MaxFloat64
		case 5:
			return -n.next()
		}
		return n.next()
	}
	count := func() int64 {
		if n.next() < 0.2 {
			return 0
		}
		return int64(n.next() * 1e6)
	}
	r := sessions.Record{
		Seq: 1 + count(), AtUS: count(), Variant: variant, Tensor: tensor, Failed: n.next() < 0.1,
		Cos: odd(), Rel2: odd(), RelL2: odd(), SQNR: odd(), MaxAbsErr: odd(), Amax: odd(), GlobalScale: odd(),
		ScaleMin: odd(), ScaleMean: odd(), ScaleMax: odd(), W2: odd(), E2: odd(),
		Elements: count(), Blocks: count(), ZeroBlocks: count(), NonFinite: count(),
		ScaleHigh: count(), ScaleLow: count(), ScaleSubnormal: count(),
		Shallow: count(), Deep: count(), SubnormalClipped: count(), ShallowL2: odd(), DeepL2: odd(),
	}
	for i := range kernels.DepthBins {
		r.Depth[i] = uint32(count())
	}
	return r
}
