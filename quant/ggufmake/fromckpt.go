package ggufmake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// Options say what to make of a checkpoint.
type Options struct {
	Name        string // general.name; "": the folder's
	NoTokenizer bool   // leave the vocabulary out
}

// FromCheckpoint takes a checkpoint for a source. It closes it with the Source, or on
// an error not at all. An architecture that llama.cpp's files do not have here, a
// config that they cannot say and a tensor that they have no name for are refused.
func FromCheckpoint(ck *checkpoint.Checkpoint, o Options) (*Source, error) {
	if mark := ck.Unfinished(); mark != "" {
		return nil, &checkpoint.FileError{File: ck.Path, Reason: "is an export that is not finished: " + mark + " marks it"}
	}
	top, err := topology.FromCheckpoint(ck)
	if err != nil {
		return nil, err
	}
	if !top.Config.Present {
		return nil, &checkpoint.FileError{File: ck.Path, Reason: "has no config.json, so its architecture is not known"}
	}
	c := &converter{ck: ck, top: top, cfg: &top.Config, stacks: map[string]int{}, left: map[string]int{}}
	c.Source = &Source{Path: ck.Path, Kind: "checkpoint", Identity: ck.Identity().String(), close: ck.Close}
	if err := c.metadata(o); err != nil {
		return nil, err
	}
	if c.names, err = gguf.NewNamer(c.Arch, c.textType(), c.cfg.Layers); err != nil {
		return nil, err
	}
	if err := c.tensors(); err != nil {
		return nil, err
	}
	if err := c.vocabulary(o); err != nil {
		return nil, err
	}
	c.check = c.same
	return c.Source, nil
}

// textType is the model type that names of tensors go by.
func (c *converter) textType() string {
	if t := families[c.cfg.TextModelType].text; t != "" {
		return t
	}
	return c.cfg.TextModelType
}

// converter is a Source that is being made of a checkpoint.
type converter struct {
	*Source
	ck      *checkpoint.Checkpoint
	top     *topology.Model
	cfg     *topology.Config
	names   *gguf.Namer
	stacks  map[string]int  // index in Tensors of tensors with all experts
	experts [][]part        // parallel to Tensors: the experts of those
	wanted  []topology.Role // what the file must hold
	left    map[string]int  // what is left out, with the number of tensors
}

func (c *converter) fail(format string, args ...any) error {
	return &checkpoint.FileError{File: c.Path, Reason: fmt.Sprintf(format, args...), Err: checkpoint.ErrUnsupported}
}

