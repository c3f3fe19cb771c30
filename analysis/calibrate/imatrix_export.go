package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"quantscope/quant/codes"
	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// sharedNote tells readers of an imatrix made here how its experts were measured.
const sharedNote = "gate and up of every expert have the sums over all tokens, and their count: they are not measured apart over the tokens routed to each"

// Unnamed are inputs that llama.cpp has no tensor for, by the linear map that
// reads them.
type Unnamed struct {
	Map    string // as in "attention kv_b"
	Layers int    // how many layers have it; 0 outside layers
	Reason string
}

// Imatrix makes an imatrix of the file, under the names that llama.cpp's converter
// gives to the linear maps, and tells what has no name there. llama.cpp measures gate
// and up of each expert over the tokens routed to it; here all experts share what goes
// in, so each has that, with the count of all tokens.
func (f *File) Imatrix(ctx context.Context) (*gguf.Imatrix, []Unnamed, error) {
	if f.ck == nil {
		m, err := gguf.ReadImatrix(f.path)
		return m, nil, err
	}
	c := f.Header.Corpus
	m := &gguf.Imatrix{Datasets: []string{textName(c)}, ChunkCount: c.Chunks}
	if c.Chunks > 0 {
		m.ChunkSize = int(min((c.Tokens+int64(c.Chunks)-1)/int64(c.Chunks), math.MaxInt32))
	}
	x := &imatrixMaker{f: f, ctx: ctx, m: m, index: map[string]int{}, unnamed: map[string]*Unnamed{}}
	for _, u := range f.units {
		experts := 0
		x.linear = ""
		for _, in := range u.Inputs {
			experts = max(experts, in.At.Expert+1)
			for _, name := range in.For {
				if name == "attention qkvz" || name == "attention z" { // of linear attention alone
					x.linear = name
				}
			}
		}
		for _, in := range u.Inputs {
			if err := x.add(in, experts); err != nil {
				return nil, nil, err
			}
		}
	}
	if len(m.Entries) == 0 {
		return nil, nil, f.fail("", "has no moments that an imatrix can hold")
	}
	if f.Header.Source != "" {
		m.Notes = append(m.Notes, "of the checkpoint "+f.Header.Source, "through "+f.Header.Through)
	}
	if x.shared {
		m.Notes = append(m.Notes, sharedNote)
	}
	out := make([]Unnamed, 0, len(x.order))
	for _, k := range x.order {
		out = append(out, *x.unnamed[k])
	}
	return m, out, nil
}

// textName is what a text is called outside: its file, or which of the embedded ones.
func textName(c codes.Corpus) string {
	if c.Source == "" || strings.Contains(c.Source, c.Name) {
		return cmp.Or(c.Source, c.Name, "unknown")
	}
	return c.Source + " " + c.Name
}

type imatrixMaker struct {
	f       *File
	ctx     context.Context
	m       *gguf.Imatrix
	index   map[string]int
	shared  bool
	unnamed map[string]*Unnamed
	order   []string
	linear  string // a map that only layers with linear attention have, of the present layer; "" in others
}

// add writes the entries of all maps that read an input.
func (x *imatrixMaker) add(in Kept, experts int) error {
	sum2 := make([]float32, in.N)
	rows := x.f.Rows(in.At)
	if rows > 0 {
		mo, err := x.f.Moments(x.ctx, in.At)
		if err != nil {
			return err
		}
		for i, v := range mo.Sum2 {
			if sum2[i] = float32(v); math.IsInf(float64(sum2[i]), 0) {
				return x.f.fail(in.At.String(), "the sum of squares of column %d is %g, which f32 cannot hold", i, v)
			}
		}
	}
	for _, name := range in.For {
		kind, projection, _ := strings.Cut(name, " ")
		r := topology.Role{Layer: in.At.Layer, Expert: in.At.Expert, Projection: projection, Param: "weight"}
		if err := r.Kind.UnmarshalText([]byte(kind)); err != nil {
			return x.f.fail(in.At.String(), "is for %q, which is no linear map", name)
		}
		entry, stacked, ok := gguf.LinearName(r)
		if x.linear != "" && r.Kind == topology.Attention && r.Projection == "o" {
			entry = strings.Replace(entry, "attn_output", "ssm_out", 1)
		}
		if strings.HasPrefix(x.f.Header.Family, "gemma4") && r.Kind == topology.Expert && r.Projection != "down" { // one tensor there
			entry = strings.NewReplacer("ffn_gate_exps", "ffn_gate_up_exps", "ffn_up_exps", "ffn_gate_up_exps").Replace(entry)
		}
		if r.Kind == topology.Attention && r.Projection == "qkvz" && rows > 0 { // two tensors in files
			r.Projection = "qkv"
			entry, _, ok = gguf.LinearName(r)
			x.put(strings.Replace(entry, "attn_qkv", "attn_gate", 1), in.N, 1, 0, sum2, rows)
		}
		switch {
		case strings.HasSuffix(entry, ".ssm_out.weight") && x.linear == "attention z":
			x.without(name, r.Layer, "files keep the value heads of its columns in turns of the key heads, whose number moments do not tell")
		case in.At.Kind == topology.Embedding:
			x.without(name, r.Layer, "the head is the embedding, whose inputs llama-imatrix does not measure either")
		case !ok:
			x.without(name, r.Layer, "has no tensor in GGUF files")
		case stacked:
			x.stack(entry, r, in, sum2, rows, experts)
		case rows > 0:
			x.put(entry, in.N, 1, 0, sum2, rows)
		}
		if ok && projection == "kv_b" {
			x.without(name, r.Layer, "present converters split it into attn_k_b and attn_v_b, which read something else; older files have it whole")
		}
	}
	return nil
}

// stack puts what one expert reads at its place among all, or what all read at
// each.
func (x *imatrixMaker) stack(name string, r topology.Role, in Kept, sum2 []float32, rows int64, experts int) {
	if in.At.Kind == topology.Expert && in.At.Expert >= 0 {
		x.put(name, in.N, experts, in.At.Expert, sum2, rows)
		return
	}
	x.shared = true
	for e := range experts {
		x.put(name, in.N, experts, e, sum2, rows)
	}
}

func (x *imatrixMaker) put(name string, n, matrices, at int, sum2 []float32, rows int64) {
	i, ok := x.index[name]
	if !ok {
		i = len(x.m.Entries)
		x.index[name] = i
		x.m.Entries = append(x.m.Entries, gguf.ImatrixEntry{Name: name, Cols: n, Matrices: matrices, Sum2: make([]float32, n*matrices), Counts: make([]float32, matrices)})
	}
	e := &x.m.Entries[i]
	copy(e.Sum2[at*n:], sum2)
	e.Counts[at] = float32(rows)
}

func (x *imatrixMaker) without(name string, layer int, reason string) {
	u := x.unnamed[name]
	if u == nil {
		u = &Unnamed{Map: name, Reason: reason}
		x.unnamed[name] = u
		x.order = append(x.order, name)
	}
	if layer >= 0 {
		u.Layers++
	}
}

// String says it in a line.
func (u Unnamed) String() string {
	if u.Layers == 0 {
		return fmt.Sprintf("%s: %s", u.Map, u.Reason)
	}
	return fmt.Sprintf("%s of %d layers: %s", u.Map, u.Layers, u.Reason)
}
