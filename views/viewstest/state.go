// Package viewstest builds session states for the tests of panes and screens.
// Everything it makes is a function of its arguments: the same call gives the
// same state.
package viewstest

import (
	"fmt"
	"math"

	"quantscope/kernels"
	"quantscope/quant/method"
	"quantscope/quant/topology"
	"quantscope/sessions"
)

// Projections are the expert matrices that Experts makes, in order.
var Projections = []string{"gate", "up", "down"}

// Variants are the names of the variants that Demo has.
var Variants = []string{"nvfp4", "nvfp4+mse", "nvfp4+mse_ge1"}

// Demo is a finished session shaped like the built-in checkpoint: MoE layers 1
// to 4 and an MTP layer 5, each with 16 experts of three projections, measured
// under three variants; the second one clips.
func Demo() *sessions.State {
	s := Empty(Experts(1, 4, 1, 16), Variants...)
	s.Meta = sessions.Meta{
		SourcePath: "demo", Family: "glm4_moe", Summary: "glm4_moe · 5 MoE layers · 240 experts · 10.4 MB",
		Layers: 6, MTPLayers: 1, Experts: 16, SourceBytes: 10_400_000, Targets: "default: routed experts", Program: "test", KernelSet: "ref",
	}
	for v := range s.Variants {
		for t := range s.Tensors {
			Measure(s, v, t)
		}
	}
	s.Progress.State = sessions.RunFinished
	return s
}

// Partial is Demo in the middle of its first run: the first variant is complete
// but for one failed and one tensor with non-finite weights, the second one has
// its first third, the third nothing.
func Partial() *sessions.State {
	s := Demo()
	for t := range s.Tensors {
		if t >= len(s.Tensors)/3 {
			s.Records[1][t] = sessions.Record{}
		}
		s.Records[2][t] = sessions.Record{}
	}
	Fail(s, 0, 20, "layers.1.mlp.experts.6.down_proj: model.safetensors: read at byte 4096: unexpected end of file")
	s.Records[0][50].NonFinite = 3
	s.Progress = sessions.Progress{
		State: sessions.RunRunning, Variant: 1, Done: int64(len(s.Tensors) * 4 / 3), Total: int64(3 * len(s.Tensors)),
		Failed: 1, BytesPerSec: 1.21e9, WeightsPerSec: 6e8, ETASeconds: 7,
	}
	return s
}

// Big is a finished session over layers × experts × three projections.
func Big(layers, experts int, variants ...string) *sessions.State {
	s := Empty(Experts(0, layers, 0, experts), variants...)
	s.Meta.Layers, s.Meta.Experts = layers, experts
	for v := range s.Variants {
		for t := range s.Tensors {
			Measure(s, v, t)
		}
	}
	s.Progress.State = sessions.RunFinished
	return s
}

// Experts is the routed-expert matrices of layers first … first+layers−1, and of
// mtp further layers.
func Experts(first, layers, mtp, experts int) []sessions.Tensor {
	var out []sessions.Tensor
	for l := first; l < first+layers+mtp; l++ {
		for e := range experts {
			for _, p := range Projections {
				name := fmt.Sprintf("layers.%d.mlp.experts.%d.%s_proj", l, e, p)
				out = append(out, sessions.Tensor{
					ID: len(out), Name: name, Source: "model." + name + ".weight", File: "model-00001-of-00002.safetensors",
					DType: "BF16", Rows: 128, Cols: 128,
					Role: topology.Role{Kind: topology.Expert, Layer: l, Expert: e, Projection: p, Param: "weight", MTP: l >= first+layers},
				})
			}
		}
	}
	return out
}

// Dense is the linear matrices of a model without experts.
func Dense(layers int) []sessions.Tensor {
	var out []sessions.Tensor
	add := func(l int, kind topology.Kind, block, p string) {
		name := fmt.Sprintf("layers.%d.%s.%s_proj", l, block, p)
		out = append(out, sessions.Tensor{
			ID: len(out), Name: name, Source: "model." + name + ".weight", File: "model.safetensors", DType: "BF16", Rows: 256, Cols: 128,
			Role: topology.Role{Kind: kind, Layer: l, Expert: -1, Projection: p, Param: "weight"},
		})
	}
	for l := range layers {
		for _, p := range []string{"q", "k", "v", "o"} {
			add(l, topology.Attention, "self_attn", p)
		}
		for _, p := range Projections {
			add(l, topology.MLP, "mlp", p)
		}
	}
	return out
}

// Mixed is a model that has everything: a dense layer 0 and MoE layers with
// attention and a shared expert, and a head.
func Mixed(layers, experts int) []sessions.Tensor {
	out := Dense(1)
	for l := 1; l < layers; l++ {
		out = append(out, Dense(layers)[7*l:7*l+4]...)
		for _, p := range Projections {
			name := fmt.Sprintf("layers.%d.mlp.shared_experts.%s_proj", l, p)
			out = append(out, sessions.Tensor{Name: name, DType: "BF16", Rows: 128, Cols: 128,
				Role: topology.Role{Kind: topology.SharedExpert, Layer: l, Expert: -1, Projection: p}})
		}
		out = append(out, Experts(l, 1, 0, experts)...)
	}
	out = append(out, sessions.Tensor{Name: "lm_head", DType: "BF16", Rows: 1024, Cols: 128, Role: topology.Role{Kind: topology.Head, Layer: -1, Expert: -1}})
	for i := range out {
		out[i].ID = i
	}
	return out
}

