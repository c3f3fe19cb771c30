package sessions

import (
	"errors"
	"fmt"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
	"quantscope/quant/method"
	"quantscope/quant/topology"
)

// Options say what Start runs, and where.
type Options struct {
	Checkpoint string         // path, or "demo" for the embedded one
	Session    string         // file; "" for a new one in the default place
	Variants   []string       // names that quant/method knows; may be empty
	Targets    string         // pattern of tensors; "" for the default, or what the recipes store
	Recipes    []RecipeSource // that are followed, each as one variant; what they store is among the targets
	Threads    int            // kernels that run at a time; 0 for GOMAXPROCS, and never more than tensors
	MemBytes   int64          // bound of the buffers that weights are read into; 0 for the default
	Program    string         // program version, for the record
	KernelSet  kernels.Set    // the zero value is kernels.Best()
	Clock      Clock          // nil: the machine's

	// Compat is whose arithmetic all variants follow: a name of kernels.ConventionByName.
	// "" is the layout's of an export, else each format's first.
	Compat string
	// GlobalScale says over what second-level scales are taken: "shared" over
	// matrices that a server fuses, or "tensor". "" is the former for an export,
	// else the latter.
	GlobalScale string
	Part        Part // of the checkpoint; the zero value is all of it
	Calibration CalibrationOptions
	Export      *ExportOptions // nil: nothing is written but the session

	sample   bool  // of tensors of a base session
	fp4      bool  // the session is of FP4 matrices
	calibMem int64 // that calibrating may take
}

// errOneVariant is wrapped where an export would be of several variants.
var errOneVariant = errors.New("name exactly one variant")

// variant is a variant of the name under the convention of the options.
func (o *Options) variant(name string) (method.Variant, error) {
	v, err := method.Parse(name)
	if err != nil {
		return v, err
	}
	known := kernels.Conventions(v.Spec.Format)
	switch {
	case o.Compat != "":
		c, err := kernels.ConventionByName(o.Compat)
		if err != nil {
			return v, err
		}
		for _, k := range known {
			if k == c {
				v.Spec.Convention = c
				return v, nil
			}
		}
		return v, fmt.Errorf("variant %q: convention %s is not one of %s (known: %s)", name, o.Compat, v.Spec.Format, names(known))
	case o.Export != nil && o.Export.Layout != "" && o.Export.Layout != export.Source:
		c, err := export.DefaultConvention(o.Export.Layout, v.Spec.Format)
		if err != nil {
			return v, err
		}
		v.Spec.Convention = c
	case len(known) > 0:
		v.Spec.Convention = known[0]
	}
	return v, nil
}

// convention is the setting: what --compat says, or modelopt where each format
// has its first one.
func (o *Options) convention() string {
	if o.Compat != "" || o.Export == nil || len(o.Variants) == 0 || len(o.Recipes) > 0 {
		return orDefault(o.Compat)
	}
	v, err := o.variant(o.Variants[0])
	if err != nil || v.Spec.Convention == kernels.Conventions(v.Spec.Format)[0] {
		return orDefault("")
	}
	return v.Spec.Convention.String()
}

// orDefault is a convention's name, that of the default for none.
func orDefault(convention string) string {
	if convention == "" {
		return kernels.ModelOpt.String()
	}
	return convention
}

// convention is whose arithmetic a variant follows.
func (v *Variant) convention() string { return orDefault(v.Convention) }

func names(cs []kernels.Convention) string {
	list := make([]string, len(cs))
	for i, c := range cs {
		list[i] = c.String()
	}
	return strings.Join(list, ", ")
}

// globals is over what second-level scales are taken.
func (o *Options) globals() export.Globals {
	if o.GlobalScale == export.Shared.String() || o.GlobalScale == "" && o.Export != nil {
		return export.Shared
	}
	return export.PerTensor
}

// planExport plans what the options want written.
func planExport(ck *checkpoint.Checkpoint, model *topology.Model, whole *storedSource, first int, o Options) (*exporting, error) {
	if len(o.Variants) == 0 {
		return nil, errOneVariant // openJob counted
	}
	v, err := o.variant(o.Variants[0])
	if err != nil {
		return nil, err
	}
	plan, err := export.NewPlan(ck, model, whole.matrices, v, export.Settings{Layout: o.Export.Layout, Globals: o.globals()})
	if err != nil {
		return nil, err
	}
	return &exporting{plan: plan, o: *o.Export, variant: v.Name, first: first, part: o.Part}, nil
}
