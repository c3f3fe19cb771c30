package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/layout"
	"quantscope/quant/method"
)

// found is how the modules of one family were made.
type found struct {
	spec       kernels.Spec // without Global
	known      bool
	variant    string // "" where it is not known
	calibrated bool   // by what went into it, so that nothing makes it again
}

// family groups modules that were made alike: one format in one way of storing
// it.
func family(m *layout.Module) string { return m.Method + " " + m.Spec.Format }

// Inference looks at this many modules of a family, and at this many rows of
// each. A method is taken for the one that made them when half of the modules
// come out equal, or all but this share of their bytes: a fault in a few must not
// hide it, and another rounding, which moves a few codes everywhere, must not
// pass for it.
const (
	sampleModules = 4
	sampleRows    = 128
	isolated      = 0.001
)

// method finds out how the quantized tensors were made: as the caller says, as
// the output's config says, or by trying what is known on a sample.
func (r *run) method(ctx context.Context) error {
	r.specs = map[string]found{}
	said := r.assign()
	named, err := r.named()
	if err != nil {
		return err
	}
	samples := map[string][]*job{}
	var families []string
	for i := range r.jobs {
		j := &r.jobs[i]
		if j.module == nil {
			continue
		}
		k := j.family
		if samples[k] == nil {
			families = append(families, k)
		}
		samples[k] = append(samples[k], j)
	}
	if v := named.variant; named.from == "options" && len(families) > 0 && !slices.ContainsFunc(families, func(k string) bool { return fits(v.Scheme, samples[k][0].module) }) {
		return fmt.Errorf("variant %s: nothing in %s is stored as %s: %w", v.Name, r.rep.Output, v.Scheme, ErrVariant)
	}
	for _, k := range families {
		jobs := spread(samples[k], sampleModules)
		st, stated := said[k]
		if !stated && !r.mixture() && named.variant.Name != "" && fits(named.variant.Scheme, jobs[0].module) {
			st, stated = named, true
		}
		specs := r.candidates(jobs[0].module)
		if st.variant.NamesBook() { // no list has these
			specs = byMethod(specs, st.variant)
		}
		if stated && st.variant.Calibrated() {
			f := r.calibrated(st, jobs)
			r.specs[k] = f
			r.rep.Variant, r.rep.Convention = addWord(r.rep.Variant, f.variant), addWord(r.rep.Convention, f.spec.Convention.String())
			continue
		}
		if stated {
			specs = slices.DeleteFunc(specs, func(s kernels.Spec) bool { return !st.states(s) })
		}
		best, t, err := r.infer(ctx, jobs, specs)
		if err != nil {
			return err
		}
		f := found{spec: best, known: len(specs) > 0 && (stated || 2*t.equal >= len(jobs) || t.share() >= 1-isolated)}
		switch {
		case !f.known:
			r.note("%s: nothing that is known here makes it of the source (the nearest, %s, %.4g %% of a sample), so that its codes were held against the nearest ones only", k, specText(best), 100*t.share())
		case stated:
			f.variant, r.rep.From = st.variant.Name, st.from
		default:
			f.variant, r.rep.From = variantOf(best), "found"
		}
		if f.known && ambiguous(specs) {
			r.note("%s: neither layout nor config says whose arithmetic made it; that of %v does", k, best.Convention)
		}
		r.specs[k] = f
		r.rep.Variant = addWord(r.rep.Variant, f.variant)
		if f.known {
			r.rep.Convention = addWord(r.rep.Convention, best.Convention.String())
		}
	}
	return r.chooseRecords()
}

// addWord adds a word to a list of words with commas, once.
func addWord(list, word string) string {
	switch {
	case word == "" || slices.Contains(strings.Split(list, ","), word):
		return list
	case list == "":
		return word
	}
	return list + "," + word
}

