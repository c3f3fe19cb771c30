package gguf

import (
	"fmt"
	"slices"
)

// tiles is the order of value heads in llama.cpp's files of linear attention.
// Checkpoints have the heads of one key head side by side; files have the first of
// every key head, then the second of every one, and so on, so that a plain repetition
// of the keys meets them. What stands before the value heads has its place.
type tiles struct {
	first     int // rows, columns or values before the first head
	keys, per int // key heads, and value heads of one
	width     int // rows, columns or values of a value head
}

// stored is where row r of the checkpoint stands in the file.
func (t *tiles) stored(r int) int {
	if r < t.first {
		return r
	}
	r -= t.first
	h, in := r/t.width, r%t.width
	k, j := h/t.per, h%t.per
	return t.first + (j*t.keys+k)*t.width + in
}

// run is where rows from r on stand, and how many of so many stand there one after
// the other.
func (t *tiles) run(r, n int) (stored, length int) {
	if r < t.first {
		return r, min(n, t.first-r)
	}
	return t.stored(r), min(n, t.width-(r-t.first)%t.width)
}

// all is the number of rows that are in this order.
func (t *tiles) all() int { return t.first + t.keys*t.per*t.width }

// RowOrder is an order of rows, or of columns, that a file's tensors have and that
// reading puts back.
type RowOrder struct {
	ID      string // of the finding: head-order, value-head-order, qkvz-order
	First   string // name of the first tensor
	Tensors int    // matrices
	Text    string // a sentence for a person
}

// orderTexts say what stands otherwise, by ID, with the number of matrices.
var orderTexts = []struct{ id, text string }{
	{"head-order", "rows of %d query and key matrices are stored in rotation pairs, as llama.cpp has them, and were put back into halves"},
	{"value-head-order", "value heads of %d matrices of linear attention are stored in turns, one of every key head after the other, as llama.cpp has them, and were put back side by side for each key head"},
	{"qkvz-order", "rows of %d matrices of linear attention are stored with all queries, all keys, all values and all gates together, as llama.cpp has them, and were put back side by side for each key head"},
}

// orderID says which order the rows or columns of a weight have, "" where it is the
// checkpoint's.
func (w *Weight) orderID() string {
	switch {
	case slices.ContainsFunc(w.pieces, func(p piece) bool { return p.heads > 0 }):
		return "head-order"
	case slices.ContainsFunc(w.pieces, func(p piece) bool { return p.rowTiles != nil || p.colTiles != nil }):
		return "value-head-order"
	case w.grouped:
		return "qkvz-order"
	}
	return ""
}

// RowOrders are the orders that matrices of the file have, in a fixed order.
func (m *Model) RowOrders() []RowOrder {
	var out []RowOrder
	for _, o := range orderTexts {
		r := RowOrder{ID: o.id}
		for i := range m.Weights {
			if w := &m.Weights[i]; !w.Vector && w.orderID() == o.id {
				if r.Tensors == 0 {
					r.First = m.Stored(w)
				}
				r.Tensors++
			}
		}
		if r.Tensors > 0 {
			r.Text = fmt.Sprintf(o.text, r.Tensors)
			out = append(out, r)
		}
	}
	return out
}

// OrderText says in words what order of rows or columns was put back, "" where the
// file has the checkpoint's.
func (w *Weight) OrderText() string {
	return map[string]string{
		"head-order":       "rows of each head put back from pairs to halves, as llama.cpp's converter pairs them",
		"value-head-order": "value heads put back side by side for each key head, from the turns in which llama.cpp's converter puts them",
		"qkvz-order":       "rows of each key head put back together, which llama.cpp's converter splits into queries, keys, values and gates of all",
	}[w.orderID()]
}
