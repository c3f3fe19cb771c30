package views

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/muesli/termenv"

	"quantscope/kernels"
	"quantscope/quant/topology"
	"quantscope/sessions"
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

// modelTensors lists the expert matrices of a model whose last layer is an MTP
// layer, in the order in which a checkpoint stores them.
func modelTensors(firstLayer, layers, experts int) []sessions.Tensor {
	var out []sessions.Tensor
	for l := firstLayer; l < firstLayer+layers; l++ {
		for e := range experts {
			for _, p := range []string{"down", "gate", "up"} {
				name := fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.weight", l, e, p)
				out = append(out, sessions.Tensor{
					ID: len(out), Name: name, Source: name, File: "model-00001-of-00002.safetensors", DType: "BF16", Rows: 128, Cols: 128,
					Role: topology.Role{Kind: topology.Expert, Layer: l, Expert: e, Projection: p, Param: "weight", MTP: l == firstLayer+layers-1},
				})
			}
		}
	}
	return out
}

var fixtureVariants = []struct {
	name                   string
	error, deep, shallow   float64
	bits                   float64
	multipliers            []string
	clampedHigh, subnormal int64
}{
	{"nvfp4", 0.0951, 0, 0.412, 4.5, nil, 0, 1},
	{"nvfp4+mse", 0.0828, 0.151, 0.318, 4.5, []string{"0.7", "0.8", "0.9", "1.0", "1.1", "1.2", "1.3", "1.4", "1.5"}, 2, 1},
	{"nvfp4+mse_ge1", 0.0845, 0, 0.274, 4.5, []string{"1.0", "1.1", "1.2", "1.3", "1.4", "1.5"}, 3, 0},
	{"nvfp4+sweep", 0.0821, 0.187, 0.299, 4.5, nil, 2, 0},
}

// fixtureRecord is a plausible record of one tensor under one variant.
func fixtureRecord(t *sessions.Tensor, variant int) sessions.Record {
	n := noise(t.ID*7919 + 17)
	v := fixtureVariants[variant%len(fixtureVariants)]
	level := 1 + 0.006*n.normal() + 0.002*float64(t.Role.Layer%7)
	if t.Role.Projection == "down" {
		level += 0.008
	}
	own := noise(t.ID*31 + variant)
	rel := v.error * (level + 0.003*own.normal())
	r := sessions.Record{
		Seq: int64(t.ID*8 + variant + 1), AtUS: int64(t.ID) * 900, Variant: variant, Tensor: t.ID,
		RelL2: rel, Rel2: rel * rel, Cos: math.Sqrt(1 - rel*rel), SQNR: -20 * math.Log10(rel),
		MaxAbsErr: 0.03 + 0.01*own.next(), Amax: 0.3 + 0.2*n.next(),
		Elements: int64(t.Rows * t.Cols), Blocks: int64(t.Rows * t.Cols / 16),
		ScaleMin: 8, ScaleMean: 142 + 20*n.next(), ScaleMax: 448, W2: 14 + 2*n.next(),
		ScaleHigh: v.clampedHigh, SubnormalClipped: v.subnormal, ZeroBlocks: int64(4 * n.next() * n.next()),
	}
	r.GlobalScale, r.E2 = r.Amax/(6*448), r.Rel2*r.W2
	blocks := float64(r.Blocks)
	r.Deep = int64(blocks * v.deep * (0.7 + 0.6*n.next()))
	r.Shallow = int64(blocks * v.shallow * (0.9 + 0.2*own.next()))
	r.DeepL2, r.ShallowL2 = float64(r.Deep)/blocks*0.21, float64(r.Shallow)/blocks*0.14
	for i := range r.Depth {
		r.Depth[i] = uint32(float64(r.Deep) * 0.42 * math.Pow(0.58, float64(i-1)))
	}
	r.Depth[0] = uint32(r.Shallow * 4 / 5)
	r.Depth[1] += uint32(r.Shallow / 5)
	return r
}

// modelState is a session over tensors in which the first done pairs of each
// variant are measured.
func modelState(tensors []sessions.Tensor, variants, done int) *sessions.State {
	s := &sessions.State{
		Meta:    sessions.Meta{SourcePath: "demo", Family: "glm4_moe", Layers: 5, MTPLayers: 1, Experts: 16},
		Tensors: tensors,
	}
	for v := range variants {
		f := fixtureVariants[v%len(fixtureVariants)]
		s.Apply(sessions.Batch{Variants: []sessions.Variant{{
			ID: v, Name: f.name, Effective: f.name, Scheme: "nvfp4", BitsPerWeight: f.bits, Multipliers: f.multipliers,
		}}})
		for t := range min(done, len(tensors)) {
			s.Records[v][t] = fixtureRecord(&tensors[t], v)
		}
	}
	s.Progress.State = sessions.RunRunning
	if done >= len(tensors) {
		s.Progress.State = sessions.RunFinished
	}
	return s
}

// modelScene looks at modelState in a theme without colours.
func modelScene(t testing.TB, state *sessions.State, profile termenv.Profile) *Scene {
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

// demoScene is the demo model with everything measured, done of its 240 tensors
// under three variants.
func demoScene(t testing.TB, done int) *Scene {
	return modelScene(t, modelState(modelTensors(1, 5, 16), 3, done), termenv.Ascii)
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
