package verify

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/layout"
	"quantscope/quant/method"
)

// found is how the modules of one family were made.
type found struct {
	spec    kernels.Spec // without Global
	known   bool
	variant string
}

// family groups modules that were made alike: one format in one way of storing
// it.
func family(m *layout.Module) string { return m.Method + " " + m.Spec.Format }

// Inference looks at this many modules of a family, and at this many rows of
// each; a method is taken for the one that made them when it reproduces this
// share of their bytes, so that a fault in a few does not hide it.
const (
	sampleModules = 4
	sampleRows    = 128
	enoughEqual   = 0.9
)

// method finds out how the quantized tensors were made: as the caller says, as
// the output's config says, or by trying what is known on a sample.
func (r *run) method(ctx context.Context) error {
	r.specs = map[string]found{}
	named, from := r.Variant, "options"
	if named == "" {
		named, from = r.layout.Variant, "config"
	}
	samples := map[string][]*job{}
	var families []string
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.module == nil {
			continue
		}
		k := family(j.module)
		if samples[k] == nil {
			families = append(families, k)
		}
		samples[k] = append(samples[k], j)
	}
	var v method.Variant
	if named != "" {
		var err error
		if v, err = method.Parse(named); err != nil {
			if from == "options" {
				return err
			}
			r.note("config.json names the variant %q, which is not known here", named)
			named = ""
		}
	}
	for _, k := range families {
		jobs := spread(samples[k], sampleModules)
		specs := candidates(jobs[0].module)
		if named != "" && v.Scheme == jobs[0].module.Spec.Format {
			specs = slices.DeleteFunc(specs, func(s kernels.Spec) bool { return s.Method != v.Spec.Method })
		}
		best, share, err := r.infer(ctx, jobs, specs)
		if err != nil {
			return err
		}
		f := found{spec: best, known: share >= enoughEqual || named != "" && v.Scheme == best.Format && len(specs) > 0}
		switch {
		case !f.known:
			r.note("%s: nothing that is known reproduces it (the nearest, %s, does %.3g %% of a sample), so that codes were held against the nearest ones only", k, specText(best), 100*share)
		case named != "" && v.Scheme == best.Format:
			r.rep.Variant, r.rep.From = v.Name, from
		default:
			f.variant = variantOf(best)
			r.rep.Variant, r.rep.From = f.variant, "found"
		}
		if f.known && ambiguous(specs) {
			r.note("%s: the layout does not say whose arithmetic made it; %v reproduces it", k, best.Convention)
		}
		r.specs[k] = f
	}
	return nil
}

// spread takes n of a list, evenly.
func spread(list []*job, n int) []*job {
	if len(list) <= n {
		return list
	}
	out := make([]*job, n)
	for i := range out {
		out[i] = list[i*(len(list)-1)/(n-1)]
	}
	return out
}

// sameDecode are conventions that store alike and decode by one formula, so
// that a layout does not tell them apart.
var sameDecode = [][]kernels.Convention{{kernels.ModelOpt, kernels.ModelOptStatic}, {kernels.CT, kernels.CT32}}

// candidates are the ways of making a module that the kernels know, the most
// usual first.
func candidates(m *layout.Module) []kernels.Spec {
	conventions := []kernels.Convention{m.Spec.Convention}
	if m.GlobalTensor() != nil || m.Format().Scale == "e8m0" { // else scales have the convention's own type
		for _, set := range sameDecode {
			if slices.Contains(set, m.Spec.Convention) {
				conventions = set
			}
		}
	}
	var out []kernels.Spec
	for _, name := range kernels.Methods(m.Spec.Format) {
		for _, c := range conventions {
			if slices.Contains(kernels.Conventions(m.Spec.Format), c) {
				out = append(out, kernels.Spec{Format: m.Spec.Format, Convention: c, Method: name})
			}
		}
	}
	return out
}

func ambiguous(specs []kernels.Spec) bool {
	return slices.ContainsFunc(specs, func(s kernels.Spec) bool { return s.Convention != specs[0].Convention })
}

func specText(s kernels.Spec) string {
	if s.Format == "" {
		return "none"
	}
	return fmt.Sprintf("%s by %v", variantOf(s), s.Convention)
}

// variantOf is a spec as a variant's name.
func variantOf(s kernels.Spec) string {
	if s.Method == "" || s.Method == kernels.Methods(s.Format)[0] {
		return s.Format
	}
	return s.Format + "+" + s.Method
}

// infer tries specs on a sample and gives the one that reproduces the largest
// share of it.
func (r *run) infer(ctx context.Context, jobs []*job, specs []kernels.Spec) (kernels.Spec, float64, error) {
	w := worker{run: r}
	best, top := kernels.Spec{}, -1.0
	for _, spec := range specs {
		var same, all int
		for _, j := range jobs {
			s, n, err := w.try(ctx, j, spec)
			if err != nil {
				return best, 0, err
			}
			same, all = same+s, all+n
		}
		if share := float64(same) / float64(max(all, 1)); share > top {
			best, top = spec, share
		}
		if same == all {
			break
		}
	}
	return best, max(top, 0), nil
}

// try makes the first rows of a module again and counts equal bytes. What
// cannot be read or made counts for nothing here; the check names it.
func (w *worker) try(ctx context.Context, j *job, spec kernels.Spec) (same, all int, err error) {
	m := j.module
	w.begin(j)
	multiple := m.RowMultiple()
	rows := min(m.Rows, max(sampleRows/multiple*multiple, multiple))
	if err := m.Read(ctx, &w.stored, 0, rows); err != nil {
		return 0, 0, ctx.Err()
	}
	data, err := w.source.rows(ctx, 0, rows)
	if err != nil {
		return 0, 0, err
	}
	spec.Global = w.stored.Global
	p, err := w.Set.Begin(spec, w.source.elem, m.Rows, m.Cols, 0)
	if err != nil {
		return 0, 0, nil
	}
	defer func() { _, _ = p.Finish() }() // rows that did not come are no error here
	w.make(p, rows)
	if err := p.Rows(data, &w.made); err != nil {
		return 0, 0, nil
	}
	for _, pair := range [][2][]byte{{w.made.Codes, w.stored.Codes}, {w.made.Scales, w.stored.Scales}, {w.made.Mins, w.stored.Mins}} {
		all += len(pair[0])
		same += equalBytes(pair[0], pair[1])
	}
	return same, all, nil
}

// equalBytes counts the positions at which two slices agree.
func equalBytes(a, b []byte) int {
	if len(a) != len(b) {
		return 0
	}
	if bytes.Equal(a, b) {
		return len(a)
	}
	n := 0
	for i := range a {
		if a[i] == b[i] {
			n++
		}
	}
	return n
}

// begin makes the reader one of the job's matrix.
func (w *worker) begin(j *job) {
	e, _ := element(j.tensor)
	w.source = matrixReader{ck: w.src, t: j.tensor, m: &j.matrix, elem: e, buf: w.source.buf, span: w.source.span}
}

// make gives the next rows of a pass somewhere to go.
func (w *worker) make(p *kernels.Pass, rows int) {
	n := p.Sizes(rows)
	w.made.Codes = grow(w.made.Codes, n.Codes)
	w.made.Scales = grow(w.made.Scales, n.Scales)
	w.made.Mins = grow(w.made.Mins, n.Mins)
}
