package calibrate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// imatrixRow is where the moments of an input stand in an imatrix: the sums of
// so many of its rows together.
type imatrixRow struct {
	sum2 []float32 // rows one after the other
	rows int
	n    float64 // tokens, or chunks of the older format
}

// openImatrix reads an imatrix whole, and finds which input each entry is of. What
// several maps read, llama.cpp measures for each of them: the first of q, k and v
// stands for them, and gate before up. The router stands for the maps that read what
// it reads; where it is not there, the sum over the gates of all experts is, to which
// every token has added as often as experts are chosen, so that means are the same.
func openImatrix(path string) (*File, error) {
	m, err := gguf.ReadImatrix(path)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, at: map[model.Place]int{}, imatrix: map[model.Place]imatrixRow{}}
	f.Header = Header{Format: fileFormat, Through: ThroughReference, Imatrix: path, Program: "llama.cpp"}
	f.Header.Corpus.Chunks, f.Header.Corpus.Tokens = m.ChunkCount, int64(m.ChunkCount)*int64(m.ChunkSize)
	if len(m.Datasets) > 0 {
		f.Header.Corpus.Name, f.Header.Corpus.Source = m.Datasets[len(m.Datasets)-1], m.Datasets[len(m.Datasets)-1]
	}
	x := &imatrixReader{f: f, m: m, hidden: map[int]int{}, mlps: map[int]bool{}, experts: map[int][]int64{}}
	for i := range m.Entries {
		if r, _, ok := gguf.LinearRole(m.Entries[i].Name); ok && r.Kind == topology.Router {
			x.hidden[r.Layer] = m.Entries[i].Cols
		} else if ok && r.Kind == topology.Expert && x.hidden[r.Layer] == 0 {
			x.hidden[r.Layer] = -1 // experts, and no router so far
		} else if ok && r.Kind == topology.MLP {
			x.mlps[r.Layer] = true
		}
	}
	if err := x.all(); err != nil {
		return nil, err
	}
	f.identity = identityOf(m)
	f.notes = append(f.notes, m.Notes...)
	return f, nil
}

// imatrixReader sorts the entries of an imatrix.
type imatrixReader struct {
	f       *File
	m       *gguf.Imatrix
	hidden  map[int]int  // columns of a layer's router; -1 where it has experts and no router
	mlps    map[int]bool // layers that have an MLP
	experts map[int][]int64
	foreign []string
}

// preferred are the maps in the order in which they stand for an input.
var preferred = []string{"", "q", "q_a", "gate", "kv_a", "k", "v", "up", "o", "q_b", "kv_b", "down", "eh_proj", "shared_head.head"}

func (x *imatrixReader) all() error {
	type entry struct {
		e       *gguf.ImatrixEntry
		r       topology.Role
		stacked bool
	}
	var list []entry
	for i := range x.m.Entries {
		e := &x.m.Entries[i]
		r, stacked, ok := gguf.LinearRole(e.Name)
		if !ok {
			x.foreign = append(x.foreign, e.Name)
			continue
		}
		list = append(list, entry{e, r, stacked})
	}
	slices.SortStableFunc(list, func(a, b entry) int {
		if a.r.Layer != b.r.Layer {
			return a.r.Layer - b.r.Layer
		}
		return slices.Index(preferred, a.r.Projection) - slices.Index(preferred, b.r.Projection)
	})
	for _, l := range list {
		var err error
		if l.stacked {
			err = x.stack(l.e, l.r)
		} else {
			err = x.one(l.e, l.r)
		}
		if err != nil {
			return err
		}
	}
	if len(x.f.inputs) == 0 {
		return x.f.fail("", "has no entry that is a linear map of a model here; the first is %q", x.m.Entries[0].Name)
	}
	x.finish()
	return nil
}

// one adds an entry of one matrix.
func (x *imatrixReader) one(e *gguf.ImatrixEntry, r topology.Role) error {
	if e.Matrices != 1 {
		return x.f.fail(e.Name, "has moments of %d matrices, and is one", e.Matrices)
	}
	x.add(r, e.Cols, imatrixRow{e.Sum2, 1, float64(e.Counts[0])})
	return nil
}

// stack adds the entries of all experts. The older format does not say how many
// they are; the router's columns do.
func (x *imatrixReader) stack(e *gguf.ImatrixEntry, r topology.Role) error {
	experts, counts := e.Matrices, e.Counts
	if x.m.Legacy {
		gate := e
		for i := range x.m.Entries {
			if g := &x.m.Entries[i]; g.Name == fmt.Sprintf("blk.%d.ffn_gate_exps.weight", r.Layer) {
				gate = g
			}
		}
		hidden := x.hidden[r.Layer]
		if hidden <= 0 || gate.Cols%hidden != 0 || e.Cols%(gate.Cols/hidden) != 0 {
			return x.f.fail(e.Name, "has %d values, and nothing says of how many experts", e.Cols)
		}
		experts = gate.Cols / hidden
		counts = slices.Repeat(e.Counts, experts)
	}
	n := len(e.Sum2) / experts
	if experts > maxImatrixExperts {
		return x.f.fail(e.Name, "has %d experts", experts)
	}
	if r.Projection != "down" {
		r.Expert = 0
		if alike(e.Sum2, counts, n) {
			x.add(r, n, imatrixRow{e.Sum2[:n], 1, float64(counts[0])})
			return nil
		}
		all := 0.0
		for _, c := range counts {
			all += float64(c)
		}
		x.add(r, n, imatrixRow{e.Sum2, experts, all})
		return nil
	}
	for k := range experts {
		r.Expert = k
		x.add(r, n, imatrixRow{e.Sum2[k*n:][:n], 1, float64(counts[k])})
		if !x.m.Legacy {
			x.experts[r.Layer] = append(x.experts[r.Layer], int64(counts[k]))
		}
	}
	return nil
}

