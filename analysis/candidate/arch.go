package candidate

import (
	"fmt"
	"reflect"
	"strings"

	"quantscope/analysis/model"
)

// archFindings says in what a candidate's architecture differs from the
// reference's beyond the sizes that must be the same: a rope, a window, an epsilon.
// Each is computed by its own config, so that a file whose metadata are wrong shows
// it in its figures; this says why.
func archFindings(ref, c *Candidate) []Finding {
	if ref.Arch == nil || c.Arch == nil {
		return nil
	}
	if r, n := len(ref.Arch.Layers), len(c.Arch.Layers); r != n {
		return []Finding{{ID: "architecture-differs", Message: fmt.Sprintf("%d layers, and %d in the reference: each is computed by its own config", n, r)}}
	}
	type difference struct {
		path         string
		theirs, ours any
	}
	var order []difference
	layers := map[difference][]int{}
	for i := range c.Arch.Layers {
		walk("", reflect.ValueOf(plainRope(ref.Arch.Layers[i])), reflect.ValueOf(plainRope(c.Arch.Layers[i])), func(path string, theirs, ours any) {
			d := difference{path, theirs, ours}
			if layers[d] == nil {
				order = append(order, d)
			}
			layers[d] = append(layers[d], i)
		})
	}
	whole := []difference{
		{"embedding scale", ref.Arch.EmbedScale, c.Arch.EmbedScale}, {"final norm's eps", ref.Arch.Norm.Eps, c.Arch.Norm.Eps},
	}
	var out []Finding
	for _, d := range whole {
		if d.theirs != d.ours {
			out = append(out, Finding{ID: "architecture-differs", Message: fmt.Sprintf("%s is %v, and %v in the reference: each is computed by its own config", d.path, d.ours, d.theirs)})
		}
	}
	for _, d := range order {
		in := layers[d]
		where := fmt.Sprintf("%d layers, the first %d", len(in), in[0])
		switch len(in) {
		case len(c.Arch.Layers):
			where = "all layers"
		case 1:
			where = fmt.Sprintf("layer %d", in[0])
		}
		out = append(out, Finding{ID: "architecture-differs", Message: fmt.Sprintf("%s is %v, and %v in the reference, in %s: each is computed by its own config", d.path, d.ours, d.theirs, where)})
	}
	return out
}

// plainRope takes away what a rope of its kind does not use.
func plainRope(l model.Layer) model.Layer {
	r := &l.Attn.Rope
	if r.Kind != model.RopeDynamic {
		r.Max = 0
	}
	if r.Kind == model.RopePlain {
		r.Factor, r.OriginalMax = 0, 0
	}
	if r.Kind != model.RopeLlama3 {
		r.LowFreq, r.HighFreq = 0, 0
	}
	if r.Kind == model.RopeLinear || r.Kind == model.RopeDynamic {
		r.OriginalMax = 0
	}
	if r.Kind != model.RopeYarn {
		r.BetaFast, r.BetaSlow, r.Untruncated = 0, 0, false
	}
	return l
}

// walk calls differ for every field below two values of one type that is not the
// same; a part that only one of them has is one difference.
func walk(path string, a, b reflect.Value, differ func(path string, a, b any)) {
	switch a.Kind() {
	case reflect.Pointer:
		if a.IsNil() != b.IsNil() {
			there := func(v reflect.Value) string {
				if v.IsNil() {
					return "not there"
				}
				return "there"
			}
			differ(path, there(a), there(b))
		} else if !a.IsNil() {
			walk(path, a.Elem(), b.Elem(), differ)
		}
	case reflect.Struct:
		for i := range a.NumField() {
			name := strings.ToLower(a.Type().Field(i).Name)
			if a.Type().Field(i).Anonymous || path == "" && name == "attn" {
				name = ""
			}
			walk(strings.TrimSpace(path+" "+name), a.Field(i), b.Field(i), differ)
		}
	default:
		if x, y := a.Interface(), b.Interface(); x != y {
			differ(path, x, y)
		}
	}
}
