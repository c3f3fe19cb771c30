package yardstick

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/model"
	"quantscope/analysis/stats"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// Bounds of a probe: tokens that go through the reference, inputs kept of one linear
// map, and bytes of those of a layer. None depends on the memory that is allowed,
// since figures must not.
const (
	probeTokens = 4096
	probeRows   = 256
	probeBytes  = 64 << 20
)

// linears are the linear maps of the decoder layers, and the head or the embedding,
// in the order of the layers.
func linears(p *participant) []model.Place {
	var out []model.Place
	if p.own.Topology == nil {
		return nil
	}
	for i := range p.own.Topology.Matrices {
		r := p.own.Topology.Matrices[i].Role
		switch r.Kind {
		case topology.Attention, topology.MLP, topology.Expert, topology.SharedExpert, topology.Router, topology.Head, topology.Embedding, topology.Mixing:
			if !r.MTP {
				out = append(out, model.Place{Kind: r.Kind, Layer: r.Layer, Expert: r.Expert, Projection: r.Projection})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b model.Place) int { return cmp.Compare(a.Layer, b.Layer) })
	return out
}

// inputs are real inputs of the linear maps of one layer, as many of each as are
// kept: evenly spaced rows of all that came.
type inputs struct {
	most int
	of   map[model.Place]*sample
}

type sample struct {
	rows       []float32
	seen, step int // rows that came; one in step is kept
}

// take keeps some of n rows.
func (g *inputs) take(p model.Place, x []float32, n int) {
	if n == 0 {
		return
	}
	s := g.of[p]
	if s == nil {
		s = &sample{step: 1}
		g.of[p] = s
	}
	width := len(x) / n
	for i := range n {
		if s.seen%s.step == 0 {
			if len(s.rows) >= g.most*width {
				s.thin(width)
			}
			if s.seen%s.step == 0 {
				s.rows = append(s.rows, x[i*width:(i+1)*width]...)
			}
		}
		s.seen++
	}
}

// thin drops every other row.
func (s *sample) thin(width int) {
	kept := 0
	for i := 0; i*width < len(s.rows); i += 2 {
		copy(s.rows[kept*width:], s.rows[i*width:(i+1)*width])
		kept++
	}
	s.rows = s.rows[:kept*width]
	s.step *= 2
}

// probe takes the first chunks of all corpora through the reference and asks of
// every candidate what its weights make of the inputs that the reference's saw:
// ‖(Ŵ−W)x‖/‖Wx‖, summed by energy over the inputs and over a layer's experts. Maps
// whose weights are the reference's are left out, and rows of attribution, whose
// maps are those of what they are derived from.
func (m *measurement) probe(ctx context.Context) ([]Probe, error) {
	m.meter.stage("probing", -1)
	var chunks [][]int32
	tokens := 0
	for _, c := range m.setup.Corpora {
		for _, ids := range c.IDs {
			if n := min(len(ids), probeTokens/len(m.setup.Corpora)); n > 0 {
				chunks = append(chunks, ids[:n])
				tokens += n
				break
			}
		}
	}
	ref := *m.parties[0]
	own, err := ref.own.Source()
	if err != nil {
		return nil, err
	}
	places := map[int][]model.Place{}
	widest := 1
	for _, p := range linears(&ref) {
		if p.Kind != topology.Embedding && p.Kind != topology.Head {
			places[p.Layer] = append(places[p.Layer], p)
			widest = max(widest, len(places[p.Layer]))
		}
	}
	most := min(max(probeBytes/(4*widest*ref.spec.Hidden), 8), probeRows)
	g := &inputs{most: most, of: map[model.Place]*sample{}}
	sums := map[probeAt]*probeSum{}
	var failed error
	o := model.Options{
		Set: m.set, Threads: m.threads, BF16: ref.bf16,
		Input: func(_ int, p model.Place, x []float32, n int) { g.take(p, x, n) },
		Done: func(_, layer int) {
			if failed == nil {
				failed = m.probeLayer(ctx, &ref, places[layer], g.of, sums)
			}
			clear(g.of)
		},
		NonFinite: func(int, int, *model.NonFiniteError) error { return failed },
	}
	m.bound(&o)
	_, err = model.Run(ctx, ref.spec, []model.Source{own}, chunks, o)
	if err = cmp.Or(failed, err); err != nil {
		return nil, err
	}
	return probesOf(sums), nil
}

// probeAt is what figures of a probe are added up over.
type probeAt struct {
	candidate, layer int
	kind             topology.Kind
	projection       string
}

type probeSum struct {
	output, weight energy
	tensors        int
	rows           int64
}

// probeLayer applies every candidate's weights of a layer to the reference's inputs.
func (m *measurement) probeLayer(ctx context.Context, ref *participant, places []model.Place, x map[model.Place]*sample, sums map[probeAt]*probeSum) error {
	defer m.release()
	for _, p := range places {
		if err := ctx.Err(); err != nil {
			return err
		}
		var in []float32
		if s := x[p]; s != nil {
			in = s.rows
		}
		w, err := ref.src.Weight(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", ref.label, err)
		}
		if len(in) == 0 || len(in)%w.Cols != 0 { // an expert that nobody chose
			m.release()
			continue
		}
		n := len(in) / w.Cols
		want, err := m.apply(w, in, n)
		if err != nil {
			return err
		}
		for c := range m.setup.Candidates {
			cand := m.parties[1+c]
			if s := &m.setup.Candidates[c]; s.Floor || s.Of >= 0 || !cand.src.Has(p, "weight") {
				continue
			}
			q, err := cand.src.Weight(ctx, p)
			if err != nil {
				return fmt.Errorf("%s: %w", cand.label, err)
			}
			weight, err := m.weightDifference(ref, cand, p, w, q)
			if err != nil {
				return err
			}
			got, err := m.apply(q, in, n)
			if err != nil {
				return err
			}
			at := probeAt{c, p.Layer, p.Kind, p.Projection}
			s := sums[at]
			if s == nil {
				s = &probeSum{}
				sums[at] = s
			}
			out := difference(want, got)
			s.output.error += out.error
			s.output.of += out.of
			s.weight.error += weight.error
			s.weight.of += weight.of
			s.tensors++
			s.rows += int64(n)
		}
		m.release()
	}
	return nil
}

// apply is x·Wᵀ.
func (m *measurement) apply(w model.Weight, x []float32, n int) ([]float32, error) {
	y := make([]float32, n*w.Rows)
	err := m.set.GEMM(
		kernels.Dense{Rows: n, Cols: w.Rows, Stride: w.Rows, Data: y},
		kernels.DenseOperand(kernels.Dense{Rows: n, Cols: w.Cols, Stride: w.Cols, Data: x}),
		w.Operand.T(), kernels.GEMMOptions{Threads: m.threads})
	return y, err
}

func probesOf(sums map[probeAt]*probeSum) []Probe {
	out := make([]Probe, 0, len(sums))
	for at, s := range sums {
		if s.weight.error == 0 && s.output.error == 0 {
			continue
		}
		out = append(out, Probe{
			Candidate: at.candidate, Layer: at.layer,
			Name:    model.Place{Kind: at.kind, Layer: at.layer, Expert: -1, Projection: at.projection}.String(),
			Tensors: s.tensors, Rows: s.rows,
			Output: math.Sqrt(s.output.error / s.output.of), Weight: math.Sqrt(s.weight.error / s.weight.of),
		})
	}
	slices.SortFunc(out, func(a, b Probe) int {
		return cmp.Or(cmp.Compare(a.Candidate, b.Candidate), cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// ProbeAgreement says how well weight error ranks the maps of a candidate by output
// error: Spearman's correlation over its probes whose weights differ from the
// reference's.
func ProbeAgreement(probes []Probe, candidate int) stats.Correlation {
	var output, weight []float64
	for _, p := range probes {
		if p.Candidate == candidate && p.Weight > 0 {
			output, weight = append(output, p.Output), append(weight, p.Weight)
		}
	}
	return stats.Spearman(weight, output)
}
