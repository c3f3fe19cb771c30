package inspect

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
	"quantscope/quant/topology"
)

// GGUFReport is what inspect prints of a GGUF file. Its JSON keys are stable.
type GGUFReport struct {
	Path         string     `json:"path"`
	Identity     string     `json:"identity"`
	Format       string     `json:"format"` // gguf
	Architecture string     `json:"architecture"`
	Family       string     `json:"family"` // "" of an architecture that is not known here
	Summary      string     `json:"summary"`
	Tensors      int        `json:"tensors"`
	Params       int64      `json:"params"`
	Bytes        int64      `json:"bytes"` // of tensors whose size is known
	Files        []GGUFFile `json:"files"`
	Types        []Type     `json:"types"`
	Kinds        []Share    `json:"kinds"`
	Geometry     *Geometry  `json:"geometry,omitempty"`
	Cache        []Cache    `json:"cache,omitempty"` // as Report's
	Estimate     Estimate   `json:"estimate"`        // as stored
	Metadata     []Key      `json:"metadata"`
	Findings     []Finding  `json:"findings"`
	List         []Tensor   `json:"list,omitempty"`
}

// GGUFFile is one part.
type GGUFFile struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	Tensors   int    `json:"tensors"`
	Version   uint32 `json:"version"`
	BigEndian bool   `json:"big_endian"`
	Alignment int64  `json:"alignment"`
}

// Type is how much of the file is stored as one type.
type Type struct {
	Name          string  `json:"name"`
	Known         bool    `json:"known"`
	Decodes       bool    `json:"decodes"`
	Tensors       int     `json:"tensors"`
	Params        int64   `json:"params"`
	ShareParams   float64 `json:"share_params"`
	Bytes         int64   `json:"bytes"`           // −1 of a type that is not known
	BitsPerWeight float64 `json:"bits_per_weight"` // 0 of such a type
}

// Geometry is what the metadata say of the model.
type Geometry struct {
	Layers     int     `json:"layers"`
	MTPLayers  int     `json:"mtp_layers"`
	Hidden     int     `json:"hidden"`
	Heads      int     `json:"heads"`
	KVHeads    int     `json:"kv_heads"`
	HeadDim    int     `json:"head_dim"`
	Vocab      int     `json:"vocab"`
	Context    int     `json:"context"`
	Experts    int     `json:"experts"`
	TopK       int     `json:"top_k"`
	Tied       bool    `json:"tied"`
	RopeTheta  float64 `json:"rope_theta"`
	RotaryDim  int     `json:"rotary_dim"`
	Rope       string  `json:"rope"`
	KVPerToken int64   `json:"kv_bytes_per_token"` // keys and values of all layers in f16, of a token that all windows hold
}

// Key is one pair of the metadata. Long texts are cut, and of lists the first
// entries stand in Value.
type Key struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Count int    `json:"count,omitempty"` // of a list
	Value string `json:"value"`
}

// GGUF makes the report of an opened file, from its headers.
func GGUF(ctx context.Context, f *gguf.File, list bool) (*GGUFReport, error) {
	r := &GGUFReport{Path: f.Path, Format: "gguf", Tensors: len(f.Tensors), Files: []GGUFFile{}, Types: []Type{}, Kinds: []Share{}, Metadata: []Key{}, Findings: []Finding{}}
	var err error
	if r.Identity, err = f.Identity(); err != nil {
		return nil, err
	}
	r.Architecture, _ = f.Metadata["general.architecture"].V.(string)
	for i := range f.Parts {
		p := &f.Parts[i]
		r.Files = append(r.Files, GGUFFile{Name: filepath.Base(p.Name), Size: p.Size, Version: p.Version, BigEndian: p.BigEndian, Alignment: p.Alignment})
	}
	var split int64 // bytes that devices share out
	for i := range f.Tensors {
		t := &f.Tensors[i]
		r.Files[t.Part].Tensors++
		r.Params += t.Elements()
		r.count(t)
		if t.Bytes > 0 {
			r.Bytes += t.Bytes
			if len(t.Shape) > 1 {
				split += t.Bytes
			}
		}
	}
	for i := range r.Types {
		r.Types[i].ShareParams = float64(r.Types[i].Params) / float64(max(r.Params, 1))
	}
	params := r.Params
	for _, x := range r.Types {
		if !x.Known {
			params -= x.Params
		}
	}
	r.Estimate = (&Report{Params: params}).estimateOf("as stored", r.Bytes, split) // of what has a size
	for _, key := range f.Keys {
		r.Metadata = append(r.Metadata, keyOf(key, f.Metadata[key]))
	}
	r.blocks(ctx, f)
	kinds := r.model(f)
	if list {
		for i := range f.Tensors {
			t := &f.Tensors[i]
			r.List = append(r.List, Tensor{t.Name, t.Type.String(), append([]int64{}, t.Shape...), t.Elements(), t.Bytes, filepath.Base(f.Parts[t.Part].Name), kinds[t.Name]})
		}
	}
	return r, nil
}

