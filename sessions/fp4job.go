package sessions

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/convert"
	"quantscope/quant/export"
	"quantscope/quant/layout"
	"quantscope/quant/method"
	"quantscope/quant/recipe"
	"quantscope/quant/recode"
	"quantscope/quant/topology"
)

// A job of FP4 matrices measures what two bits make of their codes against the FP4
// matrix, under the scales that they have. Nothing else can be made of them.

// fp4 are the FP4 matrices of a checkpoint that a run is over.
type fp4 struct {
	model *topology.Model
	lay   *layout.Layout
	sel   recode.Selection
	whole *fp4Source // of the whole checkpoint
}

// wantsFP4 says whether the options ask for two bits, and for anything else.
func (o *Options) wantsFP4() (two bool, other error) {
	for _, name := range o.Variants {
		v, err := method.Parse(name)
		switch {
		case err != nil: // a recipe, or said elsewhere
			other = errors.Join(other, fmt.Errorf("variant %s: %w (%s)", name, recode.ErrVariant, recode.Possible))
		case recode.Recodes(v):
			two = true
		default:
			other = errors.Join(other, recode.Check(v))
		}
	}
	for _, r := range o.asked() {
		other = errors.Join(other, fmt.Errorf("recipe %s: %w (%s)", r.Name, recode.ErrVariant, recode.Possible))
	}
	return two, other
}

// fp4Of finds the FP4 matrices that the options are about; nil where they are about
// weights in floating point. plain is why there are none of these, nil where there are.
func (o *Options) fp4Of(ck *checkpoint.Checkpoint, model *topology.Model, plain error) (*fp4, error) {
	if !recode.MayHave(ck) {
		return nil, plain
	}
	lay, err := layout.Open(ck, model)
	if err != nil {
		return nil, err
	}
	stock := recode.Find(ck, model, lay)
	if stock.Empty() {
		return nil, plain
	}
	two, other := o.wantsFP4()
	none := errors.Is(plain, recipe.ErrNothing)
	switch {
	case o.fp4 || two || none && other == nil:
	case none:
		return nil, fmt.Errorf("%w; %s", plain, recode.Possible)
	default:
		return nil, plain
	}
	if other != nil {
		return nil, firstOf(other)
	}
	sel, err := stock.Select(o.Targets)
	if err != nil {
		return nil, err
	}
	return &fp4{model: model, lay: lay, sel: sel, whole: newFP4Source(ck, sel.FP4)}, nil
}

// firstOf is the first of joined errors.
func firstOf(err error) error {
	if many, ok := err.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) > 0 {
		return firstOf(many.Unwrap()[0])
	}
	return err
}

// takesFP4 says whether a session that is to be gone on with is of FP4 matrices, which
// the options need not say again.
func (o *Options) takesFP4(ctx context.Context) (bool, error) {
	r, err := openReader(ctx, o.Session)
	if err != nil {
		return false, err
	}
	defer r.Close()
	found := false
	err = withConn(ctx, r, func(c *sql.Conn) error {
		return each(ctx, c, selectEvents+" where kind = 'tensors' order by seq limit 1", func(row []driver.Value) error {
			e, err := scanEvent(row)
			var c tensorsJSON
			if err == nil && json.Unmarshal(e.payload, &c) == nil { // what is damaged is said when it is opened
				found = len(c.DType.Words) > 0 && isFP4(c.DType.Words[0])
			}
			return err
		})
	})
	return found, readError(ctx, o.Session, err)
}

// fill makes a job of the matrices, n of them from one on.
func (f *fp4) fill(ck *checkpoint.Checkpoint, job *Job, first, n int, o Options) error {
	src := f.whole.cut(first, n)
	job.Source, job.Tensors = src, src.tensors()
	// Scales are the checkpoint's, so that what decides on others says nothing here.
	job.Settings[SettingConvention], job.Settings[SettingGlobalScale] = orDefault(""), export.PerTensor.String()
	job.Parse = func(name string) (Quantizer, error) { return f.parse(name) }
	if o.Export == nil {
		return nil
	}
	var err error
	job.export, err = f.plan(ck, job, first, o)
	return err
}

