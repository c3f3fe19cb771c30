package views

import (
	"math"
	"strings"

	"quantscope/sessions"
)

// figures are one metric of all records, by variant and tensor, kept in columns
// so that ranking and colouring need not walk over whole records.
type figures struct {
	metric  string
	tensors int
	seq     int64 // State.LastSeq that they hold
	columns []figureColumn
}

type figureColumn struct {
	values  []float64 // NaN where there is none
	states  []CellState
	version uint64 // grows with every change
}

// column is one variant's figures, brought up to date first.
func (s *Scene) column(variant int) *figureColumn {
	if variant < 0 || variant >= len(s.State.Records) {
		return &figureColumn{}
	}
	f := s.figures
	if f == nil || f.metric != s.Metric.Name || f.tensors != len(s.State.Tensors) || f.seq != s.State.LastSeq {
		s.rebuildFigures()
		f = s.figures
	}
	for v := len(f.columns); v < len(s.State.Records); v++ { // a variant was added
		f.columns = append(f.columns, figureColumn{})
		s.fillColumn(&f.columns[v], v)
	}
	return &f.columns[variant]
}

func (s *Scene) rebuildFigures() {
	f := s.figures
	if f == nil {
		f = &figures{}
		s.figures = f
	}
	f.metric, f.tensors, f.seq = s.Metric.Name, len(s.State.Tensors), s.State.LastSeq
	s.noted = s.State.LastSeq
	if len(f.columns) > len(s.State.Records) {
		f.columns = f.columns[:len(s.State.Records)]
	}
	for v := range f.columns {
		s.fillColumn(&f.columns[v], v)
	}
}

func (s *Scene) fillColumn(c *figureColumn, variant int) {
	n := len(s.State.Tensors)
	if len(c.values) != n {
		c.values, c.states = make([]float64, n), make([]CellState, n)
	}
	records, trades, calibrated := s.State.Records[variant], s.tradesOf(variant), s.calibrated(variant)
	for t := range n {
		c.values[t], c.states[t] = math.NaN(), NotYet
		if t < len(records) {
			if s.Metric.Calibrated() {
				c.values[t], c.states[t] = trades.figureIn(s.Metric, calibrated, &s.State.Tensors[t], t, &records[t])
				continue
			}
			c.values[t], c.states[t] = figureOf(s.Metric, &records[t])
		}
	}
	s.stamp++
	c.version = s.stamp
}

// figureOf is a record's value, NaN without one, and its state.
func figureOf(m Metric, r *sessions.Record) (float64, CellState) {
	switch {
	case r.Seq == 0:
		return math.NaN(), NotYet
	case r.Failed:
		return math.NaN(), Failed
	case m.Of == nil:
		return math.NaN(), NotFinite
	}
	v := m.Of(r)
	switch {
	case m.Name == "global" && r.GlobalScale == 0 && r.NonFinite == 0, m.codebook && r.Codebook == 0:
		return math.NaN(), Absent
	case r.NonFinite > 0 || !isNumber(v):
		return v, NotFinite
	case r.Deep > 0:
		return v, Clipped
	}
	return v, Measured
}

// figure is a tensor's value under a variant, whose record this is, and its state.
func (s *Scene) figure(m Metric, variant, tensor int, r *sessions.Record) (float64, CellState) {
	if !m.Calibrated() {
		return figureOf(m, r)
	}
	return s.tradesOf(variant).figureIn(m, s.calibrated(variant), &s.State.Tensors[tensor], tensor, r)
}

// figureIn is figure where it is known whether the variant is calibrated.
func (v *variantTrades) figureIn(m Metric, calibrated bool, t *sessions.Tensor, tensor int, r *sessions.Record) (float64, CellState) {
	tr := v.of(tensor)
	switch {
	case r.Failed:
		return math.NaN(), Failed
	case tr == nil && !calibrated && r.Seq != 0:
		return math.NaN(), Absent
	case tr == nil:
		return math.NaN(), NotYet
	case m.Name != metricTokens && fellBack(tr):
		return math.NaN(), FellBack
	}
	switch x := v.figure(m, t, tensor); {
	case !isNumber(x):
		return math.NaN(), Absent
	case m.Name == metricTokens && x == 0:
		return math.NaN(), Inactive
	case m.Name == metricTokens && belowRank(tr):
		return x, BelowRank
	default:
		return x, Measured
	}
}

