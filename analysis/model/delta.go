package model

import (
	"fmt"
	"math"
	"sync"

	"quantscope/kernels"
)

// Delta is a layer of gated delta rule (Yang, Kautz and Hatamizadeh, arXiv
// 2412.06464) as Qwen3-Next has it: a state of KeyDim×ValueDim a value head in
// place of keys and values of every token. Value head j goes with key head
// j/(ValueHeads/KeyHeads).
//
//	q, k, v = silu(convolution([q k v] of the projections))
//	q = q/‖q‖·KeyDim^−½;  k = k/‖k‖;  β = σ(b);  g = −e^a_log·softplus(a+dt)
//	o = kernels.Delta(q, k, v, g, β);  out = o_proj(RMS(o)·norm·silu(z))
type Delta struct {
	kernels.DeltaShape
	Taps int // of the convolution
	// Grouped: the projections are two, and the rows of each are grouped by key head:
	// q, k, v, z of the head, and b, a. Otherwise they are four: all q, all k and all
	// v; z; b; a.
	Grouped bool
}

// deltaEps is what the squares of a head's query or key are raised by.
const deltaEps = 1e-6

// channels are those of the convolution: all q, all k, all v.
func (d *Delta) channels() int { return 2*d.KeyHeads*d.KeyDim + d.values() }
func (d *Delta) values() int   { return d.ValueHeads * d.ValueDim }

func (d *Delta) convolution() kernels.Convolution {
	return kernels.Convolution{Channels: d.channels(), Taps: d.Taps}
}

// deltaMap is a projection into the layer.
type deltaMap struct {
	name string
	rows int
}

// maps are the projections, in the order in which a text meets them.
func (d *Delta) maps() []deltaMap {
	if d.Grouped {
		return []deltaMap{{"qkvz", d.channels() + d.values()}, {"ba", 2 * d.ValueHeads}}
	}
	return []deltaMap{{"qkv", d.channels()}, {"z", d.values()}, {"b", d.ValueHeads}, {"a", d.ValueHeads}}
}

// deltaVector is a vector of the layer.
type deltaVector struct {
	at    Place
	param string
	n     int
}

// vectors are those of the layer: the convolution's weights, a_log, dt, the norm.
func (d *Delta) vectors(l *Layer) [4]deltaVector {
	return [4]deltaVector{
		{attn(l, "conv"), "weight", d.channels() * d.Taps}, {attn(l, "a_log"), "weight", d.ValueHeads},
		{attn(l, "dt"), "bias", d.ValueHeads}, {normAt(l, "norm"), "weight", d.ValueDim},
	}
}

func (d *Delta) tensors(t *tensors) {
	for _, m := range d.maps() {
		t.matrix(attn(t.l, m.name), m.rows, t.spec.Hidden)
	}
	for _, v := range d.vectors(t.l) {
		t.vector(v.at, v.param, v.n)
	}
	o := t.matrix(attn(t.l, "o"), t.spec.Hidden, d.values())
	o.Heads, o.Width = d.ValueHeads, d.ValueDim
}

func (d *Delta) ropes() []*Rope { return nil }

func (d *Delta) wide() int { return 4*d.channels() + 4*d.values() + 4*d.ValueHeads }

func (d *Delta) check(c *checker) {
	c.size("linear_num_key_heads", d.KeyHeads, 1)
	c.size("linear_num_value_heads", d.ValueHeads, 1)
	c.size("linear_key_head_dim", d.KeyDim, 1)
	c.size("linear_value_head_dim", d.ValueDim, 1)
	c.size("linear_conv_kernel_dim", d.Taps, 1)
	if c.err != nil {
		return
	}
	c.size("linear_num_key_heads·linear_key_head_dim", d.KeyHeads*d.KeyDim, 1)
	c.size("linear_num_value_heads·linear_value_head_dim", d.values(), 1)
	c.size("channels·linear_conv_kernel_dim", d.channels()*d.Taps/256, 0)
	if d.ValueHeads%d.KeyHeads != 0 {
		c.refuse("%d linear value heads are no multiple of %d key heads", d.ValueHeads, d.KeyHeads)
	}
}