// chooseRecords decides whose records of the session are compared.
func (r *run) chooseRecords() error {
	if r.Session == nil {
		return nil
	}
	has := r.Session.Variants()
	r.recorded = r.rep.Variant
	if r.recodedAlone() {
		return nil // whose records are seen from what makes them
	}
	if r.mixture() {
		r.recorded = r.layout.Receipt.Variant
	}
	if len(has) == 1 && (r.recorded == "" || strings.Contains(r.recorded, ",")) {
		r.recorded = has[0]
	}
	if !slices.Contains(has, r.recorded) {
		what := r.recorded
		if what == "" {
			what = "the variant that made the output, which nothing names,"
		}
		return fmt.Errorf("%w: has no records of %s (it has: %s)", ErrSession, what, strings.Join(has, ", "))
	}
	r.recipes()
	return nil
}

// named is the variant that is stated, and who states it; without one its name
// is "".
func (r *run) named() (statement, error) {
	name, from := r.Variant, "options"
	if r.mixture() {
		return statement{}, nil
	}
	if name == "" {
		name, from = r.layout.Receipt.Variant, "config"
	}
	if v, ok := r.beforeConverted(); name == "" && ok {
		return v, nil
	}
	if name == "" && r.Session != nil && len(r.Session.Variants()) == 1 {
		name, from = r.Session.Variants()[0], "session"
	}
	if name == "" {
		return statement{}, nil
	}
	v, err := method.Parse(name)
	if err != nil && from != "options" {
		if from == "session" && strings.HasPrefix(name, "recipe:") { // of several ways: which one is seen from each module
			return statement{}, nil
		}
		r.note("the %s names the variant %q, which is not known here", from, name)
		return statement{}, nil
	}
	return statement{v, from, r.layout.Receipt.Convention}, err
}

