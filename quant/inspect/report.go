// Package inspect says what a checkpoint is from its headers alone: structure,
// sizes, what it needs in memory, and what is odd about it.
//
// Promises: no weights are read; every size follows from a stored shape or from
// the format table of kernels; what is unknown is listed, never guessed.
package inspect

import (
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// Report is what inspect prints. Its JSON keys are stable.
type Report struct {
	Path          string  `json:"path"`
	Identity      string  `json:"identity"`
	Family        string  `json:"family"`
	Summary       string  `json:"summary"`
	Layers        int     `json:"layers"`
	MTPLayers     int     `json:"mtp_layers"`
	ExpertLayers  int     `json:"expert_layers"`
	Experts       int     `json:"experts"`
	SharedExperts int     `json:"shared_experts"`
	TopK          int     `json:"top_k"` // 0 where the config does not say
	Tied          bool    `json:"tied"`
	HeadStored    bool    `json:"head_stored"`
	QuantMethod   string  `json:"quant_method"` // "" where the config names none
	Tensors       int     `json:"tensors"`
	Params        int64   `json:"params"`
	ActiveParams  int64   `json:"active_params"` // a token; 0 where not known
	Bytes         int64   `json:"bytes"`         // of all tensors
	Files         []File  `json:"files"`
	DTypes        []Share `json:"dtypes"`
	Kinds         []Share `json:"kinds"`
	Targets       Targets `json:"targets"`
	// LeftAlone is what quantize would leave as it is by default, and why.
	LeftAlone []recipe.Part `json:"left_alone"`
	// Cache is what is kept of a text while it grows, by layers of one kind.
	Cache     []Cache    `json:"cache"`
	Estimates []Estimate `json:"estimates"`
	// How quantized modules are stored and read, and what the config says beside that.
	Quantized []layout.Kind `json:"quantized"`
	Notes     []string      `json:"notes"`
	Side      []File        `json:"side"`
	Unknown   []string      `json:"unknown"`
	Findings  []Finding     `json:"findings"`
	List      []Tensor      `json:"list,omitempty"` // every tensor, when asked for
}

// File is one file of the checkpoint.
type File struct {
	Name         string `json:"name"`
	Size         int64  `json:"size"`
	Tensors      int    `json:"tensors"`
	HeaderSHA256 string `json:"header_sha256,omitempty"`
}

// Share is how much of the checkpoint a dtype or a part of the model is.
type Share struct {
	Name    string `json:"name"`
	Tensors int    `json:"tensors"`
	Params  int64  `json:"params"`
	Bytes   int64  `json:"bytes"`
}

// Targets is what quantize would work on by default.
type Targets struct {
	Description string `json:"description"`
	Matrices    int    `json:"matrices"`
	Params      int64  `json:"params"`
	Bytes       int64  `json:"bytes"`
	Excluded    int    `json:"excluded"`
	Reason      string `json:"reason,omitempty"` // why nothing can be quantized, or why something is left out
}

// Estimate is what the checkpoint would be with its targets in a format and the
// rest as it is. Bytes are of weights alone: no KV cache, no activations.
type Estimate struct {
	Format        string  `json:"format"` // "as stored", or of the format table
	Bytes         int64   `json:"bytes"`
	BitsPerWeight float64 `json:"bits_per_weight"`
	// PerRank is the bytes a device holds when matrices are split over 2, 4 and 8
	// devices and everything else is held by each.
	PerRank [3]int64 `json:"per_rank_2_4_8"`
}

// Finding is something that a person should know.
type Finding struct {
	File    string `json:"file,omitempty"`
	Tensor  string `json:"tensor,omitempty"`
	Message string `json:"message"`
}

// Tensor is one row of the list.
type Tensor struct {
	Name     string  `json:"name"`
	DType    string  `json:"dtype"`
	Shape    []int64 `json:"shape"`
	Elements int64   `json:"elements"`
	Bytes    int64   `json:"bytes"`
	File     string  `json:"file"`
	Kind     string  `json:"kind"`
}

// estimated are the formats that an estimate is made for.
var estimated = []string{"fp8", "mxfp4", "nvfp4", "int4-g128"}

// Headers makes the report of an opened checkpoint.
func Headers(c *checkpoint.Checkpoint, model *topology.Model, list bool) (*Report, error) {
	r := &Report{
		Path: c.Path, Identity: c.Identity().String(), Family: model.Family, Summary: model.Summary,
		Layers: model.Layers, MTPLayers: model.MTPLayers, ExpertLayers: model.ExpertLayers, Experts: model.Experts,
		SharedExperts: model.SharedExperts, TopK: model.TopK, Tied: model.Tied, HeadStored: model.HeadStored,
		QuantMethod: model.Config.QuantMethod, Tensors: len(c.Tensors), Params: model.TotalParams, ActiveParams: model.ActiveParams,
		Bytes: c.Bytes(), Unknown: append([]string{}, model.Unknown...), Side: []File{}, Quantized: []layout.Kind{}, Notes: []string{}, Findings: []Finding{},
	}
	for _, f := range c.Files {
		r.Files = append(r.Files, File{Name: f.Name, Size: f.Size, HeaderSHA256: hexOf(f.HeaderSHA256)})
	}
	for _, s := range c.Side {
		r.Side = append(r.Side, File{Name: s.Name, Size: s.Size})
	}
	dtypes, kinds := map[string]*Share{}, map[string]*Share{}
	for i := range c.Tensors {
		t := &c.Tensors[i]
		kind := model.Roles[i].Kind.String()
		r.Files[t.File].Tensors++
		add(dtypes, t.DType.String(), t)
		add(kinds, kind, t)
		if list {
			r.List = append(r.List, Tensor{t.Name, t.DType.String(), append([]int64{}, t.Shape...), t.Elements(), t.Size, c.Files[t.File].Name, kind})
		}
	}
	r.DTypes, r.Kinds = bySize(dtypes), bySize(kinds)
	for _, f := range c.Findings {
		r.Findings = append(r.Findings, Finding{f.File, f.Tensor, f.Message})
	}
	for _, group := range [][]topology.Finding{model.Findings, model.Unresolved} {
		for _, f := range group {
			r.Findings = append(r.Findings, Finding{"", f.Tensor, f.Message})
		}
	}
	r.Cache = caches(model)
	return r, r.estimate(c, model)
}

// estimate fills Targets and Estimates.
func (r *Report) estimate(c *checkpoint.Checkpoint, model *topology.Model) error {
	selection, err := recipe.Select(model, "")
	if err != nil {
		r.Targets.Reason = err.Error()
	}
	r.leave(c, model, &selection)
	r.Targets.Description = selection.Description
	r.Targets.Matrices = len(selection.Matrices)
	r.Targets.Excluded = len(selection.Excluded)
	if len(selection.Excluded) > 0 {
		r.Targets.Reason = selection.Excluded[0].Reason
	}
	var split int64 // bytes that devices share out
	for i := range c.Tensors {
		if len(c.Tensors[i].Shape) >= 2 {
			split += c.Tensors[i].Size
		}
	}
	for _, m := range selection.Matrices {
		t, ok := c.Lookup(m.Tensor)
		if !ok {
			continue
		}
		n := int64(m.Rows) * int64(m.Cols)
		r.Targets.Params += n
		r.Targets.Bytes += n * int64(t.DType.Bits()) / 8
	}
	r.Estimates = append(r.Estimates, r.estimateOf("as stored", r.Bytes, split))
	if r.Targets.Matrices == 0 {
		return nil
	}
	for _, name := range estimated {
		format, err := kernels.FormatByName(name)
		if err != nil {
			return err
		}
		var packed int64
		for _, m := range selection.Matrices {
			n, err := format.Bytes(m.Rows, m.Cols)
			if err != nil {
				return err
			}
			packed += n
		}
		saved := r.Targets.Bytes - packed
		r.Estimates = append(r.Estimates, r.estimateOf(name, r.Bytes-saved, split-saved))
	}
	return nil
}

// leave fills LeftAlone.
func (r *Report) leave(c *checkpoint.Checkpoint, model *topology.Model, selection *recipe.Selection) {
	taken := map[string]bool{}
	for k := range selection.Matrices {
		taken[selection.Matrices[k].Name] = true
	}
	size := make([]int64, len(c.Tensors))
	for i := range c.Tensors {
		size[i] = c.Tensors[i].Size
	}
	r.LeftAlone = recipe.LeftAlone(model, size, func(k int) bool { return taken[model.Matrices[k].Name] },
		func(int) string { return "no routed experts, which are the default targets" })
}

func (r *Report) estimateOf(name string, bytes, split int64) Estimate {
	e := Estimate{Format: name, Bytes: bytes}
	if r.Params > 0 {
		e.BitsPerWeight = float64(bytes) * 8 / float64(r.Params)
	}
	for i, ranks := range []int64{2, 4, 8} {
		e.PerRank[i] = bytes - split + (split+ranks-1)/ranks
	}
	return e
}

func add(m map[string]*Share, name string, t *checkpoint.Tensor) {
	s := m[name]
	if s == nil {
		s = &Share{Name: name}
		m[name] = s
	}
	s.Tensors++
	s.Params += t.Elements()
	s.Bytes += t.Size
}

// bySize lists shares, the largest first.
func bySize(m map[string]*Share) []Share {
	out := []Share{}
	for _, s := range m {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Share) int {
		if a.Bytes != b.Bytes {
			if a.Bytes > b.Bytes {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

func hexOf(sum [32]byte) string { return checkpoint.Identity(sum).String() }