// deltaText is what a layer keeps of a text: the state with the tokens of the last
// one or two chunks, and the last rows before the convolution.
type deltaText struct {
	conv  kernels.ConvolutionState
	state kernels.DeltaState
}

func (d *Delta) empty() memory     { return &deltaText{} }
func (d *Delta) perToken() int64   { return 0 }
func (d *Delta) fixed() int64      { return d.Bytes() + d.convolution().Bytes() }
func (m *deltaText) room(_, _ int) {}
func (m *deltaText) tokens() int   { return m.state.Len() }

// cut goes back 64 tokens of the longest that the text was, often more; behind that
// nothing is left.
func (m *deltaText) cut(n int) int {
	if a, b := m.state.Cut(n), m.conv.Cut(n); a != b {
		m.state.Cut(0)
		m.conv.Cut(0)
	}
	return m.tokens()
}

func (m *deltaText) copyOf(n, _ int) memory {
	c := &deltaText{conv: m.conv.Copy(n), state: m.state.Copy(n)}
	c.cut(c.tokens())
	return c
}

// recurring is Delta with the weights of one layer.
type recurring struct {
	d              *Delta
	in             []linear // of maps
	o              linear
	conv           []float32 // [Taps, channels]
	aLog, dt, norm []float32
}

func (d *Delta) read(r *list, l *Layer) mixing {
	w := &recurring{d: d, in: make([]linear, len(d.maps()))}
	for i, m := range d.maps() {
		r.matrix(&w.in[i], attn(l, m.name), m.rows, r.spec.Hidden)
	}
	if at := attn(l, "conv"); r.err == nil && r.src.Has(at, "bias") {
		r.err = fmt.Errorf("%w: %s has a bias, which is not computed here", ErrArchitecture, at)
	}
	var conv []float32
	to := [4]*[]float32{&conv, &w.aLog, &w.dt, &w.norm}
	for i, v := range d.vectors(l) {
		r.values(to[i], v.at, v.param, v.n)
	}
	r.matrix(&w.o, attn(l, "o"), r.spec.Hidden, d.values())
	if r.err == nil { // a checkpoint has a channel's taps together
		w.conv = make([]float32, len(conv))
		for i, x := range conv {
			w.conv[i%d.Taps*d.channels()+i/d.Taps] = x
		}
	}
	return w
}

func (w *recurring) mix(r *run, s *scratch, b *body, t *tile) (_ []float32, err error) {
	d, set := w.d, r.o.Set
	channels, values := d.channels(), d.values()
	x, z, beta, g, err := w.project(r, s, t)
	if err != nil {
		return nil, err
	}
	// The convolution of every sequence, behind what came before it.
	s.wide = grow(s.wide, t.n*channels)
	if err := w.each(s, t, func(q *sequence, m *deltaText, threads int) error {
		at := (q.first - t.first) * channels
		var conv *kernels.ConvolutionState
		if m != nil {
			conv = &m.conv
		}
		return set.Convolve(d.convolution(), x[at:][:q.n*channels], w.conv, q.n, conv, s.wide[at:][:q.n*channels], threads)
	}); err != nil {
		return nil, err
	}
	keys := d.KeyHeads * d.KeyDim
	s.q, s.k, s.v = grow(s.q, t.n*keys), grow(s.k, t.n*keys), grow(s.v, t.n*values)
	s.share(t.n, 2*channels, func(from, to int) {
		r.round(s.wide[from*channels : to*channels])
		for i := from; i < to; i++ {
			row := s.wide[i*channels:][:channels]
			copy(s.q[i*keys:][:keys], row)
			copy(s.k[i*keys:][:keys], row[keys:])
			copy(s.v[i*values:][:values], row[2*keys:])
		}
		q, k := s.q[from*keys:to*keys], s.k[from*keys:to*keys]
		set.L2Norm(q, d.KeyDim, deltaEps, 1)
		set.L2Norm(k, d.KeyDim, deltaEps, 1)
		r.round(q)
		r.round(k)
		set.Scale(q, float32(1/math.Sqrt(float64(d.KeyDim))))
		kernels.DeltaGates(g[from*d.ValueHeads:to*d.ValueHeads], beta[from*d.ValueHeads:to*d.ValueHeads], w.aLog, w.dt)
		r.round(beta[from*d.ValueHeads : to*d.ValueHeads])
	})
	s.mixed = grow(s.mixed, t.n*values)
	if err := w.each(s, t, func(q *sequence, m *deltaText, threads int) error {
		at, n := q.first-t.first, q.n
		k, v, h := at*keys, at*values, at*d.ValueHeads
		var state *kernels.DeltaState
		if m != nil {
			state = &m.state
		}
		return set.Delta(d.DeltaShape, s.q[k:][:n*keys], s.k[k:][:n*keys], s.v[v:][:n*values], g[h:][:n*d.ValueHeads], beta[h:][:n*d.ValueHeads],
			n, state, s.mixed[v:][:n*values], threads)
	}); err != nil {
		return nil, err
	}
	s.share(t.n, 4*values, func(from, to int) {
		r.round(s.mixed[from*values : to*values])
		set.GatedNorm(z[from*values:to*values], s.mixed[from*values:to*values], w.norm, b.l.Norm.Eps)
		r.round(z[from*values : to*values])
	})
	s.y, err = r.linear(s, w.o, z, t.n, s.y)
	return s.y, err
}