// tensors makes an Input of every tensor, in storage order.
func (c *converter) tensors() error {
	byTensor, taken, err := parts(c.ck, c.top)
	if err != nil {
		return err
	}
	if f := c.ropeFactors(); f != nil {
		c.add(Input{Name: "rope_freqs.weight", Shape: []int64{int64(len(f))}, From: "config", Type: kernels.GGUFF32, Where: c.Path, group: 1,
			rows: func(_ context.Context, _ *reader, _, _ int, dst []float32) error { copy(dst, f); return nil }})
	}
	for i := range c.ck.Tensors {
		t := &c.ck.Tensors[i]
		r := c.top.Roles[i]
		list := byTensor[t.Name]
		if why := c.leavesOut(r); why != "" {
			c.left[why]++
			continue
		}
		for k := range list {
			if err := c.part(t, &list[k]); err != nil {
				return err
			}
		}
		if len(list) == 0 && !taken[t.Name] {
			if err := c.vector(t, r); err != nil {
				return err
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(c.left)) {
		c.Findings = append(c.Findings, Finding{Message: fmt.Sprintf("%d tensors are left out: %s", c.left[why], why)})
	}
	return c.closeStacks()
}

// leavesOut says why a tensor has no place in the file, "" where it has one.
func (c *converter) leavesOut(r topology.Role) string {
	switch {
	case r.Kind == topology.Vision:
		return "llama.cpp keeps vision and audio towers in a file of their own"
	case r.MTP && !mtpArchs[c.Arch]:
		return fmt.Sprintf("llama.cpp's files of architecture %s have no MTP layers", c.Arch)
	case r.Kind == topology.Head && r.Layer < 0 && c.top.Tied:
		return "the head is the embedding, which is stored once"
	}
	return ""
}

func (c *converter) add(in Input) {
	c.Tensors = append(c.Tensors, in)
	c.experts = append(c.experts, nil)
}

// part adds a linear map.
func (c *converter) part(t *checkpoint.Tensor, p *part) error {
	role := p.role
	role.Param = "weight"
	c.wanted = append(c.wanted, role)
	if role.Kind == topology.Expert {
		return c.stack(t, p)
	}
	tensor := p.name
	if !strings.HasSuffix(tensor, ".weight") {
		tensor += ".weight"
	}
	name, ok := c.names.Name(tensor)
	if !ok {
		return tensorError(c.ck, t, "has no name in GGUF files of architecture %s", c.Arch)
	}
	if strings.HasSuffix(name, ".attn_kv_b.weight") {
		return c.splitKVB(t, p, name)
	}
	if known, err := c.linearPart(t, p, name); known {
		return err
	}
	in := p.input(name)
	in.Type = c.keptType(name, p)
	if heads := c.pairedHeads(role); heads > 0 {
		if p.rows%(2*heads) != 0 {
			return tensorError(c.ck, t, "has %d rows for %d heads of even width", p.rows, heads)
		}
		pairRows(&in, p.rows/heads)
	}
	c.add(in)
	return nil
}

// keptType is what holds a matrix that is not quantized. llama.cpp's converter leaves
// those of DeepSeek-V4 in bf16 where they are, and one of Gemma 4.
func (c *converter) keptType(name string, p *part) kernels.GGUFType {
	if p.from == "BF16" && (c.Arch == "deepseek4" || name == "per_layer_model_proj.weight") {
		return kernels.GGUFBF16
	}
	return kernels.GGUFF32
}

// input is the tensor that holds just the part.
func (p *part) input(name string) Input {
	return Input{
		Name: name, Of: []string{p.name}, Shape: []int64{int64(p.rows), int64(p.cols)}, From: p.from, Type: kernels.GGUFF32, Packed: p.packed, Where: p.where,
		group: max(p.group, 1), rows: p.read,
	}
}

// pairedHeads is the number of heads whose rows are put into pairs, else 0.
func (c *converter) pairedHeads(r topology.Role) int {
	if !c.names.Paired() || r.Kind != topology.Attention {
		return 0
	}
	return map[string]int{"q": c.cfg.Heads, "k": c.cfg.KVHeads}[r.Projection]
}

// pairRows puts rows of heads of d rows into llama.cpp's pairs. Heads are read whole.
func pairRows(in *Input, d int) {
	read := in.rows
	cols := in.Cols()
	in.group = d * in.group / gcd(d, in.group)
	in.rows = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
		var own []float32 // r's memory is the reader's below
		own = append(own, make([]float32, n*cols)...)
		if err := read(ctx, r, first, n, own); err != nil {
			return err
		}
		for i := range n {
			copy(dst[gguf.PairedRow(i, d)*cols:][:cols], own[i*cols:][:cols])
		}
		return nil
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// splitKVB makes k_b, whose heads are turned, and v_b of what multiplies the latent.
func (c *converter) splitKVB(t *checkpoint.Tensor, p *part, name string) error {
	heads, nope, vdim := c.cfg.Heads, c.cfg.QKNope, c.cfg.VHeadDim
	if heads <= 0 || nope <= 0 || vdim <= 0 || p.rows != heads*(nope+vdim) || (nope+vdim)%max(p.group, 1) != 0 || nope%max(p.group, 1) != 0 {
		return tensorError(c.ck, t, "has %d rows for %d heads of %d and %d", p.rows, heads, nope, vdim)
	}
	k, v := p.input(strings.Replace(name, "attn_kv_b", "attn_k_b", 1)), p.input(strings.Replace(name, "attn_kv_b", "attn_v_b", 1))
	k.Shape, k.group = []int64{int64(heads), int64(p.cols), int64(nope)}, p.cols
	k.rows = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
		for i := range n / p.cols { // whole heads
			rows := make([]float32, nope*p.cols)
			if err := p.read(ctx, r, (first/p.cols+i)*(nope+vdim), nope, rows); err != nil {
				return err
			}
			for l := range p.cols {
				for x := range nope {
					dst[(i*p.cols+l)*nope+x] = rows[x*p.cols+l]
				}
			}
		}
		return nil
	}
	v.Shape, v.group = []int64{int64(heads), int64(vdim), int64(p.cols)}, vdim
	v.rows = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
		for i := range n / vdim {
			if err := p.read(ctx, r, (first/vdim+i)*(nope+vdim)+nope, vdim, dst[i*vdim*p.cols:][:vdim*p.cols]); err != nil {
				return err
			}
		}
		return nil
	}
	c.add(k)
	c.add(v)
	return nil
}

// maxVector bounds what is read whole.
const maxVector = 1 << 24

// vector adds a norm, a bias, or another small tensor that is no linear map.
func (c *converter) vector(t *checkpoint.Tensor, r topology.Role) error {
	if r.Kind == topology.Unknown {
		return tensorError(c.ck, t, "is not known, and what it does to the forward pass neither")
	}
	name, named := c.names.Name(t.Name)
	if r.Kind == topology.Router && r.Param == "tid2eid" && named {
		return c.table(t, name)
	}
	if !t.DType.HasF32() || t.DType.Bits() < 16 || t.Elements() == 0 || t.Elements() > maxVector {
		return tensorError(c.ck, t, "%s of shape %v is no vector that could be written", t.DType, t.Shape)
	}
	if r.Kind == topology.Expert {
		return c.expertBias(t, r)
	}
	if !named {
		return tensorError(c.ck, t, "has no name in GGUF files of architecture %s", c.Arch)
	}
	shape, ok := c.smallShape(t, r)
	if !ok {
		return tensorError(c.ck, t, "has shape %v where a vector is expected", t.Shape)
	}
	shift := c.names.Shift(name)
	heads := c.pairedHeads(r)
	if heads > 0 && t.Elements()%int64(2*heads) != 0 {
		return tensorError(c.ck, t, "has %d values for %d heads of even width", t.Elements(), heads)
	}
	order := c.order(r, int(t.Elements()))
	if r.Kind == topology.Attention && (r.Projection == "a_log" || r.Projection == "dt") && t.Elements() != int64(c.cfg.Linear.ValueHeads) {
		return tensorError(c.ck, t, "has %d values for %d value heads", t.Elements(), c.cfg.Linear.ValueHeads)
	}
	c.add(Input{
		Name: name, Of: []string{t.Name}, Shape: shape, From: t.DType.String(), Type: kernels.GGUFF32, Where: fileOf(c.ck, t), group: rowsOf(shape),
		rows: func(ctx context.Context, _ *reader, _, _ int, dst []float32) error {
			values, err := c.values(ctx, t)
			if err != nil {
				return err
			}
			if r.Kind == topology.Attention && r.Projection == "a_log" {
				decayed(values)
			}
			for i, v := range values {
				at := i
				if heads > 0 {
					at = gguf.PairedRow(i, len(values)/heads)
				}
				dst[at] = v + shift
			}
			for at, i := range order {
				dst[at] = values[i]
			}
			return nil
		},
	})
	return nil
}

// rowsOf is the number of rows of a small tensor, which is read whole.
func rowsOf(shape []int64) int {
	if len(shape) < 2 {
		return 1
	}
	return int(shape[0])
}

// values reads a vector.
func (c *converter) values(ctx context.Context, t *checkpoint.Tensor) ([]float32, error) {
	raw := make([]byte, t.Size)
	if err := c.ck.ReadAt(ctx, t, 0, raw); err != nil {
		return nil, err
	}
	x := make([]float32, t.Elements())
	return x, decoded(t, x, raw)
}
