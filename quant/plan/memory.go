package plan

import (
	"fmt"
	"math"

	"quantscope/quant/topology"
)

// cut says how tensor parallelism divides a matrix: the rules of vLLM's layers,
// which follow Megatron-LM.
type cut uint8

const (
	whole   cut = iota // every rank holds it
	byRows             // outputs: column parallel
	byCols             // inputs: row parallel
	byHeads            // outputs of k and v; where there are fewer heads than ranks, ranks share a head
	byQKV              // q, k and v in one matrix, each divided as it is by itself
	byVocab            // rows, padded to a multiple of 64
)

// vocabUnit is what vLLM pads vocabularies to, before they are divided.
const vocabUnit = 64

// cutOf is the rule for a role. Low-rank inputs of attention (q_a, kv_a), indexers,
// routers, norms and towers are replicated.
func cutOf(r *topology.Role) cut {
	switch r.Kind {
	case topology.Embedding:
		if r.Projection != "position" {
			return byVocab
		}
	case topology.Head:
		return byVocab
	case topology.MTPExtra:
		if r.Projection == "shared_head.head" || r.Projection == "head" {
			return byVocab
		}
	case topology.MLP, topology.Expert, topology.SharedExpert:
		if r.Projection == "down" {
			return byCols
		}
		return byRows
	case topology.Attention:
		switch r.Projection {
		case "k", "v":
			return byHeads
		case "qkv":
			return byQKV
		case "o", "o_b":
			return byCols
		case "q", "q_b", "kv_b", "k_b", "v_b", "o_a", "g", "sinks", "qkvz", "z", "ba", "a", "b", "conv", "a_log", "dt":
			return byRows
		}
	}
	return whole
}

// divided is how many of n rows or columns a rank has.
func divided(n, ranks int64) int64 { return (n + ranks - 1) / ranks }

// rankShape is the part of a rows×cols matrix that one rank holds.
func (p *planner) rankShape(r *topology.Role, rows, cols int64) (int64, int64) {
	ranks := int64(p.o.Ranks)
	switch cutOf(r) {
	case byRows:
		return divided(rows, ranks), cols
	case byCols:
		return rows, divided(cols, ranks)
	case byVocab:
		return divided(divided(rows, vocabUnit)*vocabUnit, ranks), cols
	case byHeads:
		return p.headRows(rows, p.dimOf(r)), cols
	case byQKV:
		queries, keys, dim := p.model.Config.AttentionSizes(r.Layer)
		q, kv := int64(queries)*int64(dim), int64(keys)*int64(dim)
		if q > 0 && rows == q+2*kv {
			return divided(q, ranks) + 2*p.headRows(kv, int64(dim)), cols
		}
		return divided(rows, ranks), cols
	}
	return rows, cols
}

// dimOf is the width of a head in a role's layer.
func (p *planner) dimOf(r *topology.Role) int64 {
	_, _, dim := p.model.Config.AttentionSizes(r.Layer)
	return int64(dim)
}

// headRows is how many of the rows of keys, or of values, a rank holds of heads that
// are so wide.
func (p *planner) headRows(rows, dim int64) int64 {
	heads := p.heads(rows, dim)
	if heads == 0 {
		return rows
	}
	return rows / heads * max(1, divided(heads, int64(p.o.Ranks)))
}

// heads is how many heads of a width so many rows of keys or values are; 0 where it
// is not known.
func (p *planner) heads(rows, dim int64) int64 {
	if dim > 0 && rows%dim == 0 {
		return rows / dim
	}
	if n := int64(p.model.Config.KVHeads); n > 0 && rows%n == 0 {
		return n
	}
	return 0
}

// rankBytes is what one rank holds of a tensor as it is stored.
func (p *planner) rankBytes(i int) int64 {
	t, r, size := &p.model.Tensors[i], &p.model.Roles[i], p.size[i]
	ranks := int64(p.o.Ranks)
	c := cutOf(r)
	if size == 0 || c == whole {
		return size
	}
	n := len(t.Shape)
	switch {
	case n == 2 && r.Param == "weight" && p.first[i] < p.first[i+1]:
		x := &p.model.Matrices[p.first[i]]
		rows, cols := p.rankShape(r, int64(x.Rows), int64(x.Cols))
		return size / (int64(x.Rows) * int64(x.Cols)) * rows * cols
	case c == byVocab:
		if n == 0 {
			return size
		}
		rows, _ := p.rankShape(r, t.Shape[0], 1)
		return size / t.Shape[0] * rows
	case c == byCols && (n < 2 || t.Shape[n-1] < ranks), n == 0, c != byCols && t.Shape[0] < 2:
		return size // biases of what is divided by inputs, scales of a whole tensor
	case n == 1 && (c == byHeads || c == byQKV):
		rows, _ := p.rankShape(r, t.Shape[0], 1)
		return size / t.Shape[0] * rows
	case c == byHeads && p.model.Config.KVHeads > 0: // packed, whose sides say nothing of heads
		heads := int64(p.model.Config.KVHeads)
		return divided(size, heads) * max(1, divided(heads, ranks))
	}
	return divided(size, ranks)
}

