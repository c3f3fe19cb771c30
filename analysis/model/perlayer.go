package model

import (
	"context"
	"math"

	"quantscope/quant/topology"
)

// PerLayer are embeddings that every decoder layer has of its own, of Dim values a
// token. They are made before the first layer, of the scaled embedding e and of a
// table by token:
//
//	p = (norm(per_layer_model_projection e/√Hidden) + table[token]·√Dim)/√2
//
// with a norm over the Dim values of each layer, and a layer adds to its hidden states
// in the end
//
//	x += post_per_layer_input_norm(per_layer_projection (act(per_layer_input_gate x)·p))
type PerLayer struct {
	Dim, Vocab int // Vocab are the rows of the table, as many as tokens or more
	Act        Activation
}

// The places of what stands outside layers.
var (
	perLayerTable = Place{Kind: topology.Embedding, Layer: -1, Expert: -1, Projection: "per_layer"}
	perLayerModel = Place{Kind: topology.Mixing, Layer: -1, Expert: -1, Projection: "per_layer_model_projection"}
	perLayerNorm  = Place{Kind: topology.Norm, Layer: -1, Expert: -1, Projection: "per_layer_projection_norm"}
)

// postPerLayerNorm is the norm of what a layer adds.
const postPerLayerNorm = "post_per_layer_input_norm"

func mixingAt(l *Layer, projection string) Place {
	return Place{Kind: topology.Mixing, Layer: l.Index, Expert: -1, Projection: projection}
}

// Embeds says whether a place outside layers is of what is made before the first one,
// and not of the head.
func Embeds(p Place) bool {
	return p.Layer < 0 && (p.Kind == topology.Embedding || p == perLayerModel || p == perLayerNorm)
}

// perLayer says whether a layer has embeddings of its own.
func (l *Layer) perLayer(s *Spec) bool { return s.PerLayer != nil && !l.MTP }

// perLayerOuter are the tensors outside layers.
func perLayerOuter(t *tensors) {
	p := t.spec.PerLayer
	if p == nil {
		return
	}
	width := len(t.spec.Layers) * p.Dim
	t.list = append(t.list, Tensor{At: perLayerTable, Param: "weight", Rows: p.Vocab, Cols: width, Table: true})
	t.matrix(perLayerModel, width, t.spec.Hidden)
	t.vector(perLayerNorm, "weight", p.Dim)
}

// perLayerTensors are those of a layer.
func perLayerTensors(t *tensors) {
	if !t.l.perLayer(t.spec) {
		return
	}
	t.matrix(mixingAt(t.l, "per_layer_input_gate"), t.spec.PerLayer.Dim, t.spec.Hidden)
	t.matrix(mixingAt(t.l, "per_layer_projection"), t.spec.Hidden, t.spec.PerLayer.Dim)
	t.vector(normAt(t.l, postPerLayerNorm), "weight", t.spec.Hidden)
}

// perLayerBody is what a layer reads.
type perLayerBody struct {
	gate, proj linear
	norm       []float32
}

func (r *list) perLayer(l *Layer) (b perLayerBody) {
	if l.perLayer(r.spec) {
		d, h := r.spec.PerLayer.Dim, r.spec.Hidden
		r.matrix(&b.gate, mixingAt(l, "per_layer_input_gate"), d, h)
		r.matrix(&b.proj, mixingAt(l, "per_layer_projection"), h, d)
		r.values(&b.norm, normAt(l, postPerLayerNorm), "weight", h)
	}
	return b
}

// entrance is what reads the scaled embeddings before the first layer.
type entrance struct {
	proj linear
	norm []float32
}

func (rd reader) entrance() (e entrance, err error) {
	p := rd.spec.PerLayer
	if p == nil {
		return e, nil
	}
	r := &list{reader: rd}
	r.matrix(&e.proj, perLayerModel, len(rd.spec.Layers)*p.Dim, rd.spec.Hidden)
	r.values(&e.norm, perLayerNorm, "weight", p.Dim)
	return e, r.err
}

// enteringRows is how many rows are projected at once before the first layer.
const enteringRows = 256

