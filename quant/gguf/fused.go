package gguf

import "fmt"

// gateUp is how a tensor with both halves of all experts is called.
const gateUp = "ffn_gate_up_exps"

// pairs is the number of heads whose rows stand in pairs, of weight k of a tensor;
// 0 where they do not.
func (n naming) pairs(module string, k, heads, kvHeads int) int {
	switch {
	case !n.paired:
	case module == "attn_q", module == "attn_qkv" && k == 0:
		return heads
	case module == "attn_k", module == "attn_qkv" && k == 1:
		return kvHeads
	}
	return 0
}

// splitQKV makes q, k and v of one tensor that has their rows, or the values of
// their biases, one after the other.
func (m *Model) splitQKV(i, layer int, g *geometry, name func(part string) string) ([]Weight, error) {
	t := &m.Tensors[i]
	var rows [3]int
	if g.qkv != nil {
		rows = g.qkv(layer)
		if all := rows[0] + rows[1] + rows[2]; len(t.Shape) > 2 || t.Shape[0] != int64(all) || min(rows[0], rows[1], rows[2]) <= 0 {
			return nil, m.shape(t, fmt.Sprintf("rows of %d, %d and %d", rows[0], rows[1], rows[2]))
		}
	} else {
		all := g.heads + 2*g.kvHeads
		if len(t.Shape) > 2 || g.kvHeads <= 0 || t.Shape[0]%int64(all) != 0 || g.heads%g.kvHeads != 0 {
			return nil, m.shape(t, fmt.Sprintf("rows of %d heads and twice %d", g.heads, g.kvHeads))
		}
		wide := int(t.Shape[0]) / all
		rows = [3]int{g.heads * wide, g.kvHeads * wide, g.kvHeads * wide}
	}
	var out []Weight
	at := 0
	for k, part := range []string{"q", "k", "v"} {
		n := rows[k]
		w := Weight{Name: name(part), Rows: n, pieces: []piece{{tensor: i, first: int64(at), rows: n}}}
		if len(t.Shape) == 1 {
			if at%n != 0 { // pieces of vectors count in their own length
				return nil, m.shape(t, "a matrix")
			}
			w.Vector, w.Rows, w.Cols = true, 1, n
			w.pieces[0] = piece{tensor: i, first: int64(at / n), rows: 1}
		} else {
			w.Cols = int(t.Shape[1])
		}
		out, at = append(out, w), at+n
	}
	return out, nil
}

// splitGateUp makes gate and up of each expert of a tensor that has, of every one,
// first the rows of gate.
func (m *Model) splitGateUp(i, experts int, name func(expert int, part string) string) ([]Weight, error) {
	t := &m.Tensors[i]
	n := len(t.Shape)
	if n != 2 && n != 3 || t.Shape[0] != int64(experts) || t.Shape[1]%2 != 0 {
		return nil, m.shape(t, fmt.Sprintf("a stack of gate and up of %d experts", experts))
	}
	half := int(t.Shape[1] / 2)
	out := make([]Weight, 0, 2*experts)
	for e := range experts {
		for k, part := range []string{"gate", "up"} {
			w := Weight{Name: name(e, part), Rows: half, Cols: int(t.Shape[n-1])}
			w.pieces = []piece{{tensor: i, first: int64(2*e+k) * int64(half), rows: half}}
			if n == 2 {
				w.Vector, w.Rows, w.Cols = true, 1, half
				w.pieces[0] = piece{tensor: i, first: int64(2*e + k), rows: 1}
			}
			out = append(out, w)
		}
	}
	return out, nil
}
