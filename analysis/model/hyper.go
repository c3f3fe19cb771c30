package model

import (
	"math"

	"quantscope/quant/topology"
)

// Hyper says how several residual streams are mixed: manifold-constrained
// hyper-connections, as DeepSeek-V4 has them. Before a part of a layer, and before the
// head, coefficients are made of the root-mean-square normed values of all streams
// side by side, m = fn·flat, by row and in f32 whatever the activations are rounded to:
//
//	pre[i] = σ(scale₀·m+base) + Eps;  post[k] = 2·σ(scale₁·m+base)
//	comb[j,k]: softmax over k of scale₂·m+base, plus Eps, made doubly stochastic
//
// The part is given Σᵢ pre[i]·x[i], and of what it says, y, stream k becomes
// post[k]·y + Σⱼ comb[j,k]·x[j].
type Hyper struct {
	Rounds int     // of Sinkhorn and Knopp: columns, then Rounds−1 times rows and columns
	Eps    float64 // beside every sum that is divided by
}

// maxStreams bounds them.
const maxStreams = 16

// streams are the weights of a mixing of residual streams.
type streams struct {
	fn          linear
	base, scale []float32
}

func streamsAt(layer int, projection string) Place {
	return Place{Kind: topology.Mixing, Layer: layer, Expert: -1, Projection: projection}
}

// mixed are how many coefficients a part of a layer has.
func (s *Spec) mixed() int { return s.Streams * (s.Streams + 2) }

// mixes adds the tensors of a mixing: name is hc_attn, hc_ffn or hc_head.
func (t *tensors) mixes(layer int, name string, outputs, scales int) {
	t.list = append(t.list, Tensor{At: streamsAt(layer, name+"_fn"), Param: "weight", Rows: outputs, Cols: t.spec.Width(), Mixes: true})
	t.vector(streamsAt(layer, name+"_base"), "weight", outputs)
	t.vector(streamsAt(layer, name+"_scale"), "weight", scales)
}

func (r *list) streams(to *streams, layer int, name string, outputs, scales int) {
	r.matrix(&to.fn, streamsAt(layer, name+"_fn"), outputs, r.spec.Width())
	r.values(&to.base, streamsAt(layer, name+"_base"), "weight", outputs)
	r.values(&to.scale, streamsAt(layer, name+"_scale"), "weight", scales)
}

// partNames are the names of the mixings before the parts of a layer.
var partNames = [2]string{MixerPart: "hc_attn", MLPPart: "hc_ffn"}

// coefficients writes fn·flat of n rows of streams to s.mixes.
func (r *run) coefficients(s *scratch, w *streams, x []float32, n int) error {
	exact := *r
	exact.bf16 = false
	var err error
	if s.mixes, err = exact.apply(s, w.fn, x, n, s.mixes); err != nil {
		return err
	}
	width, outputs := r.spec.Width(), w.fn.w.Rows
	for k := range n {
		square := r.o.Set.SumSquares(x[k*width:][:width])
		r.o.Set.Scale(s.mixes[k*outputs:][:outputs], float32(1/math.Sqrt(square/float64(width)+r.spec.Norm.Eps)))
	}
	return nil
}

// lead is what a part of a layer is of: a tile's hidden states, of several streams
// one. What the streams become by is kept in r.mixes until add.
func (r *run) lead(s *scratch, b *body, p Part, t *tile, x []float32) ([]float32, error) {
	hyper := r.spec.Hyper
	if hyper == nil {
		return x, nil
	}
	w, n, h := &b.streams[p], r.spec.Streams, r.spec.Hidden
	if err := r.coefficients(s, w, x, t.n); err != nil {
		return nil, err
	}
	s.lead = grow(s.lead, t.n*h)
	keep := n * (n + 1)
	s.share(t.n, n*h+64*n*n, func(from, to int) {
		var pre [maxStreams]float32
		for k := from; k < to; k++ {
			m := s.mixes[k*(n+keep):][:n+keep]
			part := func(first, i int) float64 {
				return float64(m[first+i])*float64(w.scale[min(first/n, 2)]) + float64(w.base[first+i])
			}
			for i := range n {
				pre[i] = float32(1/(1+math.Exp(-part(0, i))) + hyper.Eps)
			}
			out := r.mixes[(t.first+k)*keep:][:keep]
			for i := range n {
				out[i] = float32(2 / (1 + math.Exp(-part(n, i))))
			}
			hyper.comb(out[n:], n, func(i int) float64 { return part(2*n, i) })
			gatherStreams(s.lead[k*h:][:h], x[k*n*h:][:n*h], pre[:n])
		}
		r.round(s.lead[from*h : to*h])
	})
	return s.lead, nil
}

