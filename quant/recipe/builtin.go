package recipe

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"quantscope/quant/topology"
)

// BuiltinInfo says what a recipe that comes with the program is.
type BuiltinInfo struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	Origin  string `json:"origin"` // the published recipes that it follows
}

// ErrBuiltin is wrapped by the error of a name that no recipe has.
var ErrBuiltin = errors.New("no built-in recipe")

type builtin struct {
	BuiltinInfo
	groups []builtinGroup
}

// builtinGroup takes the matrices that no group before it takes.
type builtinGroup struct {
	scheme string
	takes  func(*builder, *topology.Role) bool
}

var builtins = []builtin{
	{
		BuiltinInfo{"moe-nvfp4", "routed experts in NVFP4, weights only (W4A16); all else keeps the source's bytes",
			"https://github.com/NVIDIA/Model-Optimizer/pull/1407 https://github.com/NVIDIA/Model-Optimizer/releases/tag/0.45.0 https://huggingface.co/modal-labs/glm-5.2-nvfp4-experts-only"},
		[]builtinGroup{{"nvfp4", func(_ *builder, r *topology.Role) bool { return r.Kind == topology.Expert }}},
	},
	{
		BuiltinInfo{"mixed-nvfp4-fp8", "MLPs and experts in NVFP4; attention, the head and the last layers' MLPs in FP8 with a scale a row",
			"https://docs.vllm.ai/projects/llm-compressor/en/latest/key-models/hy-v3/nvfp4-fp8-example/ https://huggingface.co/mbehr90/Mistral-Medium-3.5-128B-nvfp4 https://unsloth.ai/docs/de/grundlagen/nvfp4.md"},
		[]builtinGroup{
			{"nvfp4", func(b *builder, r *topology.Role) bool { return feedsForward(r) && r.Layer < b.Layers-b.last }},
			{"fp8-channel", func(b *builder, r *topology.Role) bool {
				return feedsForward(r) || r.Kind == topology.Attention && defaultDense(r) || r.Kind == topology.Head && !b.Tied
			}},
		},
	},
	{
		BuiltinInfo{"int4-g128", "all linear maps of attention, MLPs and experts in 4-bit integers, groups of 128",
			"https://huggingface.co/inference-optimization/Qwen3-Coder-Next.w4a16/blob/main/recipe.yaml https://huggingface.co/nm-testing/l4-scout-int4-debug/blob/main/recipe.yaml"},
		[]builtinGroup{{"int4-g128", func(_ *builder, r *topology.Role) bool { return feedsForward(r) || defaultDense(r) }}},
	},
}

// feedsForward says whether a matrix is one of an MLP or of an expert.
func feedsForward(r *topology.Role) bool {
	return r.Kind == topology.Expert || (r.Kind == topology.MLP || r.Kind == topology.SharedExpert) && defaultDense(r)
}

// Builtins are the names of the recipes that come with the program.
func Builtins() []string {
	var names []string
	for _, b := range builtins {
		names = append(names, b.Name)
	}
	return names
}

// BuiltinTable says what each of them is.
func BuiltinTable() []BuiltinInfo {
	var table []BuiltinInfo
	for _, b := range builtins {
		table = append(table, b.BuiltinInfo)
	}
	return table
}

// lastLayers is how many layers at the end keep more bits in mixed-nvfp4-fp8; in
// a model of fewer than four times as many it is the last quarter of them.
const lastLayers = 8