// parse makes a quantizer of the name of a variant.
func (f *fp4) parse(name string) (Quantizer, error) {
	v, err := method.Parse(name)
	if err != nil {
		return Quantizer{}, err
	}
	if err := recode.Check(v); err != nil {
		return Quantizer{}, err
	}
	out := Variant{Name: v.Name}
	var names, schemes []string
	convention, known := "", false
	on := map[string]method.Variant{}
	var bits, params float64
	for _, m := range f.whole.matrices {
		is, ok := on[m.Module.Spec.Format]
		if !ok {
			if is, err = m.On(v); err != nil {
				return Quantizer{}, err
			}
			on[m.Module.Spec.Format] = is
			names, schemes = append(names, is.Name), append(schemes, is.Scheme)
		}
		c := m.Module.Spec.Convention.String()
		if !known {
			convention, known = c, true
		} else if c != convention {
			convention = ""
		}
		n := float64(m.Rows) * float64(m.Cols)
		bits, params = bits+n*is.BitsPerWeight, params+n
	}
	slices.Sort(names)
	out.Effective, out.Scheme, out.Convention = strings.Join(names, ", "), schemes[0], convention
	if len(schemes) > 1 {
		out.Scheme = SchemeMixed
	}
	out.BitsPerWeight = bits / params
	return Quantizer{Variant: out, recodes: v.Spec.Method}, nil
}

// plan plans what the options want written.
func (f *fp4) plan(ck *checkpoint.Checkpoint, job *Job, first int, o Options) (*exporting, error) {
	if len(o.Variants) == 0 {
		return nil, errOneVariant // openJob counted
	}
	v, err := method.Parse(o.Variants[0])
	if err != nil {
		return nil, err
	}
	x := &exporting{o: *o.Export, variant: v.Name, first: first, part: o.Part}
	switch x.o.Layout {
	case "", export.Source:
		x.o.Layout = export.Source
		patches := make([]export.Patch, len(f.whole.matrices))
		for i, m := range f.whole.matrices {
			t, offset, size := m.Codes()
			patches[i] = export.Patch{Name: m.Name, Tensor: t.Name, Offset: offset, Size: size}
		}
		x.put = func(_ context.Context, t int, codes []byte, _ uint16) error {
			return x.writer.PutPatch(x.matrix(t), codes)
		}
		x.plan, err = export.NewPatched(context.Background(), ck, v.Name, patches)
		return x, err
	case export.Own:
		return x, f.planTwoBits(ck, job, x, v)
	}
	return nil, fmt.Errorf("layout %s of FP4 codes: %w (known: %s, with the codes of FP4, and %s, with two bits)", x.o.Layout, export.ErrLayout, export.Source, export.Own)
}

// planTwoBits plans quantscope's own layout, which has one way of storing for all
// matrices that are quantized.
func (f *fp4) planTwoBits(ck *checkpoint.Checkpoint, job *Job, x *exporting, v method.Variant) error {
	taken := make(map[string]bool, len(f.whole.matrices))
	for _, m := range f.whole.matrices {
		taken[m.Module.Name] = true
	}
	for i := range f.lay.Modules {
		if m := &f.lay.Modules[i]; !taken[m.Name] {
			return fmt.Errorf("layout %s: %s is quantized (%s) and no target, and one format of all matrices can be said: %w; layout %s takes any targets", export.Own, m.Name, m.Format().Name, export.ErrLayout, export.Source)
		}
	}
	two, err := convert.NewTwoBits(context.Background(), ck, f.model, f.lay, v)
	if err != nil {
		return err
	}
	x.plan = two.Plan()
	x.matrices = make([]int, len(job.Tensors))
	for t, m := range job.Source.(*fp4Source).matrices { // fill made it
		unit, ok := two.Unit(m.Module.Name)
		if !ok {
			return fmt.Errorf("layout %s: %s: %w", export.Own, m.Name, export.ErrMatrix)
		}
		x.matrices[t] = unit
	}
	x.put = func(ctx context.Context, t int, codes []byte, book uint16) error {
		return two.Put(ctx, x.writer, x.matrix(t), codes, book)
	}
	return nil
}

// scalesStay refuses options that choose scales where they are the checkpoint's.
func (o *Options) scalesStay() error {
	switch {
	case o.Compat != "":
		return fmt.Errorf("convention %s: %w: scales are the checkpoint's, and stay", o.Compat, recode.ErrVariant)
	case o.GlobalScale == export.Shared.String():
		return fmt.Errorf("a global scale shared over matrices: %w: scales are the checkpoint's, and stay", recode.ErrVariant)
	}
	return nil
}

// fp4 says whether the job is of FP4 matrices.
func (j *Job) fp4() bool {
	_, ok := j.Source.(*fp4Source)
	return ok
}
