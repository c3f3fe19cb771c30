package convert

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// ErrRefused is wrapped by errors about what the other layout cannot say.
var ErrRefused = errors.New("refused")

// Plan is a conversion that is known to be possible.
type Plan struct {
	From, To string   // layouts
	Modules  int      // that are stored anew
	Groups   []Group  // what the copy declares, in the order of their first modules
	Notes    []string // what a person should know

	ck     *checkpoint.Checkpoint
	pieces []piece
	export *export.Plan
	facts  facts
	gone   map[string]bool // tensors that the copy does not have
}

// Group is modules of one scheme.
type Group struct {
	Scheme  string `json:"scheme"` // what the copy says of them
	Modules int    `json:"modules"`
}

// piece is one module of the source on its way.
type piece struct {
	m       *layout.Module
	form    form
	name    string // in the copy
	unit    export.Unit
	scheme  scheme
	stays   []string                        // tensors of the module that are copied as they are
	look    func(ctx context.Context) error // at all of the weights before anything is written; may be nil
	write   func(ctx context.Context, put put) error
	recoded func(ctx context.Context, put put, nibbles []byte, mask uint16) error // in place of write where codes come from elsewhere
	promise promise
	ints    bool // the copy has integers with zero points
}

// put takes bytes of a tensor of the unit, off counted from its start.
type put func(tensor int, off int64, data []byte) error

// Options of a conversion.
type Options struct {
	Layout  string
	Threads int // 0 is 1
}

// New plans the conversion of a checkpoint, whose layout is l, and refuses what
// cannot be done. Refusals name the module and the reason and wrap ErrRefused,
// export.ErrUnknown or export.ErrSource. Where values can be no more than nearly the
// same, or the weights say whether it can be done, New reads all of them to be certain.
func New(ctx context.Context, ck *checkpoint.Checkpoint, model *topology.Model, l *layout.Layout, o Options) (*Plan, error) {
	if err := Known(o.Layout); err != nil {
		return nil, err
	}
	b := &planner{Plan: &Plan{From: l.Method, To: o.Layout, ck: ck, gone: map[string]bool{}}, model: model, layout: l, threads: max(o.Threads, 1)}
	for _, step := range []func(context.Context) error{b.whole, b.source, b.modules, b.prove, b.finish} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return b.Plan, nil
}

// planner is the work of one New.
type planner struct {
	*Plan
	model   *topology.Model
	layout  *layout.Layout
	config  *sourceConfig
	threads int
	ctx     context.Context
	recoded bool // codes come by TwoBits.Put
	made    made // of recoded ones, what the receipt says
}

// refuse says what cannot be done with a module.
func refuse(m *layout.Module, format string, args ...any) error {
	return fmt.Errorf("module %s: %s: %w", m.Name, fmt.Sprintf(format, args...), ErrRefused)
}

// whole wants everything that is quantized to be known.
func (b *planner) whole(ctx context.Context) error {
	b.ctx = ctx
	l := b.layout
	if len(l.Unread) > 0 {
		first := ""
		for _, f := range l.Findings {
			if l.Unread[f.Tensor] {
				first = ": " + f.Tensor + " " + f.Message
				break
			}
		}
		return fmt.Errorf("%w %s: %d tensors of quantized modules are not read%s", export.ErrSource, b.ck.Path, len(l.Unread), first)
	}
	if len(l.Modules) == 0 {
		return fmt.Errorf("%w %s: holds no quantized module: there is nothing to convert", export.ErrSource, b.ck.Path)
	}
	for _, f := range l.Findings {
		switch f.ID {
		case layout.Undeclared, layout.Ignored, layout.NotQuantized, layout.Contradicts, layout.ConfigsDisagree:
			return fmt.Errorf("%w %s: %s: config and tensors do not agree, and a copy would hide which is right: %s", export.ErrSource, b.ck.Path, f.ID, strings.TrimSpace(f.Tensor+" "+f.Message))
		}
	}
	for i := range b.ck.Tensors {
		if t := &b.ck.Tensors[i]; layout.IsCacheScale(t.Name) {
			return fmt.Errorf("tensor %q: is a scale of the key-value cache, which the layouts keep in different places and under different words: %w", t.Name, ErrRefused)
		}
	}
	return nil
}