// rankStored is what one rank holds of a matrix in its group's scheme.
func (p *planner) rankStored(k int) (int64, error) {
	x := &p.model.Matrices[k]
	rows, cols := p.rankShape(&x.Role, int64(x.Rows), int64(x.Cols))
	return p.formats[p.state[k]].Bytes(int(rows), int(cols))
}

// memory fills in what a rank holds and what a token reads, before and after.
func (p *planner) memory() error {
	name, class, notes, err := p.loader()
	if err != nil {
		return err
	}
	cache, err := p.keysAndValues(&class)
	if err != nil {
		return err
	}
	notes = append(notes, cache.notes...)
	if p.o.Ranks > 1 && p.model.Params[topology.Vision] > 0 && class.vision {
		notes = append(notes, "towers are counted whole on every rank; servers divide those of some families")
	}
	for _, after := range []bool{false, true} {
		m := Memory{Ranks: p.o.Ranks, KVBytes: cache.kv, StateBytes: cache.state, Loader: name, LeftOut: []Part{}, Notes: append([]string{}, notes...)}
		d, err := p.weigh(&class, after, &m)
		if err != nil {
			return err
		}
		if after {
			p.After, p.DecodeAfter = m, d
		} else {
			p.Before, p.DecodeBefore = m, d
		}
	}
	return nil
}

// weigh adds up what a rank holds of all tensors, and reads of them for a token.
func (p *planner) weigh(class *loaderClass, after bool, m *Memory) (Decode, error) {
	read := reader{experts: map[int]int64{}}
	for i := range p.model.Tensors {
		r := &p.model.Roles[i]
		rank, file := p.rankBytes(i), p.size[i]
		if all := int64(p.first[i+1] - p.first[i]); after && all > 0 {
			stays, before := rank, p.size[i]/all
			for k := p.first[i]; k < p.first[i+1]; k++ {
				if p.state[k] < 0 {
					continue
				}
				n, err := p.rankStored(k)
				if err != nil {
					return Decode{}, fmt.Errorf("tensor %q: %w", p.model.Matrices[k].Name, err)
				}
				stays += n - rank/all
				file += p.after[k] - before
			}
			rank = stays
		}
		if part, why := p.leaves(class, r); part != "" {
			m.leave(part, why, file)
			continue
		}
		m.WeightsBytes += rank
		read.tensor(p.model, i, rank)
	}
	return p.decode(&read, m), nil
}

// leave adds to the parts that are not instantiated.
func (m *Memory) leave(part, why string, bytes int64) {
	for i := range m.LeftOut {
		if m.LeftOut[i].Name == part {
			m.LeftOut[i].Bytes += bytes
			return
		}
	}
	m.LeftOut = append(m.LeftOut, Part{part, bytes, why})
}

// reader adds up what one rank reads for a token.
type reader struct {
	bytes   int64
	experts map[int]int64 // all experts of a layer
}

// tensor adds what is read of a tensor of which the rank holds so many bytes: of
// embeddings a row, of towers nothing, and of experts what decode decides.
func (d *reader) tensor(m *topology.Model, i int, rank int64) {
	r := &m.Roles[i]
	switch {
	case r.Kind == topology.Vision:
	case r.Kind == topology.Embedding:
		if shape := m.Tensors[i].Shape; len(shape) > 0 && shape[0] > 0 {
			row := int64(1)
			for _, n := range shape[1:] {
				row *= n
			}
			d.bytes += row * elementBytes(m.Tensors[i].DType)
		}
		if m.Tied && r.Projection == "" && !r.MTP {
			d.bytes += rank // as the head
		}
	case r.Kind == topology.Expert:
		d.experts[r.Layer] += rank
	default:
		d.bytes += rank
	}
}

func elementBytes(dtype string) int64 {
	switch dtype {
	case "F32":
		return 4
	case "BF16", "F16":
		return 2
	}
	return 1
}

// decode is what a token reads at batch 1, and how many there can be in a second.
func (p *planner) decode(read *reader, m *Memory) Decode {
	bytes := read.bytes + m.KVBytes + m.StateBytes
	top, count := int64(p.model.TopK), int64(p.model.Config.Experts)
	if count == 0 {
		count = int64(p.model.Experts)
	}
	for _, all := range read.experts {
		if top == 0 || count == 0 {
			m.Notes = append(m.Notes, "the config does not say how many experts a token takes, so that what it reads is not known")
			return Decode{}
		}
		bytes += int64(math.Round(float64(all) * float64(min(top, count)) / float64(count)))
	}
	d := Decode{BytesPerToken: bytes * int64(p.o.Ranks), BytesPerRank: bytes}
	if bytes > 0 {
		d.TokensPerSec = p.o.Bandwidth / float64(bytes)
	}
	return d
}