// value is a metric of a tensor under a variant, whose record this is; NaN where
// it has none.
func (s *Scene) value(m Metric, variant, tensor int, r *sessions.Record) float64 {
	if !m.Calibrated() {
		return m.Of(r)
	}
	return s.tradesOf(variant).figure(m, &s.State.Tensors[tensor], tensor)
}

// note takes a batch that the state has just taken in. Every pane that reads
// figures calls it; it acts on the first call.
func (s *Scene) note(b *sessions.Batch) {
	f := s.figures
	if f == nil || f.seq == s.State.LastSeq && b.Reset == nil {
		return
	}
	begun := s.Metric.Calibrated() && len(b.CalibsBegun) > 0 // what has no figure may get one
	if b.Reset != nil || f.metric != s.Metric.Name || f.seq != s.noted || begun {
		f.seq = -1 // read anew when next asked for
		s.noted = s.State.LastSeq
		return
	}
	for _, r := range b.Records {
		s.noteFigure(r.Variant, r.Tensor)
	}
	if s.Metric.Calibrated() {
		for _, d := range b.CalibsDone {
			if d.Calibration < 0 || d.Calibration >= len(s.State.Calibrations) {
				continue
			}
			for i := range d.Unit.Matrices {
				s.noteFigure(s.State.Calibrations[d.Calibration].Setup.Variant, d.Unit.Matrices[i].Tensor)
			}
		}
	}
	f.seq, s.noted = s.State.LastSeq, s.State.LastSeq
}

// noteFigure reads one figure anew.
func (s *Scene) noteFigure(variant, tensor int) {
	f := s.figures
	if variant < 0 || variant >= len(f.columns) || tensor < 0 || tensor >= f.tensors {
		return // a new variant's column is filled when it is first read
	}
	c := &f.columns[variant]
	c.values[tensor], c.states[tensor] = s.figure(s.Metric, variant, tensor, &s.State.Records[variant][tensor])
	s.stamp++
	c.version = s.stamp
}

// Values are the figures of the chosen metric under a variant, by tensor; NaN
// where there is none. The slice belongs to the scene and is valid until the
// state changes.
func (s *Scene) Values(variant int) []float64 { return s.column(variant).values }

// States are what goes with Values.
func (s *Scene) States(variant int) []CellState { return s.column(variant).states }

// Shown says whether filter and projection leave a tensor in.
func (s *Scene) Shown(tensor int) bool {
	return s.Filter.Shows(tensor) && (s.Projection == "" || s.State.Tensors[tensor].Role.Projection == s.Projection)
}

// Badness orders figures of the chosen metric: the larger, the worse.
func (s *Scene) Badness(v float64) float64 { return s.Metric.loud(v) }

// Reason is why a tensor could not be measured, from the log, without the
// tensor's name.
func (s *Scene) Reason(variant, tensor int) string {
	if s.reasons == nil || s.logSeen > len(s.State.Log) || s.logSeen > 0 && s.State.Log[0].Seq != s.logFirst {
		s.reasons, s.logSeen = map[[2]int]string{}, 0
	}
	for _, e := range s.State.Log[s.logSeen:] {
		if e.Kind == sessions.EventFailed {
			s.reasons[[2]int{e.Variant, e.Tensor}] = e.Message
		}
	}
	if s.logSeen = len(s.State.Log); s.logSeen > 0 {
		s.logFirst = s.State.Log[0].Seq
	}
	if r := s.reasons[[2]int{variant, tensor}]; r != "" {
		// The pane names the tensor already.
		if tensor >= 0 && tensor < len(s.State.Tensors) {
			t := &s.State.Tensors[tensor]
			r = strings.TrimPrefix(strings.TrimPrefix(r, t.Name+": "), t.Source+": ")
		}
		return Clean(r)
	}
	return "failed; the log does not say why"
}

// Bucket lists the tensors that the map's cell of a tensor stands for, the
// tensor itself included; nil where it stands for one, or no map is drawn.
func (s *Scene) Bucket(tensor int) []int {
	if s.bucket == nil {
		return nil
	}
	return s.bucket(tensor)
}
