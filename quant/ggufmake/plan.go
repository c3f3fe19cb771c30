package ggufmake

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/gguf"
)

// ErrFallback is wrapped by the error about tensors that cannot have what was asked
// for, where that is not allowed.
var ErrFallback = errors.New("something other than what was requested would be written")

// ErrQuantized is wrapped by the error about a source that is quantized already.
var ErrQuantized = errors.New("is quantized already")

// Request says what to make.
type Request struct {
	Type       kernels.GGUFType
	Importance bool              // errors are weighted by the imatrix
	Embedding  *kernels.GGUFType // of token_embd; nil: see Plan
	Output     *kernels.GGUFType // of output
	Overrides  []Override

	Imatrix     *gguf.Imatrix // where Importance
	ImatrixFile string        // its name, for the metadata

	AllowFallback, AllowRequantize bool
}

// Target is one tensor of the file.
type Target struct {
	*Input
	Requested kernels.GGUFType // equal to Effective of what is not quantized
	Effective kernels.GGUFType
	Kept      string // why it is not quantized; "" where it is
	Bytes     int64
	Offset    int64 // in the file

	importance [][]float32 // of each matrix, nil where it is not weighted
	scaled     int         // index in Plan.scales, −1 without a scale beside it
}

// Weighted says whether errors of any matrix are weighted.
func (t *Target) Weighted() bool {
	return slices.ContainsFunc(t.importance, func(w []float32) bool { return w != nil })
}

// copied says whether the stored bytes are the ones to write.
func (t *Target) copied() bool { return t.copy != nil && t.Effective == t.Type }

// Fallback is a tensor that does not get what was asked for.
type Fallback struct {
	Tensor    string  `json:"tensor"`
	Requested string  `json:"requested"`
	Effective string  `json:"effective"`
	Params    int64   `json:"params"`
	Share     float64 `json:"share"` // of all parameters
	Reason    string  `json:"reason"`
}

// Share is what tensors of one request became.
type Share struct {
	Requested string  `json:"requested"`
	Effective string  `json:"effective"`
	Tensors   int     `json:"tensors"`
	Params    int64   `json:"params"`
	Share     float64 `json:"share"` // of all parameters
	Bytes     int64   `json:"bytes"`
}

// Plan is a file before its data are written.
type Plan struct {
	Source     *Source
	Request    Request
	Targets    []Target
	Fallbacks  []Fallback
	Unweighted []string // tensors that an imatrix has no entry for by its nature
	Pairs      []gguf.Pair
	Size       int64 // of the file
	Params     int64

	header []byte
	scales []scale
}

// scale is a tensor of factors that stands beside a weight.
type scale struct {
	target int // in Targets
	name   string
	offset int64
	values []float32
}

// mixedByDefault are the types with which token_embd and output are Q8_0 unless
// they are named: rows of embeddings have no scale beside them, and llama.cpp's own
// MXFP4 files are made so.
func mixedByDefault(t kernels.GGUFType) bool {
	return t == kernels.GGUFMXFP4 || t == kernels.GGUFNVFP4
}

// NewPlan decides what each tensor is stored as. Every matrix of weights gets the
// type that was asked for, embedding and head too; norms, biases, routers, vectors,
// convolutions and factors of ropes stay as they are. A request that cannot be met
// is ErrFallback or, of a source in blocks, ErrQuantized, unless it is allowed.
func NewPlan(s *Source, r Request) (*Plan, error) {
	p := &Plan{Source: s, Request: r}
	for i := range s.Tensors {
		p.Params += s.Tensors[i].Params()
	}
	for i := range s.Tensors {
		in := &s.Tensors[i]
		if p.beside(in) {
			continue
		}
		t := Target{Input: in, scaled: -1, Kept: keeps(in)}
		t.Requested, t.Effective = in.Type, in.Type
		if t.Kept == "" {
			t.Requested = p.request(in)
			if err := p.decide(&t); err != nil {
				return nil, err
			}
		}
		p.Targets = append(p.Targets, t)
	}
	if len(p.Targets) == 0 {
		return nil, fmt.Errorf("%s: has no tensors", s.Path)
	}
	if !slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Kept == "" }) {
		return nil, fmt.Errorf("%s: has no matrix that could be quantized", s.Path)
	}
	for _, o := range r.Overrides {
		if !slices.ContainsFunc(p.Targets, func(t Target) bool { return o.re.MatchString(t.Name) }) {
			return nil, fmt.Errorf("%s: tensor type %q matches no tensor", s.Path, o.Text)
		}
	}
	if err := p.weigh(); err != nil {
		return nil, err
	}
	if len(p.Fallbacks) > 0 && !r.AllowFallback {
		f := p.Fallbacks[0]
		return p, fmt.Errorf("%s: tensor %q: %s, so %s in place of %s (tensors in all: %d, %.2f %% of the parameters): %w; --allow-fallback accepts it",
			s.Path, f.Tensor, f.Reason, f.Effective, f.Requested, len(p.Fallbacks), 100*p.fallen(), ErrFallback)
	}
	return p, p.layOut()
}