// project makes of a tile's normed rows what goes into the convolution, the gate of
// the output, b and a, each with all heads side by side.
func (w *recurring) project(r *run, s *scratch, t *tile) (x, z, b, a []float32, err error) {
	d := w.d
	out := [4]*[]float32{&s.both, &s.open, &s.low, &s.rope}
	if d.Grouped {
		out = [4]*[]float32{&s.wide, &s.gate}
	}
	for i := range w.in {
		if *out[i], err = r.linear(s, w.in[i], s.normed, t.n, *out[i]); err != nil {
			return nil, nil, nil, nil, err
		}
	}
	if d.Grouped {
		w.part(s, t)
	}
	return s.both, s.open, s.low, s.rope, nil
}

// part puts what two grouped projections gave side by side.
func (w *recurring) part(s *scratch, t *tile) {
	d := w.d
	each := d.ValueHeads / d.KeyHeads
	keys, channels, values := d.KeyHeads*d.KeyDim, d.channels(), d.values()
	s.both, s.open = grow(s.both, t.n*channels), grow(s.open, t.n*values)
	s.low, s.rope = grow(s.low, t.n*d.ValueHeads), grow(s.rope, t.n*d.ValueHeads)
	s.share(t.n, channels+values, func(from, to int) {
		for i := from; i < to; i++ {
			x, gates := s.wide[i*(channels+values):], s.gate[2*i*d.ValueHeads:]
			for h := range d.KeyHeads {
				take := func(to []float32) { x = x[copy(to, x):] }
				take(s.both[i*channels+h*d.KeyDim:][:d.KeyDim])
				take(s.both[i*channels+keys+h*d.KeyDim:][:d.KeyDim])
				take(s.both[i*channels+2*keys+h*each*d.ValueDim:][:each*d.ValueDim])
				take(s.open[i*values+h*each*d.ValueDim:][:each*d.ValueDim])
				gates = gates[copy(s.low[i*d.ValueHeads+h*each:][:each], gates):]
				gates = gates[copy(s.rope[i*d.ValueHeads+h*each:][:each], gates):]
			}
		}
	})
}

// each does something for every sequence of a tile with what is kept of its text:
// beside each other where there are as many as threads.
func (w *recurring) each(s *scratch, t *tile, do func(q *sequence, m *deltaText, threads int) error) error {
	one := func(i, threads int) error {
		q := &t.seqs[i]
		m, _ := q.cache.(*deltaText)
		return do(q, m, threads)
	}
	if s.threads <= 1 || len(t.seqs) < s.threads {
		for i := range t.seqs {
			if err := one(i, s.threads); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, s.threads)
	var wg sync.WaitGroup
	for k := range s.threads {
		wg.Go(func() {
			for i := k; i < len(t.seqs) && errs[k] == nil; i += s.threads {
				errs[k] = one(i, 1)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