// Builtin is a recipe by its name, written for a model: its names, its layers by
// number, MTP layers and towers ignored by the names that they have there. An
// unknown name is ErrBuiltin and lists the known ones; a model that has nothing
// of what the recipe is for is ErrNothing.
func Builtin(name string, m *topology.Model) (*File, error) {
	i := slices.IndexFunc(builtins, func(b builtin) bool { return b.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("%w %q (known: %s)", ErrBuiltin, name, strings.Join(Builtins(), ", "))
	}
	is := builtins[i]
	b := &builder{Model: m, last: min(lastLayers, (m.Layers+3)/4), group: make([]int, len(m.Matrices)), ragged: map[int]bool{}}
	for k := range m.Matrices {
		if x := &m.Matrices[k]; x.Role.Kind == topology.Expert && x.Cols%16 != 0 {
			b.ragged[x.Role.Layer] = true
		}
	}
	f := &File{Name: is.Name, Origin: is.Origin, Comment: is.Name + ": " + is.Summary + "\nWritten for " + m.Summary}
	for g := range is.groups {
		if names := b.take(g, is.groups[g]); len(names) > 0 {
			f.Groups = append(f.Groups, Group{Scheme: is.groups[g].scheme, Targets: patterns(names)})
		}
	}
	if len(f.Groups) == 0 {
		return nil, fmt.Errorf("%w: recipe %s: %s", ErrNothing, is.Name, b.nothing(is.groups))
	}
	f.Ignore = b.ignore()
	return f, nil
}

// builder writes one recipe.
type builder struct {
	*topology.Model
	last  int   // layers at the end that keep more bits
	group []int // by matrix: 1 + the group that has it
	// ragged are layers with experts that are no whole number of NVFP4's blocks
	// wide; servers want one scheme for all experts of a layer.
	ragged map[int]bool
}

// take gives matrices to a group and names the modules of their tensors. What is
// of MTP layers, not in floating point, or no whole number of NVFP4's blocks wide
// is left out.
func (b *builder) take(g int, is builtinGroup) []string {
	var names []string
	for k := range b.Matrices {
		m := &b.Matrices[k]
		t := b.MatrixTensor[k]
		if b.group[k] > 0 || m.Role.MTP || sourceReason(b.Model, t) != "" || is.scheme == "nvfp4" && b.unfit(m) || !is.takes(b, &m.Role) {
			continue
		}
		b.group[k] = g + 1
		if k == 0 || b.MatrixTensor[k-1] != t {
			names = append(names, module(m.Tensor, &m.Role))
		}
	}
	return names
}

// nothing says why no group takes anything: rows of a width that blocks do not
// divide, or no target at all.
func (b *builder) nothing(groups []builtinGroup) string {
	for g := range groups {
		for k := range b.Matrices {
			m := &b.Matrices[k]
			if groups[g].scheme == "nvfp4" && !m.Role.MTP && m.Cols%16 != 0 && sourceReason(b.Model, b.MatrixTensor[k]) == "" && groups[g].takes(b, &m.Role) {
				return fmt.Sprintf("rows of %s are %d wide, no whole number of NVFP4's blocks of 16, and servers want one scheme for all experts of a layer", m.Name, m.Cols)
			}
		}
	}
	return "the checkpoint has none of its targets in floating point"
}

func (b *builder) unfit(m *topology.Matrix) bool {
	return m.Cols%16 != 0 || m.Role.Kind == topology.Expert && b.ragged[m.Role.Layer]
}

// ignore lists what servers shall not look for quantized weights in: the head,
// embeddings, routers, norms, all of MTP layers and towers; and what else is a
// linear map and in no group.
func (b *builder) ignore() []string {
	var singles, routers, rest []string
	var prefixes []string // of MTP layers and towers
	norms := false
	taken := map[int]bool{} // tensors
	for k := range b.Matrices {
		taken[b.MatrixTensor[k]] = taken[b.MatrixTensor[k]] || b.group[k] > 0
	}
	for i := range b.Tensors {
		t, r := &b.Tensors[i], &b.Roles[i]
		if !holdsWeight(r) || taken[i] {
			continue
		}
		name := module(t.Name, r)
		switch {
		case r.MTP || r.Kind == topology.Vision:
			if p := ownPrefix(name, r); !slices.Contains(prefixes, p) {
				prefixes = append(prefixes, p)
			}
		case r.Kind == topology.Head || r.Kind == topology.Embedding:
			singles = append(singles, escapeGlob(name))
		case r.Kind == topology.Router:
			routers = append(routers, name)
		case r.Kind == topology.Norm:
			norms = true
		case mayBeMatrix(t):
			rest = append(rest, name)
		}
	}
	out := singles
	if norms && !b.anyTaken(`.*norm.*`) {
		out = append(out, `re:.*norm.*`)
	}
	out = append(out, patterns(routers)...)
	for _, p := range prefixes {
		out = append(out, "re:^"+regexp.QuoteMeta(p)+".*")
	}
	return append(out, patterns(rest)...)
}

// anyTaken says whether an expression matches the name of a tensor in a group.
func (b *builder) anyTaken(expr string) bool {
	m, err := ParseTarget(regexPrefix + expr)
	for k := range b.Matrices {
		if err != nil || b.group[k] > 0 && m.Match(b.Matrices[k].Tensor) {
			return true
		}
	}
	return false
}

// ownPrefix is what all names of an MTP layer, or of a tower, begin with:
// mtp, model.layers.46., visual.
func ownPrefix(name string, r *topology.Role) string {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		end := strings.Join(parts[:i+1], ".")
		switch {
		case r.Kind == topology.Vision && topology.IsTower(p), strings.HasPrefix(p, "mtp"):
			return end
		case r.MTP && i > 0 && isNumber(p):
			return end + "."
		}
	}
	return name
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