// fallen is the share of parameters that fell back.
func (p *Plan) fallen() (share float64) {
	seen := map[string]bool{}
	for _, f := range p.Fallbacks {
		if !seen[f.Tensor] {
			share += f.Share
		}
		seen[f.Tensor] = true
	}
	return share
}

// beside says whether a tensor is a scale of a weight that is decoded with it.
func (p *Plan) beside(in *Input) bool {
	for _, suffix := range []string{".scale", ".input_scale"} {
		if base, ok := strings.CutSuffix(in.Name, suffix); ok {
			return slices.ContainsFunc(p.Source.Tensors, func(w Input) bool {
				return w.Name == base+".weight" && keeps(&w) == "" && !(suffix == ".scale" && gguf.OwnScale(p.Source.Arch, &gguf.Tensor{Name: w.Name, Type: w.Type}))
			})
		}
	}
	return false
}

// perLayerEmbedding is Gemma 4's table of embeddings of every layer.
const perLayerEmbedding = "per_layer_token_embd.weight"

// request is the type that a tensor is asked to have.
func (p *Plan) request(in *Input) kernels.GGUFType {
	r := &p.Request
	switch {
	case in.Name == "token_embd.weight" && r.Embedding != nil:
		return *r.Embedding
	case in.Name == "output.weight" && r.Output != nil:
		return *r.Output
	}
	for _, o := range r.Overrides {
		if o.re.MatchString(in.Name) {
			return o.Type
		}
	}
	if in.Name == perLayerEmbedding && r.Embedding != nil { // unless it was named, as in llama-quantize
		return *r.Embedding
	}
	if (in.Name == "token_embd.weight" || in.Name == perLayerEmbedding || in.Name == "output.weight") && mixedByDefault(r.Type) {
		return kernels.GGUFQ8_0
	}
	return r.Type
}

// decide settles what a matrix is stored as.
func (p *Plan) decide(t *Target) error {
	t.Effective = t.Requested
	if t.Packed && !(t.copy != nil && t.Requested == t.Type) && !p.Request.AllowRequantize {
		return fmt.Errorf("%s: tensor %q %w, in %s; --allow-requantize goes on from what is left of its values", p.Source.Path, t.Name, ErrQuantized, t.From)
	}
	if cols := t.Cols(); !fits(t.Effective, cols) {
		block, _ := t.Effective.Block()
		to := instead(t.Effective, cols)
		p.fallback(t, to, fmt.Sprintf("rows of %d are no multiple of the block of %d that %s has", cols, block, t.Effective))
	}
	if t.Effective == kernels.GGUFNVFP4 && t.Name != "token_embd.weight" && t.Name != perLayerEmbedding {
		if appliesScale(p.Source.Arch, t.Name, p.Source.firstMTP()) {
			t.scaled = len(p.scales)
			name, _ := sibling(t.Name, ".scale")
			p.scales = append(p.scales, scale{target: len(p.Targets), name: name, values: make([]float32, t.Matrices())})
			return nil
		}
		p.fallback(t, kernels.GGUFQ8_0, fmt.Sprintf("llama.cpp multiplies by no scale beside it there in architecture %q, and without one NVFP4 is of no use for weights this small", p.Source.Arch))
		if !fits(t.Effective, t.Cols()) {
			t.Effective = kernels.GGUFF16
		}
	}
	return nil
}