// count adds a tensor to its type.
func (r *GGUFReport) count(t *gguf.Tensor) {
	name := t.Type.String()
	at := -1
	for i := range r.Types {
		if r.Types[i].Name == name {
			at = i
		}
	}
	if at < 0 {
		at = len(r.Types)
		x := Type{Name: name, Known: t.Type.Known(), Decodes: t.Type.Decodes()}
		if block, bytes := t.Type.Block(); block > 0 {
			x.BitsPerWeight = float64(8*bytes) / float64(block)
		} else {
			x.Bytes = -1
			r.Findings = append(r.Findings, Finding{File: "", Tensor: t.Name, Message: fmt.Sprintf("%s is not known: its size is not either, and its values cannot be read", name)})
		}
		r.Types = append(r.Types, x)
	}
	x := &r.Types[at]
	x.Tensors++
	x.Params += t.Elements()
	if x.Known {
		x.Bytes += t.Bytes
	}
	for at > 0 && r.Types[at-1].Params < r.Types[at].Params { // most first
		r.Types[at-1], r.Types[at] = r.Types[at], r.Types[at-1]
		at--
	}
}

// blocks says how numbers in the blocks of a big-endian file stand.
func (r *GGUFReport) blocks(ctx context.Context, f *gguf.File) {
	for i := range f.Parts {
		if !f.Parts[i].BigEndian {
			continue
		}
		b, why, err := f.Blocks(ctx)
		say := fmt.Sprintf("big-endian, numbers within blocks %s: %s", b, why)
		if err != nil {
			say = err.Error()
		}
		r.Findings = append(r.Findings, Finding{File: r.Files[i].Name, Message: say})
		return
	}
}

// model fills in what the architecture says, and gives the kind of each tensor.
func (r *GGUFReport) model(f *gguf.File) map[string]string {
	kinds := map[string]string{}
	m, err := gguf.NewModel(f)
	if err != nil {
		r.Findings = append(r.Findings, Finding{Message: "has no forward pass here: " + err.Error()})
		return kinds
	}
	top, cfg := m.Topology, &m.Topology.Config
	r.Family, r.Summary = top.Family, top.Summary
	r.Cache = caches(top)
	perToken := int64(0)
	for i := range r.Cache {
		if c := &r.Cache[i]; !c.MTP {
			perToken += c.BytesPerToken * int64(c.Layers)
		}
	}
	r.Geometry = &Geometry{
		Layers: top.Layers, MTPLayers: top.MTPLayers, Hidden: cfg.Hidden, Heads: cfg.Heads, KVHeads: cfg.KVHeads, HeadDim: cfg.HeadDim, Vocab: cfg.Vocab, Context: cfg.MaxPosition,
		Experts: top.Experts, TopK: top.TopK, Tied: top.Tied, RopeTheta: cfg.Rope.Theta, RotaryDim: cfg.RotaryDim(), Rope: cfg.RopeScaling(), KVPerToken: perToken,
	}
	scaled := 0
	for i := range m.Weights {
		w := &m.Weights[i]
		kinds[m.Stored(w)] = top.Roles[i].Kind.String()
		if w.Scaled() {
			scaled++
		}
	}
	if scaled > 0 {
		r.Findings = append(r.Findings, Finding{Message: fmt.Sprintf("%d weights are multiplied by a scale that stands beside them", scaled)})
	}
	shares := map[string]*Share{}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		kind, ok := kinds[t.Name]
		if !ok {
			kind = topology.Unknown.String()
			if strings.HasSuffix(t.Name, "scale") || strings.HasPrefix(t.Name, "rope_freqs") {
				kind = "scales"
			}
			kinds[t.Name] = kind
		}
		if shares[kind] == nil {
			shares[kind] = &Share{Name: kind}
		}
		shares[kind].Tensors++
		shares[kind].Params += t.Elements()
		shares[kind].Bytes += max(t.Bytes, 0)
	}
	r.Kinds = bySize(shares)
	return kinds
}