// Empty is a session in which nothing is measured yet.
func Empty(tensors []sessions.Tensor, variants ...string) *sessions.State {
	s := &sessions.State{Tensors: tensors}
	for i, name := range variants {
		v := sessions.Variant{ID: i, Name: name, Effective: name, Scheme: "nvfp4", BitsPerWeight: 4.5, Multipliers: []string{"1.0"}}
		if m, err := method.Parse(name); err == nil {
			v.Scheme, v.Convention = m.Scheme, m.Spec.Convention.String()
			v.BitsPerWeight, v.Multipliers = m.BitsPerWeight, m.Multipliers
		}
		s.Variants = append(s.Variants, v)
		s.Records = append(s.Records, make([]sessions.Record, len(tensors)))
	}
	s.Progress = sessions.Progress{State: sessions.RunIdle, Variant: -1, Total: int64(len(tensors) * len(variants))}
	return s
}

// Measure records one tensor under one variant, as the next event.
func Measure(s *sessions.State, variant, tensor int) {
	r := RecordOf(s, variant, tensor)
	s.Records[variant][tensor] = r
	s.LastSeq, s.LastUS = r.Seq, r.AtUS
	s.Progress.Done++
}

// RecordOf is what Measure records.
func RecordOf(s *sessions.State, variant, tensor int) sessions.Record {
	role := s.Tensors[tensor].Role
	u := unit(tensor)
	worst := 0.0
	if tensor%37 == 11 {
		worst = 0.0012
	}
	base := 0.0944 + 0.0004*math.Sin(float64(role.Layer)) + 0.0007*u + worst
	if role.Projection == "down" {
		base += 0.0004
	}
	factor := []float64{1, 0.871, 0.889}[variant%3]
	rel := base * factor
	blocks := int64(s.Tensors[tensor].Rows*s.Tensors[tensor].Cols) / 16
	r := sessions.Record{
		Seq: s.LastSeq + 1, AtUS: s.LastUS + 2000, Variant: variant, Tensor: tensor,
		RelL2: rel, Rel2: rel * rel, Cos: 1 - rel*rel/2, SQNR: -20 * math.Log10(rel),
		MaxAbsErr: 0.031 + 0.01*u, Amax: 0.35 + 0.2*u, GlobalScale: (0.35 + 0.2*u) / 2688,
		ScaleMin: 8, ScaleMean: 160 + 40*u, ScaleMax: 448, W2: 120, E2: 120 * rel * rel,
		Elements: blocks * 16, Blocks: blocks, ScaleHigh: int64(u * 2),
		Shallow: int64(float64(blocks) * (0.21 + 0.02*u)), ShallowL2: 0.06,
	}
	if s.Variants[variant].Scheme != "nvfp4" { // the others have no second scale
		r.GlobalScale = 0
		r.ScaleMin, r.ScaleMean, r.ScaleMax = r.ScaleMin/4096, r.ScaleMean/4096, r.ScaleMax/4096
	}
	r.Depth[0] = uint32(r.Shallow)
	if variant%3 == 1 {
		r.Deep = int64(float64(blocks) * (0.13 + 0.03*u))
		r.DeepL2 = 0.04 + 0.01*u
		for i := range 5 {
			r.Depth[1+i] = uint32(r.Deep / 5)
		}
	}
	return r
}

// Fail records that a tensor could not be measured.
func Fail(s *sessions.State, variant, tensor int, reason string) {
	s.LastSeq++
	s.LastUS += 2000
	s.Records[variant][tensor] = sessions.Record{Seq: s.LastSeq, AtUS: s.LastUS, Variant: variant, Tensor: tensor, Failed: true}
	s.Log = append(s.Log, sessions.Event{Seq: s.LastSeq, AtUS: s.LastUS, Kind: sessions.EventFailed, Variant: variant, Tensor: tensor, Message: reason})
	s.Progress.Done++
	s.Progress.Failed++
}

// Tap is a whole tap record that goes with the figures of Measure.
func Tap(s *sessions.State, variant, tensor int) *kernels.Tap {
	r := RecordOf(s, variant, tensor)
	t := &kernels.Tap{
		Elements: r.Elements, Blocks: r.Blocks, SumW2: r.W2, SumQ2: r.W2, SumWQ: r.W2 * r.Cos, SumE2: r.E2,
		MaxAbsErr: r.MaxAbsErr, Amax: r.Amax, GlobalScale: r.GlobalScale, ScaleMin: r.ScaleMin, ScaleMax: r.ScaleMax,
		ScaleSum: r.ScaleMean * float64(r.Blocks), ScaleCount: r.Blocks, ScaleHigh: r.ScaleHigh,
		Shallow: r.Shallow, Deep: r.Deep, ShallowL2: r.ShallowL2 * r.W2, DeepL2: r.DeepL2 * r.W2,
	}
	bell := func(out []int64, centre, width float64, total int64) {
		for i := range out {
			d := (float64(i) - centre) / width
			out[i] = int64(float64(total) / width / 2.5 * math.Exp(-d*d/2))
		}
	}
	centre := 22.0
	if s.Variants[variant].Scheme != "nvfp4" {
		centre = 13
	}
	bell(t.Scales[:], centre+float64(variant), 2.2, r.Blocks)
	bell(t.Errors[:], 0, 5, r.Elements)
	bell(t.Codes[:8], 2, 2, r.Elements/2)
	bell(t.Codes[8:], 2, 2, r.Elements/2)
	if variant%3 != 0 {
		bell(t.Multipliers[:9], 3+float64(variant%3), 1.5, r.Blocks)
	}
	for i, n := range r.Depth {
		t.Depth[i] = int64(n)
	}
	return t
}

// unit is a number in [0, 1) that looks random and depends on n alone: the
// finalizer of splitmix64 (Steele, Lea and Flood, 2014).
func unit(n int) float64 {
	x := uint64(n)*0x9e3779b97f4a7c15 + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	x ^= x >> 31
	return float64(x>>11) / (1 << 53)
}