func (p *Plan) fallback(t *Target, to kernels.GGUFType, reason string) {
	t.Effective = to
	p.Fallbacks = append(p.Fallbacks, Fallback{
		Tensor: t.Name, Requested: VariantName(t.Requested, p.Request.Importance && t.Requested.TakesImportance()), Effective: VariantName(to, false),
		Params: t.Params(), Share: float64(t.Params()) / float64(max(p.Params, 1)), Reason: reason,
	})
}

// Types is what became of the request, by share of parameters, most first.
func (p *Plan) Types() []Share {
	var list []Share
	at := map[[2]string]int{}
	for i := range p.Targets {
		t := &p.Targets[i]
		key := [2]string{VariantName(t.Requested, p.asksImportance(t)), VariantName(t.Effective, t.Weighted())}
		k, ok := at[key]
		if !ok {
			k = len(list)
			at[key] = k
			list = append(list, Share{Requested: key[0], Effective: key[1]})
		}
		list[k].Tensors++
		list[k].Params += t.Params()
		list[k].Bytes += t.Bytes
	}
	for i := range list {
		list[i].Share = float64(list[i].Params) / float64(max(p.Params, 1))
	}
	slices.SortStableFunc(list, func(a, b Share) int {
		switch {
		case a.Params > b.Params:
			return -1
		case a.Params < b.Params:
			return 1
		}
		return 0
	})
	return list
}

// layOut makes the header and gives every tensor its place.
func (p *Plan) layOut() error {
	p.metadata()
	var tensors []gguf.Tensor
	var target, beside []int // indexes in tensors, of Targets and of scales
	for i := range p.Targets {
		t := &p.Targets[i]
		target = append(target, len(tensors))
		tensors = append(tensors, gguf.Tensor{Name: t.Name, Type: t.Effective, Shape: t.Shape})
		if t.scaled >= 0 {
			beside = append(beside, len(tensors))
			tensors = append(tensors, gguf.F32Tensor(p.scales[t.scaled].name, int64(t.Matrices())))
		}
	}
	head, placed, alignment, err := gguf.Header(p.Pairs, tensors)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Source.Path, err)
	}
	p.header, p.Size = head, int64(len(head))
	for i, k := range target {
		p.Targets[i].Offset, p.Targets[i].Bytes = placed[k].Offset, placed[k].Bytes
	}
	for i, k := range beside {
		p.scales[i].offset = placed[k].Offset
	}
	if n := len(placed); n > 0 {
		end := placed[n-1].Offset + placed[n-1].Bytes
		if end > math.MaxInt64-alignment {
			return fmt.Errorf("%s: the file's size overflows", p.Source.Path)
		}
		p.Size = (end + alignment - 1) / alignment * alignment
	}
	return p.Source.check(p.Pairs, tensors)
}

// metadata says in the file what was done.
func (p *Plan) metadata() {
	p.Pairs = slices.Clone(p.Source.Pairs)
	if n, ok := fileTypes[p.Request.Type]; ok {
		p.Pairs = gguf.SetPair(p.Pairs, "general.file_type", gguf.Count(n))
	}
	p.Pairs = gguf.SetPair(p.Pairs, "general.quantization_version", gguf.Count(2))
	p.Pairs = slices.DeleteFunc(p.Pairs, func(x gguf.Pair) bool { return strings.HasPrefix(x.Key, "quantize.imatrix.") })
	if m := p.Request.Imatrix; m != nil && p.Request.Importance {
		p.Pairs = gguf.SetPair(p.Pairs, "quantize.imatrix.file", gguf.Word(p.Request.ImatrixFile))
		if len(m.Datasets) > 0 {
			p.Pairs = gguf.SetPair(p.Pairs, "quantize.imatrix.dataset", gguf.Word(m.Datasets[0]))
		}
		p.Pairs = gguf.SetPair(p.Pairs, "quantize.imatrix.entries_count", gguf.Count(uint32(len(m.Entries))))
		if m.ChunkCount > 0 {
			p.Pairs = gguf.SetPair(p.Pairs, "quantize.imatrix.chunks_count", gguf.Count(uint32(m.ChunkCount)))
		}
	}
}