// modules plans each module.
func (b *planner) modules(context.Context) error {
	names := map[string]string{}
	if !slices.ContainsFunc(b.layout.Modules, func(m layout.Module) bool { return m.Method != b.To }) {
		return fmt.Errorf("%w %s: is in layout %s already", export.ErrSource, b.ck.Path, b.To)
	}
	for i := range b.layout.Modules {
		m := &b.layout.Modules[i]
		p := piece{m: m, form: formOf(m), name: export.ExpertModule(m.Name)}
		if m.ColumnTensor() != nil {
			return refuse(m, "%s: weights that belong to scaled inputs, which layout %s cannot say", m.ColumnTensor().Name, b.To)
		}
		plan, err := planOf(p.form, b.To)
		if err != nil {
			return fmt.Errorf("module %s: is %s: %w", m.Name, m.Format().Name, err)
		}
		if m.Expert >= 0 {
			return refuse(m, "is one of the experts of %s, which layout %s stores one by one", m.CodeTensor().Name, b.To)
		}
		if other, twice := names[p.name]; twice {
			return refuse(m, "would have the name of %s", other)
		}
		names[p.name] = m.Name
		p.unit = export.Unit{Name: p.name, File: m.CodeTensor().File}
		if err := plan(b, &p); err != nil {
			return err
		}
		if err := b.covered(&p); err != nil {
			return err
		}
		b.pieces = append(b.pieces, p)
	}
	b.Modules = len(b.pieces)
	return nil
}

// covered wants every tensor of a module to be accounted for: what is not
// understood is not dropped.
func (b *planner) covered(p *piece) error {
	for _, f := range p.m.Fields {
		if slices.Contains(p.stays, f.Tensor.Name) {
			continue
		}
		if !p.takes(f.Param) {
			return refuse(p.m, "has %s, which layout %s cannot say", f.Param, b.To)
		}
		b.gone[f.Tensor.Name] = true
	}
	return nil
}

// known are the parameters that a form's functions read.
var known = map[form][]string{
	integers: {"weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx", "weight", "qweight", "qzeros", "scales", "g_idx"},
	affine:   {"weight_packed", "weight_scale", "weight_min", "weight", "scales", "biases"},
	nvfp4:    {"weight", "weight_packed", "weight_scale", "weight_scale_2", "weight_global_scale", "input_scale", "input_global_scale"},
	mxfp4:    {"weight_packed", "weight_scale", "weight", "scale", "scales"},
	fp8:      {"weight", "weight_scale", "weight_scale_inv", "scale", "input_scale"},

	code2:      {"weight_packed", "weight_scale", "weight_codebook", "weight_scale_2", "weight_global_scale"},
	code2mxfp4: {"weight_packed", "weight_scale", "weight_codebook"},
}

func (p *piece) takes(param string) bool { return slices.Contains(known[p.form], param) }

// field is a stored tensor of the module by its parameter, nil where it has none.
func (p *piece) field(param string) *checkpoint.Tensor {
	for _, f := range p.m.Fields {
		if f.Param == param {
			return f.Tensor
		}
	}
	return nil
}

// add adds a tensor to the unit; its index in it is given.
func (p *piece) add(param string, d checkpoint.DType, shape ...int64) int {
	if shape == nil {
		shape = []int64{}
	}
	p.unit.Tensors = append(p.unit.Tensors, checkpoint.Spec{Name: p.name + "." + param, DType: d, Shape: shape})
	return len(p.unit.Tensors) - 1
}

// notef adds a note once.
func (b *planner) notef(format string, args ...any) {
	if n := fmt.Sprintf(format, args...); !slices.Contains(b.Notes, n) {
		b.Notes = append(b.Notes, n)
	}
}

// finish writes the configs and lays the files out.
func (b *planner) finish(context.Context) error {
	b.group()
	if u := b.facts.unscaled; len(u) > 0 {
		b.notef("the source says that activations are quantized by stored scales, and %d modules have none, the first %s: there the copy says that they are quantized as they come, per token", len(u), u[0])
	}
	config, texts, err := b.configs()
	if err != nil {
		return err
	}
	r := export.Repack{Layout: b.To, How: b.how(), Gone: b.gone, Config: config, Texts: texts, Leave: b.config.files}
	for i := range b.pieces {
		r.Units = append(r.Units, b.pieces[i].unit)
	}
	b.export, err = export.NewRepack(b.ck, r)
	return err
}

// how is what decides the bytes of the copy beside the source and its layout.
func (b *planner) how() string {
	how := "converted from " + b.From
	if b.layout.ZeroPoints != "" {
		how += ", zero points " + string(b.layout.ZeroPoints)
	}
	return how
}

// Bytes is what the copy takes, of the weights and of all files.
func (p *Plan) Bytes() (weights, files int64) { return p.export.WeightBytes, p.export.Bytes }
