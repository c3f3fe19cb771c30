package gguf

import (
	"fmt"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// Weight is a matrix or a vector as the forward pass sees it, made of rows of
// what the file stores.
type Weight struct {
	Name   string // as checkpoints for transformers call it
	Rows   int    // outputs; 1 of a vector
	Cols   int
	Vector bool
	Lines  int     // rows in which a checkpoint has the values of a vector: channels of a convolution; 0: it is one row
	Shift  float32 // what is added to the stored values: −1 where they are 1+w

	pieces  []piece
	bytes   int64 // as stored, of all pieces
	form    form  // of the values of a vector
	grouped bool  // rows of each key head, from tensors that have those of all together
}

// form is what the stored values of a vector stand for.
type form uint8

const (
	asStored form = iota
	decay         // −exp(w): the logarithm is taken
	ones          // each is 1, whatever is stored
)

// piece is some of the rows of a weight: consecutive rows of one tensor, seen as
// a matrix of its last dimension, or the columns of them.
type piece struct {
	tensor int // index in File.Tensors
	first  int64
	rows   int // of the weight
	// heads > 0: rows of each of so many heads, of a vector its values, stand in
	// pairs. That of h·d + j·d/2 + i, j = 0 or 1, is stored at h·d + 2i + j.
	heads int
	// rowTiles and colTiles, where not nil: rows (values of a vector) and columns stand
	// in the order of value heads that llama.cpp has.
	rowTiles, colTiles *tiles
	turned             bool // what is stored are the columns of the weight: Cols rows of rows
	scaled             bool // what is decoded is multiplied by scale, which stands in a tensor of its own
	scale              float32
}

// Types are those that the weight is stored in, without repetition.
func (m *Model) Types(w *Weight) []kernels.GGUFType {
	var types []kernels.GGUFType
	for _, p := range w.pieces {
		if t := m.Tensors[p.tensor].Type; !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return types
}

// Stored names the tensor that a weight comes from, the first one of several.
func (m *Model) Stored(w *Weight) string { return m.Tensors[w.pieces[0].tensor].Name }

// Bytes is the size of the weight as stored.
func (w *Weight) Bytes() int64 { return w.bytes }

// Reordered says whether rows or columns of the weight are stored in another order.
func (w *Weight) Reordered() bool { return w.orderID() != "" }

// storedRow is where row r of the piece stands, from its first one on.
func (p *piece) storedRow(r int) int {
	switch {
	case p.heads > 0:
		return paired(r, p.rows/p.heads)
	case p.rowTiles != nil:
		return p.rowTiles.stored(r)
	}
	return r
}

// paired is where row r of heads of d rows stands.
func paired(r, d int) int {
	h, in := r/d, r%d
	return h*d + 2*(in%(d/2)) + in/(d/2)
}

// rowBytes is the size of one stored row of a tensor.
func rowBytes(t *Tensor) int64 {
	block, bytes := t.Type.Block()
	return t.Shape[len(t.Shape)-1] / int64(block) * int64(bytes)
}

// extent are the stored rows and bytes of a piece.
func (m *Model) extent(w *Weight, p *piece) (rows int, bytes int64) {
	rows = p.rows
	if p.turned {
		rows = w.Cols
	}
	return rows, int64(rows) * rowBytes(&m.Tensors[p.tensor])
}

// whole makes a weight of a whole tensor.
func (m *Model) whole(name string, i int) (Weight, error) {
	t := &m.Tensors[i]
	w := Weight{Name: name, Rows: 1, pieces: []piece{{tensor: i, rows: 1}}}
	switch len(t.Shape) {
	case 1:
		w.Vector, w.Cols = true, int(t.Shape[0])
	case 2:
		w.Rows, w.Cols = int(t.Shape[0]), int(t.Shape[1])
		w.pieces[0].rows = w.Rows
	default:
		return w, m.shape(t, "a matrix or a vector")
	}
	return w, nil
}

func (m *Model) shape(t *Tensor, want string) error {
	return &checkpoint.FileError{File: m.Parts[t.Part].Name, Tensor: t.Name, Reason: fmt.Sprintf("has shape %v where %s is expected", t.Shape, want)}
}

// stack makes a weight of each expert of a tensor that holds all.
func (m *Model) stack(i, experts int, name func(expert int) string) ([]Weight, error) {
	t := &m.Tensors[i]
	n := len(t.Shape)
	if n != 2 && n != 3 || t.Shape[0] != int64(experts) {
		return nil, m.shape(t, fmt.Sprintf("a stack of %d experts", experts))
	}
	out := make([]Weight, experts)
	for e := range out {
		w := Weight{Name: name(e), Rows: 1, Cols: int(t.Shape[n-1]), Vector: n == 2}
		if n == 3 {
			w.Rows = int(t.Shape[1])
		}
		w.pieces = []piece{{tensor: i, first: int64(e) * int64(w.Rows), rows: w.Rows}}
		out[e] = w
	}
	return out, nil
}

// join makes kv_b of its two halves: of each head the rows of k, which are stored
// as columns, and those of v.
func (m *Model) join(name string, k, v int) (Weight, error) {
	tk, tv := &m.Tensors[k], &m.Tensors[v]
	if len(tk.Shape) != 3 || len(tv.Shape) != 3 {
		return Weight{}, m.shape(tk, "a stack of heads, and one of attn_v_b,")
	}
	heads, latent, nope, vdim := tk.Shape[0], tk.Shape[1], tk.Shape[2], tv.Shape[1]
	if tv.Shape[0] != heads || tv.Shape[2] != latent || heads > maxExperts {
		return Weight{}, m.shape(tv, fmt.Sprintf("[%d, ?, %d]", heads, latent))
	}
	w := Weight{Name: name, Rows: int(heads * (nope + vdim)), Cols: int(latent)}
	for h := range heads {
		w.pieces = append(w.pieces,
			piece{tensor: k, first: h * latent, rows: int(nope), turned: true},
			piece{tensor: v, first: h * vdim, rows: int(vdim)})
	}
	return w, nil
}
