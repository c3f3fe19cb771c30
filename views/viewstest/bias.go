package viewstest

import (
	"fmt"
	"math"
	"strings"

	"quantscope/analysis/bias"
	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// BiasCandidates are the candidates of a made-up look at biases: the second and the
// third have about the error of the fourth, and lean to either side.
var BiasCandidates = []string{"nvfp4", "code2+asym", "code2+mirror", "code2+sym"}

// BiasRun is a made-up look through so many layers, of which the first has no matrix
// that differs. The bias of leaning candidates grows with depth while their error is
// that of one that does not lean.
func BiasRun(layers int) *sessions.BiasRun {
	s := &bias.Setup{
		Reference: yardstick.Party{Label: "demo", Spec: "demo", Path: "demo", BitsPerWeight: 16, Effective: "bf16"},
		Corpora:   []yardstick.CorpusRef{{Name: "prose", Source: "demo", SHA256: strings.Repeat("5f", 32)}},
		Chunks:    []int{4}, Tokens: []int64{1536}, Positions: 1536, Hidden: 128, Layers: layers, Vocab: 2048, Draws: 16, Seed: 20,
		Activations: "f32", KernelSet: "ref", Program: "test",
	}
	run := &sessions.BiasRun{Setup: s, End: &bias.End{State: string(sessions.RunFinished)}}
	const leaning = 0.011
	for c, name := range append(BiasCandidates, "bf16 activations (floor)") {
		floor := c == len(BiasCandidates)
		p := yardstick.Party{Label: name, Spec: name, BitsPerWeight: 5.4, Floor: floor}
		err, lean, kl := 0.33+0.002*float64(c), 0.0, 0.28+0.03*float64(c)
		w := &bias.Weights{Candidate: c, Layer: -1, Tensors: 192, RowRMS: 0.037, RowNull: 0.036, RowMax: 0.15, AbsNull: 0.0026, Positive: 0.49}
		switch c {
		case 0:
			p.BitsPerWeight, err, kl = 6.97, 0.095, 0.0234
		case 1, 2:
			lean = leaning * float64(3-2*c)
			w.Positive = 0.5 + 0.46*float64(3-2*c)
			w.Books = []bias.Book{{Values: []float32{-4, -1, 1.5, 6}, Tensors: 121}, {Values: []float32{-3, -0.5, 1.5, 6}, Tensors: 71}}
			if c == 2 {
				w.Books = []bias.Book{{Values: []float32{-6, -1.5, 1, 4}, Tensors: 121}, {Values: []float32{-6, -1.5, 0.5, 3}, Tensors: 71}}
			}
		case 3:
			w.Books = []bias.Book{{Values: []float32{-4, -1, 1, 4}, Tensors: 192}}
		}
		w.RelL2, w.Bias, w.AbsBias = err, lean*2, max(math.Abs(lean)*2.1, 0.0028)
		if floor {
			p.BitsPerWeight, err, lean, kl = 16, 0.014, 0, 0.00079
			*w = bias.Weights{Candidate: c, Layer: -1}
		}
		s.Candidates = append(s.Candidates, p)
		for l := range layers {
			if l > 0 && !floor {
				x := *w
				x.Layer, x.Tensors, x.Books = l, 48, nil
				run.Weights = append(run.Weights, &x)
			}
		}
		for k := range 4 {
			if !floor {
				w.Tensor = append(w.Tensor, bias.Tensor{Name: fmt.Sprintf("model.layers.1.mlp.experts.%d.down_proj.weight", k), Layer: 1, Expert: k, RelL2: err, Bias: w.Bias, RowRMS: 0.03, RowMax: 0.1})
			}
		}
		run.Weights = append(run.Weights, w)
		run.Divergences = append(run.Divergences, &bias.Divergence{
			Candidate: c, Positions: 1532, KL: kl, StdErr: kl / 30, Top1: 1 - kl, Chunks: []float64{kl * 0.97, kl * 1.02, kl * 0.99, kl * 1.02},
		})
	}
	for l := -1; l < layers; l++ {
		for c, p := range s.Candidates {
			for k, part := range []string{bias.Attention, bias.MLP, bias.Residual} {
				if l < 0 && part != bias.Residual {
					continue
				}
				run.Rows = append(run.Rows, &bias.Row{Candidate: c, Layer: l, Part: part, Flow: biasFlow(l, k, layers, run.Weights, c, p.Floor)})
			}
		}
	}
	return run
}

// biasFlow are the figures of a part: nothing before the first layer that differs.
func biasFlow(layer, part, layers int, weights []*bias.Weights, c int, floor bool) bias.Flow {
	f := bias.Flow{Positions: 1536, Shift: math.NaN(), Null: math.NaN(), NullMax: math.NaN()}
	if layer < 0 || layer == 0 && !floor {
		return f
	}
	var w *bias.Weights
	for _, x := range weights {
		if x.Candidate == c && x.Layer == -1 {
			w = x
		}
	}
	depth := float64(layer+1) / float64(layers)
	f.Rel = w.RelL2 * math.Sqrt(depth) * (0.8 + 0.1*float64(part))
	f.Bias = w.Bias * depth * depth * 3 * (0.5 + 0.25*float64(part))
	f.Gain = -f.Rel * f.Rel
	f.Null, f.NullMax = 1.0/1536, 1.3/1536
	f.Shift = f.Null*8 + min(25*f.Bias*f.Bias/max(f.Rel*f.Rel, 1e-9), 0.9)
	if floor {
		f.Rel, f.Bias, f.Gain, f.Shift = 0.014*depth, 3e-5, -1e-5, f.Null*2
	}
	return f
}
