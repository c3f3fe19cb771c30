package yardstick

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// sanity runs the reference once more on the first chunk, beside a control with
// one weight changed: the same bits must come out as in the measurement (or of the
// cache), the residual stream must grow, and the control must give other logits.
// It also looks whether candidates without any divergence have weights of their
// own.
func (m *measurement) sanity(ctx context.Context) (*Sanity, error) {
	m.meter.stage("checking", -1)
	s := &Sanity{NonFinite: m.where}
	if m.control.ids != nil {
		if err := m.again(ctx, s); err != nil {
			return nil, err
		}
	}
	for c, p := range m.setup.Candidates {
		if p.Floor || !m.silent(c) {
			continue
		}
		same, err := m.sameWeights(ctx, c)
		if err != nil {
			return nil, err
		}
		if same {
			s.Same = append(s.Same, c)
		}
	}
	return s, nil
}

// again fills in what the first chunk says. It is the same one where a measurement
// goes on, so that what is said of it is, too.
func (m *measurement) again(ctx context.Context, s *Sanity) error {
	ids := m.control.ids
	ref := m.parties[0]
	other, err := ref.own.Source()
	if err != nil {
		return err
	}
	changed := &nudged{Source: other, at: &nudge{}}
	sources := []model.Source{ref.src, changed}
	if m.first == nil { // the reference went through no pass: it does so twice
		again, err := ref.own.Source()
		if err != nil {
			return err
		}
		sources = append(sources, again)
	}
	o := model.Options{
		Set: m.set, Threads: m.threads, BF16: ref.bf16,
		NonFinite: func(int, int, *model.NonFiniteError) error { return nil },
	}
	m.bound(&o)
	var out []model.Hidden
	for _, src := range sources { // one after the other: they share nothing, and each has the memory of one
		h, err := model.Run(ctx, ref.spec, []model.Source{src}, [][]int32{ids}, o)
		if err != nil {
			return fmt.Errorf("%s: %w", ref.label, err)
		}
		out = append(out, h[0])
	}
	s.Norms = out[0].RMS
	before := m.first
	if before == nil {
		before = out[2].X
	}
	s.Deterministic = equalBits(out[0].X, before)
	s.Grows = len(s.Norms) > 1 && slices.Max(s.Norms[1:]) > s.Norms[0]
	if s.Moved, err = m.moved(ctx, out, changed); err != nil {
		return err
	}
	s.Message = s.say(changed)
	return nil
}

func (s *Sanity) say(c *nudged) string {
	return s.again() + "; " + s.grown() + fmt.Sprintf("; one changed weight (%s) moved %s", c.at.what, map[bool]string{true: "the logits", false: "no logit"}[s.Moved])
}

func (s *Sanity) again() string {
	if s.Deterministic {
		return "the first chunk again gave the same bits"
	}
	return "the first chunk again gave other bits"
}

func (s *Sanity) grown() string {
	return fmt.Sprintf("the residual stream goes from %.3g at the embeddings to %.3g at most and %.3g after the last layer",
		s.Norms[0], slices.Max(s.Norms), s.Norms[len(s.Norms)-1])
}

// moved says whether the control's last logits differ from the reference's.
func (m *measurement) moved(ctx context.Context, out []model.Hidden, changed model.Source) (bool, error) {
	ref := m.parties[0]
	rows := min(out[0].Rows, leastSlice)
	var logits [2][]float32
	for i, src := range []model.Source{ref.src, changed} {
		h, err := model.NewHead(ctx, ref.spec, src, model.Options{Set: m.set, Threads: m.threads, BF16: ref.bf16})
		if err != nil {
			return false, fmt.Errorf("%s: %w", ref.label, err)
		}
		x := out[i].X[(out[i].Rows-rows)*ref.spec.Width():]
		if logits[i], err = h.Logits(nil, x, rows); err != nil {
			return false, err
		}
		src.Release()
	}
	return !equalBits(logits[0], logits[1]), nil
}

func equalBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// nudged is a source with one weight changed by an eighth of itself: the largest
// of the first norm that is asked for.
type nudged struct {
	model.Source
	at *nudge
}

// nudge is which weight is changed, for all handles of a source.
type nudge struct {
	sync.Mutex
	place model.Place
	param string
	what  string
}

