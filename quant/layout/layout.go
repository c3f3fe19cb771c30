// Package layout knows what a quantized checkpoint stores: which modules are
// quantized, in which format, under which tensors, and what its config says of
// them.
//
// Promises: headers decide, and only scales of one number, and the first zero
// points of GPTQ, are read before weights are asked for. A module is what its own tensors show, by their names,
// dtypes and shapes together; the config is held against that, and what neither
// can tell is listed with the reason, never guessed. Decoding is by the layout's
// own formula, bit for bit, in ranges of rows, so that memory is what the caller
// gives. A Layout may be used from many goroutines at once.
//
// The table in forms.go has a row for each way of storing a matrix; another
// format joins by a row and its function.
package layout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// Layout is the quantized part of an opened checkpoint.
type Layout struct {
	Method  string  // quant_method of the config; "" where no config says
	File    string  // that the config was read from; "" where there is none
	Receipt Receipt // of quantscope's own exports, empty else

	Modules  []Module  // in the order of the files
	Entries  []Entry   // patterns of the config, in their order
	Findings []Finding // what does not fit, in the order of the files
	// Unread are tensors of modules that are quantized and not in Modules. A
	// finding says why, one for all of those that have the same tensors.
	Unread map[string]bool
	// ZeroPoints is how those of GPTQ are read where an option says so and the label
	// does not; "" elsewhere.
	ZeroPoints ZeroPoints
	// Packing is how words of integers are read where an option says so and the words do
	// not; "" elsewhere.
	Packing Packing
	// Notes are what the config says that is no finding and changes no weight.
	Notes []string

	byName  map[string]int
	configs []*config // of config.json and of the file beside it, for Says
}

// Module is one quantized linear map.
type Module struct {
	Name       string       // without the parameter; with [expert] where experts are stored fused
	Method     string       // whose way of storing it is
	Spec       kernels.Spec // format and convention; Method and Global are left to the caller
	Rows, Cols int          // outputs and inputs, of the decoded matrix
	Expert     int          // index in a fused tensor, −1 otherwise
	Role       topology.Role
	Fields     []Field
	Declared   string // the config's entry that covers it, "" for none

	ck      *checkpoint.Checkpoint
	format  kernels.Format
	codes   place
	scales  place
	mins    place
	global  place
	book    place // the values that codes of two bits stand for
	columns place // what the weights of each input are multiplied by
	words   bool  // codes are rows of int32 words
	zeros   bool  // mins are zero points, packed along the outputs
	tileR   int   // rows and columns of a tile, where the format has tiles
	tileC   int
	packed  *packed // of what decodes itself; nil of the kernels' formats
	own     own     // that decodes the module, where the kernels have no such format
	unit    float32 // of the second-level scale; 0: it is stored as it is. Without a stored one it is the scale
}

// Field is a stored tensor, or an expert's part of it, that belongs to a module.
type Field struct {
	Param        string // weight, weight_scale, …
	Tensor       *checkpoint.Tensor
	Offset, Size int64 // bytes of the tensor that are the module's
}

// Finding is something that does not fit.
type Finding struct {
	ID      string `json:"id"`
	File    string `json:"file"`
	Tensor  string `json:"tensor"`
	Message string `json:"message"`
}

// IDs of findings.
const (
	Undeclared       = "quantized-not-declared" // packed tensors that no entry of the config covers
	Ignored          = "quantized-but-ignored"  // packed tensors that the config says are not
	NotQuantized     = "declared-not-quantized" // plain weights that the config says are quantized
	Contradicts      = "config-contradicts"     // config and tensors name different formats
	ConfigsDisagree  = "configs-disagree"       // config.json and hf_quant_config.json differ
	UnmatchedPattern = "pattern-unmatched"
	UnreadPattern    = "pattern-unread"    // a pattern that cannot be held against names here
	Incomplete       = "module-incomplete" // a field is missing, or of the wrong shape
	UnknownForm      = "form-unknown"      // quantized in a way that is not known here
	Mislabelled      = "zero-points-mislabelled"
	NoGroupIndex     = "g-idx-missing"
)

// Open finds the quantized modules of a checkpoint. model is its topology. A
// config that cannot be read is an error; what is merely wrong is in Findings.
func Open(ck *checkpoint.Checkpoint, model *topology.Model) (*Layout, error) {
	return OpenWith(ck, model, Options{})
}

