package viewstest

import (
	"fmt"
	"math"
	"slices"

	"quantscope/analysis/candidate"
	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// Shape is how large a made-up measurement is.
type Shape struct {
	Chunks, Tokens int // of each corpus, of each chunk
	Specs          []string
	Corpora        []string
}

// DemoShape is like a measurement of the built-in checkpoint.
func DemoShape() Shape {
	return Shape{8, 128, []string{"fp8", "nvfp4", "nvfp4+mse", "nvfp4+mse_ge1", "int4-g128", "int4-g128+range"}, []string{"prose", "code", "math", "multi", "chat"}}
}

// yardWords are what the made-up tokens stand for: ordinary ones, digits, a line
// break, halves of a character, an escape, wide characters.
var yardWords = []string{" the", " of", " a", " model", " weights", "int", " main", "(", ")", "\n", " 4", "2", "\xe6\x9d", "\xb1", "\x1b", "投影", " is", " said", ",", ".", " return", " for", "\t", " loss"}

// Yard is a made-up measurement of that shape, with all its chunks: the floor,
// then the specs, each with a KL of its own size.
func Yard(sh Shape) *sessions.Yard {
	s := &yardstick.Setup{
		Reference:   yardstick.Party{Label: "demo", Spec: "demo", Kind: candidate.Checkpoint, BitsPerWeight: 16, Baseline: -1, Of: -1},
		Activations: "f32", Positions: "all", KernelSet: "ref", Program: "test", VocabRef: len(yardWords), Texts: map[int32]string{},
	}
	for i, w := range yardWords {
		s.Texts[int32(i)] = w
	}
	s.Candidates = append(s.Candidates, yardstick.Party{Label: "bf16 activations (floor)", Spec: "demo", Kind: candidate.Checkpoint, BitsPerWeight: 16, Floor: true, Baseline: -1, Of: -1})
	for i, spec := range sh.Specs {
		base := -1
		for j, other := range sh.Specs[:i] {
			if len(spec) > len(other) && spec[:len(other)] == other && spec[len(other)] == '+' {
				base = j + 1
			}
		}
		s.Candidates = append(s.Candidates, yardstick.Party{Label: spec, Spec: spec, Kind: candidate.Variant, BitsPerWeight: 8.5 - 0.7*float64(i), Baseline: base, Of: -1})
	}
	for c, name := range sh.Corpora {
		ref := yardstick.CorpusRef{Name: name, Source: "demo", BOS: "none", Chunking: fmt.Sprintf("%d tokens", sh.Tokens)}
		for k := range sh.Chunks {
			ids := make([]int32, sh.Tokens)
			for i := range ids {
				ids[i] = int32(unit(c*7919+k*104729+i) * float64(len(yardWords)))
			}
			ref.IDs = append(ref.IDs, ids)
		}
		s.Corpora = append(s.Corpora, ref)
	}
	y := &sessions.Yard{Setup: s, End: &sessions.YardEnd{State: sessions.RunFinished}}
	for k := range sh.Chunks {
		for c := range sh.Corpora {
			y.Chunks = append(y.Chunks, yardChunk(s, c, k))
		}
	}
	return y
}

// yardScale is the mean KL of a candidate, roughly.
func yardScale(p *yardstick.Party) float64 {
	scale, known := map[string]float64{"fp8": 0.0004, "nvfp4": 0.0227, "nvfp4+mse": 0.0201, "nvfp4+mse_ge1": 0.0186, "int4-g128": 0.031}[p.Spec]
	switch {
	case p.Floor:
		return 3e-7
	case known:
		return scale
	}
	return 0.027
}

func yardChunk(s *yardstick.Setup, corpus, index int) *yardstick.Chunk {
	ids := s.Corpora[corpus].IDs[index]
	k := &yardstick.Chunk{Corpus: corpus, Index: index, Rows: make([][]yardstick.Row, len(s.Candidates))}
	for i := range len(ids) - 1 {
		u := unit(corpus*31 + index*1009 + i*17)
		k.Ref = append(k.Ref, yardstick.RefRow{NLL: 2 + 3*u*u, MaxP: float32(0.15 + 0.84*unit(i*3+corpus)), Top: ids[i+1]})
		for c := range s.Candidates {
			hard := math.Exp(2.4 * (unit(corpus*131+index*1013+i*19) - 0.7) * 2)
			kl := yardScale(&s.Candidates[c]) * hard * (0.6 + 0.8*unit(c*53+i+index)) * (1 + 0.15*float64(corpus)) * (1 + 2/float64(i+2))
			row := yardstick.Row{KL: kl, Reverse: kl * 1.05, NLL: k.Ref[i].NLL + kl*(unit(i+c)-0.3), Top: ids[i+1]}
			if unit(i*5+c*11+index) < math.Sqrt(kl)/2 {
				row.Top = int32((int(ids[i+1]) + 1 + c) % len(s.Texts))
			}
			k.Rows[c] = append(k.Rows[c], row)
		}
	}
	return k
}

// YardReport is what can be said of the chunks of a measurement that are scored,
// worked out plainly.
func YardReport(y *sessions.Yard) *yardstick.Report {
	done, of := y.Positions()
	r := &yardstick.Report{Setup: y.Setup, Positions: done, Of: of}
	type spot struct {
		k  *yardstick.Chunk
		at int
	}
	for c := range y.Setup.Candidates {
		over := func(name string, in func(k *yardstick.Chunk, at int) bool) yardstick.Summary {
			var spots []spot
			for _, k := range y.Chunks {
				for i := range k.Rows[c] {
					if in(k, i) {
						spots = append(spots, spot{k, i})
					}
				}
			}
			s := yardstick.Summary{Name: name}
			byChunk := map[*yardstick.Chunk][2]float64{}
			var kls []float64
			for _, p := range spots {
				row := p.k.Rows[c][p.at]
				if math.IsNaN(row.KL) {
					s.NaN++
					continue
				}
				s.Positions++
				kls = append(kls, row.KL)
				if math.IsInf(row.KL, 1) {
					s.Infinite++
					continue
				}
				s.KL += row.KL
				s.Reverse += row.Reverse
				s.NLL += row.NLL
				s.RefNLL += p.k.Ref[p.at].NLL
				if row.Top == p.k.Ref[p.at].Top {
					s.Top1++
				}
				v := byChunk[p.k]
				byChunk[p.k] = [2]float64{v[0] + row.KL, v[1] + 1}
			}
			n := float64(s.Positions)
			s.KL, s.Reverse, s.NLL, s.RefNLL, s.Top1 = s.KL/n, s.Reverse/n, s.NLL/n, s.RefNLL/n, s.Top1/n
			s.DNLL, s.PPL, s.RefPPL, s.Chunks = s.NLL-s.RefNLL, math.Exp(s.NLL), math.Exp(s.RefNLL), len(byChunk)
			sum := 0.0
			for _, k := range y.Chunks { // in their order, so that the sum is the same each time
				if v, ok := byChunk[k]; ok {
					d := v[0] - s.KL*v[1]
					sum += d * d
				}
			}
			s.KLErr = math.NaN()
			if m := float64(len(byChunk)); m > 1 {
				s.KLErr = math.Sqrt(sum*m/(m-1)) / n
			}
			slices.Sort(kls)
			at := func(f float64) float64 {
				if len(kls) == 0 {
					return math.NaN()
				}
				return kls[int(f*float64(len(kls)-1))]
			}
			s.Median, s.P90, s.P99, s.P999, s.Max = at(0.5), at(0.9), at(0.99), at(0.999), at(1)
			return s
		}
		res := yardstick.Result{Candidate: c, All: over("all", func(*yardstick.Chunk, int) bool { return true })}
		for i := range y.Setup.Corpora {
			res.Corpora = append(res.Corpora, over(y.Setup.Corpora[i].Name, func(k *yardstick.Chunk, _ int) bool { return k.Corpus == i }))
		}
		edges := []float64{0, 0.3, 0.6, 0.9, 0.99, 1.01}
		for i, name := range []string{"below 0.3", "0.3 to 0.6", "0.6 to 0.9", "0.9 to 0.99", "from 0.99 on"} {
			res.Buckets = append(res.Buckets, over(name, func(k *yardstick.Chunk, at int) bool {
				p := float64(k.Ref[at].MaxP)
				return p >= edges[i] && p < edges[i+1]
			}))
		}
		for i, name := range []string{"ASCII", "digits", "non-ASCII", "special"} {
			res.Classes = append(res.Classes, over(name, func(k *yardstick.Chunk, at int) bool { return int(k.Ref[at].Top)%4 == i }))
		}
		const places = 16
		for i := range places {
			res.ByPlace = append(res.ByPlace, over("", func(k *yardstick.Chunk, at int) bool { return at*places/len(k.Ref) == i }))
		}
		for _, k := range y.Chunks {
			for i, row := range k.Rows[c] {
				switch v := (math.Log10(row.KL) - yardstick.HistogramFrom) / yardstick.HistogramStep; {
				case math.IsInf(row.KL, 1):
					res.Histogram.Infinite++
				case !math.IsNaN(row.KL):
					res.Histogram.Counts[min(max(int(v), 0), len(res.Histogram.Counts)-1)]++
				}
				if math.IsNaN(row.KL) {
					continue
				}
				res.Worst = append(res.Worst, yardstick.Place{
					Corpus: k.Corpus, Chunk: k.Index, At: k.First + i, KL: row.KL, Ref: k.Ref[i].Top, Cand: row.Top, MaxP: float64(k.Ref[i].MaxP),
					Target: y.Setup.Corpora[k.Corpus].IDs[k.Index][k.First+i+1],
				})
			}
		}
		slices.SortStableFunc(res.Worst, func(a, b yardstick.Place) int {
			switch {
			case a.KL > b.KL:
				return -1
			case a.KL < b.KL:
				return 1
			}
			return 0
		})
		res.Worst = res.Worst[:min(len(res.Worst), 64)]
		r.Results = append(r.Results, res)
	}
	for b := range y.Setup.Candidates {
		p := &y.Setup.Candidates[b]
		if p.Floor {
			continue
		}
		r.Gates = append(r.Gates, yardstick.Gate{Name: "finite", Of: b, Passed: r.Results[b].All.NaN == 0, Message: fmt.Sprintf("%d of %d positions have figures", r.Results[b].All.Positions, done)})
		if a := p.Baseline; a >= 0 {
			r.Pairs = append(r.Pairs, yardPair(r, a, b))
			r.Gates = append(r.Gates, yardstick.Gate{Name: "fidelity", Of: b, Passed: true, Message: "differs from " + y.Setup.Candidates[a].Label})
		}
	}
	r.Gates = append(r.Gates, yardstick.Gate{Name: "determinism", Of: -1, Passed: true, Message: "the first chunk twice gives the same bits"})
	return r
}

// yardPair compares two candidates; its interval is two standard errors.
func yardPair(r *yardstick.Report, a, b int) yardstick.Pair {
	x, y := &r.Results[a].All, &r.Results[b].All
	d, se := y.KL-x.KL, (x.KLErr+y.KLErr)/8
	return yardstick.Pair{A: a, B: b, DKL: d, Low: d - 2*se, High: d + 2*se, DNLL: y.NLL - x.NLL, P: 0.001, Chunks: x.Chunks, Wins: x.Chunks * 3 / 4}
}

// Odd makes a measurement one in which much has gone wrong: a candidate with NaN,
// one that excludes what the reference allows, one that is its baseline exactly;
// and gives its report the parts that ordinary ones lack.
func Odd(y *sessions.Yard) *yardstick.Report {
	s := y.Setup
	for _, k := range y.Chunks {
		for i := range k.Rows[2] {
			if i%40 == 3 {
				k.Rows[2][i] = yardstick.Row{KL: math.NaN(), Reverse: math.NaN(), NLL: math.NaN()}
			}
			if i%60 == 7 {
				k.Rows[5][i].KL, k.Rows[5][i].NLL = math.Inf(1), math.Inf(1)
			}
		}
		k.Rows[4] = slices.Clone(k.Rows[3])
	}
	s.Candidates[6].Of, s.Candidates[6].Derived = 5, "only attention"
	r := YardReport(y)
	for i := range r.Pairs {
		if r.Pairs[i].B == 4 {
			r.Pairs[i] = yardstick.Pair{A: 3, B: 4, Equal: true, Chunks: r.Pairs[i].Chunks}
		}
	}
	r.Gates = append(r.Gates, yardstick.Gate{Name: "fidelity", Of: 4, Message: "equals nvfp4+mse exactly in size, worst error, ΔNLL and top-1: it did not calibrate"})
	r.Attributed = []yardstick.Attribution{{Of: 5, Rows: []int{6}, Whole: r.Results[5].All.KL, Sum: r.Results[6].All.KL, Low: 0.8, High: 0.95, Message: "the parts add up to 87 % [80 %, 95 %] of the whole: they interact"}}
	for c := 1; c < len(s.Candidates); c++ {
		for l := range 6 {
			for _, name := range Projections {
				u := unit(c*100 + l*10 + len(name))
				r.Probes = append(r.Probes, yardstick.Probe{Candidate: c, Layer: l, Name: fmt.Sprintf("layer %d expert %s", l, name), Tensors: 16, Output: 0.06 + 0.05*u, Weight: 0.09, Rows: 512})
			}
		}
	}
	return r
}

// CalibratedYard is a measurement with calibrated candidates: one better than its
// baseline, one that is not told apart from it, one worse, one that is its
// baseline bit for bit; and its report.
func CalibratedYard() (*sessions.Yard, *yardstick.Report) {
	y := Yard(Shape{8, 128, []string{"int4-g128", "int4-g128+gptq", "int4-g128+gptq+act", "nvfp4", "nvfp4+imatrix", "nvfp4+gptq"}, []string{"prose", "code", "math", "multi", "chat"}})
	s := y.Setup
	for c := range s.Candidates {
		p := &s.Candidates[c]
		if p.Floor || p.Baseline < 0 {
			p.Added = p.Spec == "nvfp4"
			continue
		}
		p.Calibrated = "calib (demo): 98304 tokens in 256 chunks, sha256 6a0bac2e91e3"
	}
	for c, base := range map[int]int{3: 1, 6: 4} {
		s.Candidates[c].Baseline = base
	}
	for _, k := range y.Chunks {
		for i := range k.Rows[1] {
			k.Rows[2][i].KL = k.Rows[1][i].KL * 0.75
			k.Rows[3][i].KL = k.Rows[1][i].KL * 0.99
			k.Rows[5][i].KL = k.Rows[4][i].KL * 1.1
		}
		k.Rows[6] = slices.Clone(k.Rows[4])
	}
	s.Candidates[2].Fallbacks = []candidate.Fallback{{Tensor: "layers.2.mlp.experts.8.down_proj", Requested: "int4-g128+gptq", Effective: "int4-g128", Reason: "no token of the calibration text was routed to it", Params: 16_384}}
	r := YardReport(y)
	for i := range r.Pairs {
		if r.Pairs[i].B == 6 {
			r.Pairs[i] = yardstick.Pair{A: 4, B: 6, Equal: true, Chunks: r.Pairs[i].Chunks}
		}
		if r.Pairs[i].B == 3 {
			r.Pairs[i].Low, r.Pairs[i].High = r.Pairs[i].DKL*3, -r.Pairs[i].DKL
		}
	}
	for i := range r.Gates {
		if g := &r.Gates[i]; g.Name == "fidelity" && g.Of == 6 {
			g.Passed, g.Message = false, "equals nvfp4 exactly in size, worst error, ΔNLL and top-1: it did not calibrate"
		}
	}
	return y, r
}