// states says whether a way of making modules is what was stated: the variant's
// method, and the convention where the config has one.
func (st *statement) states(s kernels.Spec) bool {
	return s.Format == st.variant.Scheme && s.Method == st.variant.Spec.Method && (st.convention == "" || st.convention == s.Convention.String())
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

// candidates are the ways of making a module that the kernels know, the most
// usual first: every method, by the convention that the type of the scales shows,
// or by each of those that store alike.
func (r *run) candidates(m *layout.Module) []kernels.Spec {
	if rows, cols := m.Tile(); rows > 0 && (rows != m.Format().Group || cols != m.Format().Group) {
		return nil // no quantizer has such tiles
	}
	conventions := []kernels.Convention{m.Spec.Convention}
	switch {
	case m.Method == "": // FP8 with f32 scales and no config
		conventions = []kernels.Convention{kernels.ModelOpt, kernels.CT32}
	case m.Method == layout.MXFP4:
		conventions = []kernels.Convention{kernels.CT32, kernels.CT, kernels.ModelOpt}
	case m.Spec.Format == "code2-mxfp4":
		conventions = kernels.Conventions(m.Spec.Format)
	case m.Spec.Format == "nvfp4" && m.Method == layout.ModelOpt, m.BookTensor() != nil && m.Spec.Convention == kernels.ModelOpt:
		conventions = []kernels.Convention{kernels.ModelOpt, kernels.ModelOptStatic}
	case m.FP4(), m.BookTensor() != nil:
		conventions = []kernels.Convention{kernels.CT, kernels.CT32}
	}
	conventions = append(conventions, convertedFrom(r.layout, m)...)
	formats := []string{m.Spec.Format}
	switch m.Spec.Format { // whose codes can be those of two bits
	case "nvfp4":
		formats = append(formats, "code2")
	case "mxfp4":
		formats = append(formats, "code2-mxfp4")
	}
	var out []kernels.Spec
	for _, f := range formats {
		for _, name := range kernels.Methods(f) {
			for _, c := range conventions {
				if slices.Contains(kernels.Conventions(f), c) {
					out = append(out, kernels.Spec{Format: f, Convention: c, Method: name})
				}
			}
		}
	}
	return out
}

// byMethod are specs of a variant's format, each once, with its method.
func byMethod(specs []kernels.Spec, v method.Variant) []kernels.Spec {
	var out []kernels.Spec
	for _, s := range specs {
		if s.Method = v.Spec.Method; s.Format == v.Scheme && !slices.Contains(out, s) {
			out = append(out, s)
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

// trial is how much of a sample a spec makes again.
type trial struct {
	same, all int // bytes
	equal     int // modules whose bytes are all the same
}

func (t trial) share() float64 { return float64(t.same) / float64(max(t.all, 1)) }

// infer tries specs on a sample and gives the one that reproduces the largest
// share of it; of those that do equally well the one that gives more of the
// second-level scales.
func (r *run) infer(ctx context.Context, jobs []*job, specs []kernels.Spec) (kernels.Spec, trial, error) {
	w := worker{run: r}
	var best []kernels.Spec
	var top trial
	for _, spec := range specs {
		var t trial
		for _, j := range jobs {
			same, all, err := w.try(ctx, j, spec)
			if err != nil {
				return kernels.Spec{}, t, err
			}
			t.same, t.all = t.same+same, t.all+all
			if same == all && all > 0 {
				t.equal++
			}
		}
		if t.share() > top.share() {
			best, top = nil, t
		}
		if t.same > 0 && t.share() == top.share() {
			best = append(best, spec)
		}
		if t.same == t.all && !ambiguous(specs) {
			break
		}
	}
	switch len(best) {
	case 0:
		return kernels.Spec{}, top, nil
	case 1:
		return best[0], top, nil
	}
	spec, err := r.byGlobals(ctx, jobs, best)
	return spec, top, err
}

// byGlobals picks the spec that gives the most second-level scales of a sample,
// from the matrices themselves or from those that a server fuses with them.
func (r *run) byGlobals(ctx context.Context, jobs []*job, specs []kernels.Spec) (kernels.Spec, error) {
	votes := make([]int, len(specs))
	groups := r.sharedGroups()
	for _, j := range jobs {
		if j.module.GlobalTensor() == nil {
			continue
		}
		global, err := j.module.Global(ctx)
		if err != nil {
			continue // the check names it
		}
		own, err := r.absMax(ctx, &j.matrix)
		if err != nil {
			return specs[0], err
		}
		shared := own
		for _, k := range groups[j.matrix.Name] {
			a, err := r.absMax(ctx, &r.model.Matrices[k])
			if err != nil {
				return specs[0], err
			}
			shared = max(shared, a)
		}
		for i, s := range specs {
			if r.givesGlobal(j.module, s, own, global) || r.givesGlobal(j.module, s, shared, global) {
				votes[i]++
			}
		}
	}
	return specs[slices.Index(votes, slices.Max(votes))], nil
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
	amax, known := float32(0), false
	if spec.Convention == kernels.ModelOptStatic || len(convertedFrom(w.layout, m)) > 0 {
		if amax, known, err = w.amaxOf(ctx, j, spec, w.stored.Global); err != nil {
			return 0, 0, err
		}
	}
	if !known {
		spec.Global = globalOf(m, spec, w.stored.Global)
	}
	if isBook(spec.Format) && m.FP4() && bits.OnesCount16(usedCodes(w.stored.Codes)) > kernels.CodebookValues {
		return 0, len(w.stored.Codes), nil
	}
	p, err := w.beginPass(ctx, j, spec, amax)
	if errors.Is(err, errSpec) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer func() { _, _ = p.Finish() }()     // rows that did not come are no error here
	data, err := w.source.rows(ctx, 0, rows) // after a codebook was chosen from all of them
	if err != nil {
		return 0, 0, err
	}
	w.make(p.Pass, rows)
	if err := p.Rows(data, &w.made); err != nil {
		return 0, 0, nil
	}
	t := newTally(j)
	made, err := w.likeStored(t, &w.made, rows, p.book)
	if err != nil {
		return 0, 0, err
	}
	if t.bookDiff != "" {
		return 0, len(made.Codes), nil
	}
	for _, pair := range [][2][]byte{{made.Codes, w.stored.Codes}, {made.Scales, w.stored.Scales}, {made.Mins, w.stored.Mins}} {
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