// Fork implements model.Forker.
func (n *nudged) Fork() model.Source {
	f, ok := n.Source.(model.Forker)
	if !ok {
		return nil
	}
	if s := f.Fork(); s != nil {
		return &nudged{s, n.at}
	}
	return nil
}

// Vector implements model.Source.
func (n *nudged) Vector(ctx context.Context, p model.Place, param string) ([]float32, error) {
	v, err := n.Source.Vector(ctx, p, param)
	if err != nil || p.Kind != topology.Norm || len(v) == 0 {
		return v, err
	}
	n.at.Lock()
	defer n.at.Unlock()
	if n.at.what != "" && (p != n.at.place || param != n.at.param) {
		return v, nil
	}
	v = slices.Clone(v)
	most := 0
	for i := range v {
		if math.Abs(float64(v[i])) > math.Abs(float64(v[most])) {
			most = i
		}
	}
	n.at.place, n.at.param = p, param
	n.at.what = fmt.Sprintf("%s, channel %d", p, most)
	v[most] *= 1.125
	if v[most] == 0 {
		v[most] = 0.125
	}
	return v, nil
}

// silent says whether all of a candidate's divergences are 0.
func (m *measurement) silent(c int) bool {
	any := false
	for _, k := range m.chunks {
		for _, r := range k.Rows[c] {
			if r.KL != 0 || r.Reverse != 0 {
				return false
			}
			any = true
		}
	}
	return any
}

// sameWeights compares every matrix of a candidate with the reference's, value for
// value, some rows at a time.
func (m *measurement) sameWeights(ctx context.Context, c int) (bool, error) {
	ref, cand := m.parties[0], m.parties[1+c]
	defer m.release()
	for _, p := range linears(ref) {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if !cand.src.Has(p, "weight") {
			if p.Kind == topology.Head && ref.spec.Tied != cand.spec.Tied { // its embedding is its head
				continue
			}
			return false, nil
		}
		diff, err := m.weightError(ctx, ref, cand, p)
		if err != nil {
			return false, err
		}
		if diff.error != 0 {
			return false, nil
		}
		m.release()
	}
	return true, nil
}

// energy are sums of squares: of a difference, and of what it is a difference to.
type energy struct{ error, of float64 }

// weightError is ‖Ŵ−W‖² and ‖W‖² of a matrix. Both sides are read by it and stay
// until they are released.
func (m *measurement) weightError(ctx context.Context, ref, cand *participant, p model.Place) (e energy, err error) {
	w, err := ref.src.Weight(ctx, p)
	if err != nil {
		return e, fmt.Errorf("%s: %w", ref.label, err)
	}
	q, err := cand.src.Weight(ctx, p)
	if err != nil {
		return e, fmt.Errorf("%s: %w", cand.label, err)
	}
	return m.weightDifference(ref, cand, p, w, q)
}

func (m *measurement) weightDifference(ref, cand *participant, p model.Place, w, q model.Weight) (e energy, err error) {
	if w.Rows != q.Rows && p.Kind != topology.Embedding && p.Kind != topology.Head || w.Cols != q.Cols {
		return e, fmt.Errorf("%s is %d×%d in %s and %d×%d in %s", p, w.Rows, w.Cols, ref.label, q.Rows, q.Cols, cand.label)
	}
	rows := min(w.Rows, q.Rows)
	step := max(1<<18/max(w.Cols, 1), 1)
	parts := make([]energy, (rows+step-1)/step)
	errs := make([]error, len(parts))
	inParallel(len(parts), m.threads, func(i int) {
		n := min(step, rows-i*step)
		a, b := make([]float32, n*w.Cols), make([]float32, n*w.Cols)
		if errs[i] = m.set.ExpandRows(a, w.Operand, i*step); errs[i] != nil {
			return
		}
		if errs[i] = m.set.ExpandRows(b, q.Operand, i*step); errs[i] != nil {
			return
		}
		parts[i] = difference(a, b)
	})
	for i := range parts {
		if errs[i] != nil {
			return e, errs[i]
		}
		e.error += parts[i].error
		e.of += parts[i].of
	}
	return e, nil
}

// difference is ‖b−a‖² and ‖a‖².
func difference(a, b []float32) (e energy) {
	for i, v := range a {
		d := float64(b[i]) - float64(v)
		e.error += d * d
		e.of += float64(v) * float64(v)
	}
	return e
}