// embedLayers writes the layers' own embeddings of tokens, whose scaled embeddings are
// in x, to f.layers.
func (r *run) embedLayers(ctx context.Context, src Source, e *entrance, tokens []int32, x []float32, f *flow) error {
	p := r.spec.PerLayer
	if p == nil {
		return nil
	}
	h, width := r.spec.Hidden, len(r.spec.Layers)*p.Dim
	f.layers = grow(f.layers, len(tokens)*width)
	if err := src.Rows(ctx, perLayerTable, tokens, f.layers); err != nil {
		return err
	}
	own, inner := r.stored(math.Sqrt(float64(p.Dim))), float32(1/math.Sqrt(float64(h)))
	s := r.worker(0, r.o.Threads)
	for at := 0; at < len(tokens); at += enteringRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(enteringRows, len(tokens)-at)
		var err error
		if s.wide, err = r.linear(s, e.proj, x[at*h:][:n*h], n, s.wide); err != nil {
			return err
		}
		s.share(n, width, func(from, to int) {
			y, z := s.wide[from*width:to*width], f.layers[(at+from)*width:][:(to-from)*width]
			r.o.Set.Scale(y, inner)
			r.round(y)
			r.spec.Norm.apply(r.o.Set, y, y, e.norm)
			r.round(y)
			r.o.Set.Scale(z, own)
			r.round(z)
			r.o.Set.AddScaled(z, y, 1)
			r.round(z)
			r.o.Set.Scale(z, float32(math.Sqrt(0.5)))
			r.round(z)
		})
	}
	return nil
}

// Entrance gives the inputs of what reads the scaled embeddings before the first layer,
// with those of src, wherever the walk stands. Most models have no such map.
func (w *Walk) Entrance(ctx context.Context, src Source, l Looks) error {
	if w.spec.PerLayer == nil {
		return nil
	}
	defer w.hooks(l)()
	if w.r.o.Input == nil || !w.r.wants(perLayerModel) {
		return nil
	}
	h := w.spec.Hidden
	x := make([]float32, min(enteringRows, len(w.tokens))*h)
	for rest := w.tokens; len(rest) > 0; {
		n := min(enteringRows, len(rest))
		if err := w.r.embed(ctx, src, rest[:n], false, x[:n*h]); err != nil {
			return err
		}
		w.r.hook(perLayerModel, x[:n*h], n)
		rest = rest[n:]
	}
	return nil
}

// stored is a factor as it is stored beside embeddings.
func (r *run) stored(x float64) float32 {
	one := []float32{float32(x)}
	r.round(one)
	return one[0]
}

// addLayers adds what a layer makes of its own embeddings to a tile's hidden states.
func (r *run) addLayers(s *scratch, b *body, t *tile, rows []float32) (err error) {
	p := r.spec.PerLayer
	d, width := p.Dim, len(r.spec.Layers)*p.Dim
	if s.gate, err = r.linear(s, b.perLayer.gate, rows, t.n, s.gate); err != nil {
		return err
	}
	s.up = grow(s.up, t.n*d)
	s.share(t.n, d, func(from, to int) {
		for k := from; k < to; k++ {
			copy(s.up[k*d:(k+1)*d], r.flow.layers[(t.first+k)*width+b.l.Index*d:])
		}
		part := s.gate[from*d : to*d]
		FeedForward{Act: p.Act}.apply(r.o.Set, part, s.up[from*d:to*d])
		r.round(part)
	})
	if s.y, err = r.linear(s, b.perLayer.proj, s.gate, t.n, s.y); err != nil {
		return err
	}
	r.add(s, b, PerLayerPart, t, rows, s.y, b.perLayer.norm)
	return nil
}

// along are the bytes that go along with each row of hidden states, and outer how many
// weights stand before the first layer beside tables.
func (s *Spec) along() (bytes, outer int64) {
	bytes = s.lends()
	if p := s.PerLayer; p != nil {
		width := int64(len(s.Layers)) * int64(p.Dim)
		bytes, outer = bytes+4*width, width*int64(s.Hidden)
	}
	return bytes, outer
}

// enteringBytes is what rows take that are projected before the first layer.
func (s *Spec) enteringBytes() int64 {
	if s.PerLayer == nil {
		return 0
	}
	return 4 * enteringRows * int64(len(s.Layers)) * int64(s.PerLayer.Dim)
}