// comb makes n×n coefficients of logits, in f64.
func (y *Hyper) comb(dst []float32, n int, logit func(i int) float64) {
	var c [maxStreams * maxStreams]float64
	for j := range n {
		most, sum := math.Inf(-1), 0.0
		for k := range n {
			c[j*n+k] = logit(j*n + k)
			most = max(most, c[j*n+k])
		}
		for k := range n {
			c[j*n+k] = math.Exp(c[j*n+k] - most)
			sum += c[j*n+k]
		}
		for k := range n {
			c[j*n+k] = c[j*n+k]/sum + y.Eps
		}
	}
	divide := func(step, other int) { // by sums over the index that goes by step
		for a := range n {
			sum := y.Eps
			for b := range n {
				sum += c[a*other+b*step]
			}
			for b := range n {
				c[a*other+b*step] /= sum
			}
		}
	}
	divide(n, 1)
	for range y.Rounds - 1 {
		divide(1, n)
		divide(n, 1)
	}
	for i := range n * n {
		dst[i] = float32(c[i])
	}
}

// gatherStreams writes Σ by[i]·x[i] of the streams of a row to dst.
func gatherStreams(dst, x, by []float32) {
	h := len(dst)
	for c := range dst {
		var sum float32
		for i, f := range by {
			sum += float32(f * x[i*h+c])
		}
		dst[c] = sum
	}
}

// spread makes the streams of a row anew, of what a part of the layer says.
func spread(x, y, coefficients []float32, n int) {
	h := len(y)
	post, comb := coefficients[:n], coefficients[n:]
	var old [maxStreams]float32
	for c, v := range y {
		for j := range n {
			old[j] = x[j*h+c]
		}
		for k := range n {
			sum := float32(post[k] * v)
			for j := range n {
				sum += float32(comb[j*n+k] * old[j])
			}
			x[k*h+c] = sum
		}
	}
}

// collapse makes one stream of n rows of hidden states, by the mixing before a head.
func (r *run) collapse(s *scratch, w *streams, x []float32, n int) ([]float32, error) {
	hyper := r.spec.Hyper
	if hyper == nil {
		return x, nil
	}
	if err := r.coefficients(s, w, x, n); err != nil {
		return nil, err
	}
	k, h := r.spec.Streams, r.spec.Hidden
	s.lead = grow(s.lead, n*h)
	s.share(n, k*h, func(from, to int) {
		var pre [maxStreams]float32
		for row := from; row < to; row++ {
			for i := range k {
				m := float64(s.mixes[row*k+i])*float64(w.scale[0]) + float64(w.base[i])
				pre[i] = float32(1/(1+math.Exp(-m)) + hyper.Eps)
			}
			gatherStreams(s.lead[row*h:][:h], x[row*k*h:][:k*h], pre[:k])
		}
		r.round(s.lead[from*h : to*h])
	})
	return s.lead, nil
}

func (y *Hyper) check(c *checker, n int) {
	if n < 1 || n > maxStreams {
		c.refuse("%d residual streams, want 1 to %d", n, maxStreams)
	}
	if y.Rounds < 1 || y.Rounds > 1<<10 {
		c.refuse("hc_sinkhorn_iters is %d", y.Rounds)
	}
	if !(y.Eps >= 0) || y.Eps > 1 {
		c.refuse("hc_eps is %g", y.Eps)
	}
}
