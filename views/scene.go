package views

import (
	"quantscope/kernels"
	"quantscope/sessions"
)

// Scene is what all panes look at together: the state, and where the person
// looks. The root owns it; panes change it in HandleKey and HandleMouse,
// through its methods, which bump Version when something visible changed.
type Scene struct {
	State *sessions.State
	Theme *Theme
	Mode  sessions.Mode

	Variant    int    // the one shown
	Baseline   int    // the one compared with
	Metric     Metric // what colours the map
	Projection string // shown projection; "" is all, a cell then shows the worst of its projections
	Cursor     int    // tensor ID, -1 where there is none
	Filter     Filter // hides what does not match
	LockScale  bool   // the colour scale spans all variants, so that they compare

	Detail  *Detail // of the tensor under the cursor; nil until it is there
	Audits  AuditWork
	KL      KLWork
	Gates   GatesWork
	Tier    TierWork
	Bias    BiasWork
	Version uint64

	trades   trades                 // of the state's calibrations
	figures  *figures               // of Metric, made when first asked for
	stamp    uint64                 // of the latest change of a column
	noted    int64                  // State.LastSeq of the batch that note took last
	reasons  map[[2]int]string      // by variant and tensor, from the log
	logSeen  int                    // events of the log that reasons holds
	logFirst int64                  // number of the first of them
	bucket   func(tensor int) []int // set by the map
}

// Detail is what the root fetched for one tensor.
type Detail struct {
	Tensor int
	Taps   []*kernels.Tap // by variant; nil where not measured or not there yet
	Errs   []string       // by variant; why a tap is not there
	Rows   [][]float64    // by variant: relative l2 error of each row; nil until asked for
	RowErr string         // why Rows cannot be had
}

// Touch says that something visible changed.
func (s *Scene) Touch() { s.Version++ }

// SetCursor moves the cursor to a tensor.
func (s *Scene) SetCursor(tensor int) {
	if tensor != s.Cursor && tensor >= 0 && tensor < len(s.State.Tensors) {
		s.Cursor = tensor
		s.Touch()
	}
}

// SetVariant shows another variant.
func (s *Scene) SetVariant(v int) {
	if v != s.Variant && v >= 0 && v < len(s.State.Variants) {
		s.Variant = v
		s.Touch()
	}
}

// SetBaseline compares with another variant.
func (s *Scene) SetBaseline(v int) {
	if v != s.Baseline && v >= 0 && v < len(s.State.Variants) {
		s.Baseline = v
		s.Touch()
	}
}

// SetMetric colours the map by another metric.
func (s *Scene) SetMetric(m Metric) {
	if m.Name != s.Metric.Name {
		s.Metric = m
		s.Touch()
	}
}

// SetProjection shows another projection.
func (s *Scene) SetProjection(p string) {
	if p != s.Projection {
		s.Projection = p
		s.Touch()
	}
}

// SetFilter hides what does not match.
func (s *Scene) SetFilter(f Filter) {
	if f.Text != s.Filter.Text {
		s.Filter = f
		s.Touch()
	}
}

// SetLockScale makes one colour scale span all variants.
func (s *Scene) SetLockScale(on bool) {
	if on != s.LockScale {
		s.LockScale = on
		s.Touch()
	}
}

// Record is what is known of a tensor under a variant.
func (s *Scene) Record(variant, tensor int) (sessions.Record, bool) {
	if variant < 0 || variant >= len(s.State.Records) || tensor < 0 || tensor >= len(s.State.Tensors) {
		return sessions.Record{}, false
	}
	r := s.State.Records[variant][tensor]
	return r, r.Seq != 0
}