// OpenWith is Open with options.
func OpenWith(ck *checkpoint.Checkpoint, model *topology.Model, options Options) (*Layout, error) {
	declared, other, err := readConfigs(ck)
	if err != nil {
		return nil, err
	}
	l := &Layout{Method: declared.method, File: declared.file, Receipt: declared.receipt, Unread: map[string]bool{}, byName: map[string]int{}}
	o := &opener{Layout: l, options: options, alike: map[string]int{}, more: map[int]int{}, ck: ck, model: model, config: declared, index: newMatchIndex(declared.entries)}
	o.gather()
	o.modules()
	o.declare()
	o.plainExport()
	o.compare(other)
	l.Notes = declared.notes
	l.Entries, l.configs = declared.entries, []*config{declared, other}
	slices.SortStableFunc(l.Findings, func(a, b Finding) int { return strings.Compare(a.File, b.File) })
	return l, nil
}

// Lookup finds a module by its name.
func (l *Layout) Lookup(name string) (*Module, bool) {
	i, ok := l.byName[name]
	if !ok {
		return nil, false
	}
	return &l.Modules[i], true
}

// opener is the work of one Open.
type opener struct {
	*Layout
	options Options
	alike   map[string]int // findings that stand for several modules, by ID and what they say
	more    map[int]int    // and how many modules there are beside their own
	deepSeek

	ck     *checkpoint.Checkpoint
	model  *topology.Model
	config *config
	index  *matchIndex // of the config's entries

	groups []group // modules with their parameters, in the order of the files
	at     map[string]int
}

// group is the tensors of one module.
type group struct {
	name   string
	params map[string]*checkpoint.Tensor
	roles  map[string]*topology.Role
	first  *checkpoint.Tensor
}

// gather groups tensors by module.
func (o *opener) gather() {
	o.at = make(map[string]int, len(o.ck.Tensors))
	for i := range o.ck.Tensors {
		t := &o.ck.Tensors[i]
		name, param := Split(t.Name)
		k, ok := o.at[name]
		if !ok {
			k = len(o.groups)
			o.at[name] = k
			o.groups = append(o.groups, group{name: name, params: map[string]*checkpoint.Tensor{}, roles: map[string]*topology.Role{}, first: t})
		}
		if old := o.groups[k].params[param]; old != nil { // …proj and …proj.weight
			o.findf(Incomplete, t, "stands beside %s", old.Name)
			continue
		}
		o.groups[k].params[param] = t
		o.groups[k].roles[param] = &o.model.Roles[i]
	}
}

// findf adds a finding about a tensor.
func (o *opener) findf(id string, t *checkpoint.Tensor, format string, args ...any) {
	o.Findings = append(o.Findings, Finding{ID: id, File: o.ck.Files[t.File].Name, Tensor: t.Name, Message: fmt.Sprintf(format, args...)})
}

// modules recognizes what is quantized.
func (o *opener) modules() {
	var strange, known []*group // of no form that is known; one of each list of parameters that is
	signs := map[string]bool{}
	for i := range o.groups {
		g := &o.groups[i]
		f, quantized := recognize(g)
		if !quantized {
			continue
		}
		if o.config.refused != "" {
			o.unread(g)
			o.repeat(UnknownForm, g.first, o.config.refused, "%s", o.config.refused)
			continue
		}
		if whose := o.foreign(g); f == nil && whose != "" {
			o.unread(g)
			o.repeat(UnknownForm, g.first, whose, "is stored in a way that is not read: %s", whose)
			continue
		}
		if f == nil {
			o.unread(g)
			strange = append(strange, g)
			continue
		}
		if sign := strings.Join(g.paramList(), ", "); !signs[sign] {
			signs[sign] = true
			known = append(known, g)
		}
		found, err := f.build(o, f, g)
		if err != nil {
			id := Incomplete
			if errors.Is(err, kernels.ErrUnknownFormat) || errors.Is(err, kernels.ErrUnsupported) {
				id = UnknownForm
			}
			o.unread(g)
			var label *mislabelled
			if errors.As(err, &label) {
				o.repeat(Mislabelled, g.params["qzeros"], label.say, "%s", label.say)
				continue
			}
			o.findf(id, g.first, "is %s: %v", f.name, err)
			continue
		}
		for _, m := range found {
			o.byName[m.Name] = len(o.Modules)
			o.Modules = append(o.Modules, m)
		}
	}
	for _, g := range strange {
		has := strings.Join(g.paramList(), ", ")
		if like, lacks := g.partOf(known); like != nil {
			o.findf(Incomplete, g.first, "has %s and lacks %s, which %s has, stored alike", has, lacks, like.name)
			continue
		}
		o.repeat(UnknownForm, g.first, has, "quantized in a way that is not known here: has %s (known: %s)", has, knownForms())
	}
	for k, n := range o.more {
		o.Findings[k].Message += fmt.Sprintf("; so are %d more modules", n)
	}
}