// How much of a value is shown.
const (
	mostText = 80
	mostList = 6
)

func keyOf(key string, v gguf.Value) Key {
	k := Key{Key: key, Type: v.Type.String()}
	if v.Type != gguf.Array {
		k.Value = short(fmt.Sprint(v.V))
		return k
	}
	k.Type = "ARRAY of " + v.Elem.String()
	var words []string
	add := func(n int, at func(i int) any) {
		k.Count = n
		for i := range min(n, mostList) {
			words = append(words, short(fmt.Sprint(at(i))))
		}
	}
	switch l := v.List.(type) {
	case []string:
		add(len(l), func(i int) any { return fmt.Sprintf("%q", short(l[i])) })
	case []uint64:
		add(len(l), func(i int) any { return l[i] })
	case []int64:
		add(len(l), func(i int) any { return l[i] })
	case []float64:
		add(len(l), func(i int) any { return l[i] })
	case []bool:
		add(len(l), func(i int) any { return l[i] })
	case []gguf.Value:
		add(len(l), func(i int) any { return "a list" })
	}
	if k.Count > mostList {
		words = append(words, fmt.Sprintf("… %d in all", k.Count))
	}
	k.Value = "[" + strings.Join(words, ", ") + "]"
	return k
}

// short cuts a text.
func short(s string) string {
	r := []rune(strings.ToValidUTF8(s, "\uFFFD"))
	if len(r) <= mostText {
		return string(r)
	}
	return string(r[:mostText]) + fmt.Sprintf("… (%d bytes)", len(s))
}

// ReadGGUFValues reads one tensor of a GGUF file in pieces and says what it holds.
func ReadGGUFValues(ctx context.Context, f *gguf.File, name string) (*Values, error) {
	t, ok := f.Lookup(name)
	if !ok {
		return nil, &checkpoint.FileError{File: f.Path, Tensor: name, Reason: "no such tensor"}
	}
	v := &Values{
		Tensor:    Tensor{Name: t.Name, DType: t.Type.String(), Shape: append([]int64{}, t.Shape...), Elements: t.Elements(), Bytes: t.Bytes, File: filepath.Base(f.Parts[t.Part].Name)},
		Positions: []int64{}, First: []string{},
	}
	var s moments
	n := t.Elements()
	vals := make([]float32, min(n, chunk)) // a multiple of every type's block
	for at := int64(0); at < n || n == 0 && at == 0; at += chunk {
		part := vals[:min(n-at, chunk)]
		exact, err := readGGUF(ctx, f, t, at, part)
		if err != nil {
			return nil, err
		}
		for i, x := range part {
			if at == 0 && i < most {
				if exact == nil {
					v.First = append(v.First, fmt.Sprintf("%.9g", x))
				} else if text, err := checkpoint.AppendElement(nil, wholeNumbers[t.Type], exact, i); err == nil {
					v.First = append(v.First, string(text))
				}
			}
			v.take(float64(x), at+int64(i), &s)
		}
	}
	v.summarize(&s)
	return v, nil
}

// wholeNumbers are the types whose elements are integers, which are no weights.
var wholeNumbers = map[kernels.GGUFType]checkpoint.DType{
	kernels.GGUFI8: checkpoint.I8, kernels.GGUFI16: checkpoint.I16, kernels.GGUFI32: checkpoint.I32, kernels.GGUFI64: checkpoint.I64,
}

// readGGUF reads elements from at on; of integers it also gives the bytes, since f32
// does not hold all of them.
func readGGUF(ctx context.Context, f *gguf.File, t *gguf.Tensor, at int64, dst []float32) ([]byte, error) {
	d, whole := wholeNumbers[t.Type]
	if !whole {
		return nil, f.Decode(ctx, t, at, dst)
	}
	size := int64(d.Bits() / 8)
	raw := make([]byte, int64(len(dst))*size)
	if err := f.ReadStored(ctx, t, at*size, raw); err != nil {
		return nil, err
	}
	return raw, checkpoint.DecodeF32(dst, d, raw)
}