// alike says that all experts have the same moments, as those that were made here.
func alike(sum2, counts []float32, n int) bool {
	for k := range counts {
		if counts[k] != counts[0] || !slices.Equal(sum2[k*n:][:n], sum2[:n]) {
			return false
		}
	}
	return true
}

// maxImatrixExperts is far above what models have.
const maxImatrixExperts = 1 << 14

// add takes a row for an input that has none yet.
func (x *imatrixReader) add(r topology.Role, n int, row imatrixRow) {
	behind := model.BehindMLP
	switch {
	case x.hidden[r.Layer] != 0 && x.mlps[r.Layer]:
		behind = model.BehindBoth
	case x.hidden[r.Layer] != 0:
		behind = model.BehindExperts
	}
	at := model.InputOf(model.Place{Kind: r.Kind, Layer: r.Layer, Expert: r.Expert, Projection: r.Projection}, behind)
	if _, have := x.f.at[at]; have {
		return
	}
	x.f.at[at] = len(x.f.inputs)
	x.f.imatrix[at] = row
	x.f.inputs = append(x.f.inputs, storedInput{At: at.String(), N: n, Rows: int64(row.n)})
}

// finish tells what else is to be known of the file.
func (x *imatrixReader) finish() {
	f := x.f
	for _, in := range f.inputs {
		at, _ := ParsePlace(in.At) // it was made of a place
		unit := headUnit
		if at.Layer >= 0 {
			unit = fmt.Sprintf("layer %d", at.Layer)
		}
		if k := len(f.units); k == 0 || f.units[k-1].Name != unit {
			f.units = append(f.units, KeptUnit{Name: unit})
		}
		u := &f.units[len(f.units)-1]
		u.Inputs = append(u.Inputs, Kept{At: at, N: in.N})
	}
	layers := make([]int, 0, len(x.experts))
	for l := range x.experts {
		layers = append(layers, l)
	}
	slices.Sort(layers)
	for _, l := range layers {
		c := Counts{Layer: l, Expert: x.experts[l]}
		sum := int64(0)
		for _, n := range c.Expert {
			sum += n
		}
		if tokens := x.tokens(l); tokens > 0 && sum%tokens == 0 {
			c.Tokens, c.TopK = tokens, int(sum/tokens)
		}
		if refuseCounts([]Counts{c}) == nil {
			f.Header.Counts = append(f.Header.Counts, c)
		}
	}
	if x.m.Legacy {
		f.notes = append(f.notes, "is of the older format, which counts chunks and not tokens")
	}
	if n := len(x.foreign); n > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%d entries are of no linear map here, the first %q", n, x.foreign[0]))
	}
	if n := len(x.m.Others); n > 0 {
		f.notes = append(f.notes, fmt.Sprintf("%d tensors are neither sums nor counts, the first %q", n, x.m.Others[0]))
	}
}

// tokens are those that went through a layer: of its attention, else of the text.
func (x *imatrixReader) tokens(layer int) int64 {
	for at, row := range x.f.imatrix {
		if at.Layer == layer && at.Kind == topology.Attention && at.Projection == "o" {
			return int64(row.n)
		}
	}
	return x.f.Header.Corpus.Tokens
}

// imatrixMoments are those of an input, without a Hessian.
func (f *File) imatrixMoments(at model.Place, in *storedInput) *Moments {
	row := f.imatrix[at]
	m := &Moments{At: at, N: in.N, Rows: in.Rows, Sum2: make([]float64, in.N), H: kernels.Dense{}}
	for k := range row.rows {
		for i, x := range row.sum2[k*in.N:][:in.N] {
			m.Sum2[i] += float64(x)
		}
	}
	return m
}

// identityOf is the SHA-256 of all sums and counts with their names.
func identityOf(m *gguf.Imatrix) string {
	h := sha256.New()
	var b []byte
	for _, e := range m.Entries {
		b = fmt.Appendf(b[:0], "%q %d %d\n", e.Name, e.Matrices, e.Cols)
		for _, x := range [][]float32{e.Sum2, e.Counts} {
			for _, v := range x {
				b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
			}
		}
		_, _ = h.Write(b) // a hash never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// SaveImatrix writes an imatrix as GGUF, atomically.
func SaveImatrix(path string, m *gguf.Imatrix) error {
	out, err := checkpoint.CreateAtomic(path)
	if err != nil {
		return err
	}
	if err := gguf.WriteImatrix(io.NewOffsetWriter(out, 0), m); err != nil {
		return errors.Join(checkpoint.SystemError(path, err), out.Abandon())
	}
	return out.Commit()
}