// repeat adds a finding that is said once for all modules of which the same is to
// be said.
func (o *opener) repeat(id string, t *checkpoint.Tensor, same, format string, args ...any) {
	same = id + " " + same
	if k, ok := o.alike[same]; ok {
		o.more[k]++
		return
	}
	o.alike[same] = len(o.Findings)
	o.findf(id, t, format, args...)
}

// unread notes the tensors of a group that no module has.
func (o *opener) unread(g *group) {
	for _, p := range sortedParams(g) {
		o.Unread[g.params[p].Name] = true
	}
}

// partOf is the module with the fewest parameters of which this one's are a part, and
// what it has beside them; nil where there is none.
func (g *group) partOf(known []*group) (like *group, lacks string) {
	own := g.paramList()
	for _, k := range known {
		all := k.paramList()
		if len(all) <= len(own) || like != nil && len(all) >= len(like.params) || slices.ContainsFunc(own, func(p string) bool { return !slices.Contains(all, p) }) {
			continue
		}
		like, lacks = k, strings.Join(slices.DeleteFunc(all, func(p string) bool { return slices.Contains(own, p) }), ", ")
	}
	return like, lacks
}

// paramList names the parameters of a group with their dtypes.
func (g *group) paramList() []string {
	var out []string
	for p, t := range g.params {
		out = append(out, p+" "+t.DType.String())
	}
	slices.Sort(out)
	return out
}

// fieldParams are the suffixes that mark fields of quantized modules, longest
// first where one ends another.
var fieldParams = []string{
	"weight_packed", "weight_global_scale", "weight_zero_point", "weight_scale_inv", "weight_scale_2", "weight_g_idx",
	"weight_scale", "weight_shape", "weight_min", bookParam, "input_global_scale", "input_scale", "input_zero_point", "output_scale",
	"pre_quant_scale", "svdquant_lora_a", "svdquant_lora_b", "weight", "bias", "biases", "global_scale", "scale", "activation_scale", "trellis", "suh", "svh", "mcg", "mul1",
	"qweight", "qzeros", "scales", "g_idx", "blocks", "q_scale", "k_scale", "v_scale",
}

// marlinParams are what older tools call the fields of a projection that is
// repacked for one kernel. Elsewhere the names may be anything's.
var marlinParams = []string{"B", "s", "workspace"}

// cacheParams are scales of activations that attention keeps or multiplies, on
// the block or on a projection. They are no part of a weight.
var cacheParams = []string{"q_scale", "k_scale", "v_scale"}

// IsCacheScale says whether a tensor is a scale of the key-value cache.
func IsCacheScale(name string) bool {
	_, param := Split(name)
	return slices.Contains(cacheParams, param)
}

// fusedParams are those that are joined to a fused tensor's name by an
// underscore.
var fusedParams = []string{"blocks", "scales", "bias"}

// Split takes a tensor's name apart into module and parameter. A fused tensor
// without a suffix has the parameter weight.
func Split(name string) (module, param string) {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		if slices.Contains(fieldParams, name[i+1:]) || slices.Contains(marlinParams, name[i+1:]) && strings.HasSuffix(name[:i], "_proj") {
			return name[:i], name[i+1:]
		}
	}
	for _, p := range fusedParams {
		if m, ok := strings.CutSuffix(name, "_"+p); ok && strings.HasSuffix(m, "_proj") {
			return m, p
		}
	}
	return name, "weight"
}
