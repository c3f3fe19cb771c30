package align

import (
	"cmp"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"quantscope/quant/topology"
)

// ErrNothing is wrapped by errors about checkpoints with nothing to compare.
var ErrNothing = errors.New("nothing to compare")

// Number is a figure that JSON may write as a word.
type Number float64

// MarshalJSON writes numbers that are not finite as strings.
func (n Number) MarshalJSON() ([]byte, error) {
	switch v := float64(n); {
	case v != v:
		return []byte(`"NaN"`), nil
	case math.IsInf(v, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(v, -1):
		return []byte(`"-Infinity"`), nil
	}
	return json.Marshal(float64(n))
}

// Result is what became of one tensor.
type Result struct {
	Tensor    string `json:"tensor"`    // as the master calls it
	Candidate string `json:"candidate"` // as the candidate does
	Kind      string `json:"kind"`      // attention, experts, norms, …
	Layer     int    `json:"layer"`
	Matrix    bool   `json:"matrix"`
	Rows      int    `json:"rows"`
	Cols      int    `json:"cols"`
	MasterIs  string `json:"master_scheme"`
	IsA       string `json:"candidate_scheme"`

	RelL2     Number `json:"rel_l2"` // after what is undone
	Cos       Number `json:"cos"`
	MaxAbs    Number `json:"max_abs_diff"`
	Different int64  `json:"different"` // elements with another value
	NonFinite int64  `json:"nonfinite"` // elements on either side, in no other figure but Different

	Undone   []string `json:"undone"`              // in words; empty where nothing is
	AsStored *Figures `json:"as_stored,omitempty"` // the figures without, where something is undone
}

// Figures are those of a tensor as it is stored.
type Figures struct {
	RelL2     Number `json:"rel_l2"`
	MaxAbs    Number `json:"max_abs_diff"`
	Different int64  `json:"different"`
}

// Total sums up the tensors of one kind.
type Total struct {
	Kind      string `json:"kind"`
	Tensors   int    `json:"tensors"`
	Equal     int    `json:"equal"`  // in every element
	Undone    int    `json:"undone"` // of which something was undone
	Elements  int64  `json:"elements"`
	Different int64  `json:"different"`
	NonFinite int64  `json:"nonfinite"`
	RelL2     Number `json:"rel_l2"`      // of all of them as one
	MeanRelL2 Number `json:"mean_rel_l2"` // the mean of the tensors' own
	WorstRel  Number `json:"worst_rel_l2"`
	Worst     string `json:"worst_tensor"`
	MaxAbs    Number `json:"max_abs_diff"`

	sum   stats
	means float64
}

// Report is what Compare finds.
type Report struct {
	Master            string `json:"master"`
	Candidate         string `json:"candidate"`
	MasterIdentity    string `json:"master_identity"`
	CandidateIdentity string `json:"candidate_identity"`

	Matrices Total   `json:"matrices"` // all of them
	Others   Total   `json:"others"`   // norms, biases and whatever else
	Kinds    []Total `json:"kinds"`

	Tensors       []Result  `json:"tensors"` // in the order of the master's files, layer by layer
	OnlyMaster    []string  `json:"only_master"`
	OnlyCandidate []string  `json:"only_candidate"`
	Unread        []string  `json:"unread"` // that cannot be decoded, on either side
	Findings      []Finding `json:"findings"`
}

func newReport(a, b *Side) *Report {
	r := &Report{
		Master: a.Path, Candidate: b.Path, MasterIdentity: a.Identity, CandidateIdentity: b.Identity,
		Kinds: []Total{}, Tensors: []Result{}, OnlyMaster: []string{}, OnlyCandidate: []string{}, Unread: []string{}, Findings: []Finding{},
	}
	for _, s := range []*Side{a, b} {
		r.Unread = append(r.Unread, s.Left...)
		r.Findings = append(r.Findings, s.Findings...)
	}
	r.Matrices.Kind, r.Others.Kind = "matrices", "others"
	return r
}

// kinds are what tables call them, in their order.
var kinds = []struct {
	kind topology.Kind
	name string
}{
	{topology.Attention, "attention"}, {topology.MLP, "mlp"}, {topology.Expert, "experts"}, {topology.SharedExpert, "shared experts"}, {topology.Router, "routers"},
	{topology.Embedding, "embedding"}, {topology.Head, "head"}, {topology.Norm, "norms"}, {topology.MTPExtra, "mtp"}, {topology.Vision, "vision"}, {topology.Mixing, "mixing"},
}

func kindName(r topology.Role) string {
	for _, k := range kinds {
		if k.kind == r.Kind {
			return k.name
		}
	}
	return "other"
}

// add takes over what was found in a layer.
func (r *Report) add(l *layer) {
	r.Findings = append(r.Findings, l.found...)
	for _, p := range l.pairs {
		f := &p.final
		x := Result{
			Tensor: p.a.Name, Candidate: p.b.Name, Kind: kindName(p.a.Role), Layer: p.a.Role.Layer, Matrix: p.a.Matrix, Rows: p.a.Rows, Cols: p.a.Cols, MasterIs: p.a.Scheme, IsA: p.b.Scheme,
			RelL2: Number(f.relL2()), Cos: Number(f.cos()), MaxAbs: Number(f.most), Different: f.different, NonFinite: f.nonFinite, Undone: []string{},
		}
		for _, t := range []*Tensor{p.a, p.b} {
			if t.Note != "" {
				x.Undone = append(x.Undone, t.Note)
			}
		}
		if len(p.undo.words) > 0 {
			x.Undone = append(x.Undone, p.undo.words...)
			x.AsStored = &Figures{Number(p.stored.relL2()), Number(p.stored.most), p.stored.different}
		}
		if p.a.Matrix && f.relL2() > Far {
			r.Findings = append(r.Findings, Finding{Unexplained, p.b.Name, "is far from the master's, and neither a scale of its inputs nor another order of its rows explains it"})
		}
		r.Tensors = append(r.Tensors, x)
		total := &r.Others
		if p.a.Matrix {
			total = &r.Matrices
		}
		total.add(&x, f)
		at := slices.IndexFunc(r.Kinds, func(t Total) bool { return t.Kind == x.Kind })
		if at < 0 {
			at = len(r.Kinds)
			r.Kinds = append(r.Kinds, Total{Kind: x.Kind})
		}
		r.Kinds[at].add(&x, f)
	}
}

// Far is the relative error from which a matrix is called unexplained: two bits a
// weight are nearer.
const Far = 0.7

func (t *Total) add(x *Result, f *stats) {
	t.Tensors++
	if x.Different == 0 {
		t.Equal++
	}
	if len(x.Undone) > 0 {
		t.Undone++
	}
	if t.Worst == "" || float64(x.RelL2) > float64(t.WorstRel) {
		t.Worst, t.WorstRel = x.Tensor, x.RelL2
	}
	t.sum.add(f)
	t.means += float64(x.RelL2)
}

// finish fills what is computed of sums, and orders kinds.
func (r *Report) finish() {
	for _, t := range append([]*Total{&r.Matrices, &r.Others}, pointers(r.Kinds)...) {
		t.Elements, t.Different, t.NonFinite = t.sum.n, t.sum.different, t.sum.nonFinite
		t.RelL2, t.MaxAbs = Number(t.sum.relL2()), Number(t.sum.most)
		if t.Tensors > 0 {
			t.MeanRelL2 = Number(t.means / float64(t.Tensors))
		}
	}
	rank := func(t Total) int {
		for i, k := range kinds {
			if k.name == t.Kind {
				return i
			}
		}
		return len(kinds)
	}
	slices.SortStableFunc(r.Kinds, func(a, b Total) int { return rank(a) - rank(b) })
}

func pointers(list []Total) []*Total {
	out := make([]*Total, len(list))
	for i := range list {
		out[i] = &list[i]
	}
	return out
}

// Worst lists the n matrices with the largest relative error, or other tensors that
// differ, the farthest first.
func (r *Report) Worst(n int) []Result {
	var list []Result
	for _, x := range r.Tensors {
		if x.Different > 0 || x.NonFinite > 0 {
			list = append(list, x)
		}
	}
	slices.SortStableFunc(list, func(a, b Result) int {
		return cmp.Compare(order(b), order(a))
	})
	return list[:min(n, len(list))]
}

// order puts what has no figure first.
func order(x Result) float64 {
	if v := float64(x.RelL2); v == v {
		return v
	}
	return math.Inf(1)
}
