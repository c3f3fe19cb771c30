package census

import (
	"fmt"
	"strings"
)

// Report is the census of a checkpoint.
type Report struct {
	Path       string `json:"path"`
	Layout     string `json:"layout"`         // modelopt, compressed-tensors
	Convention string `json:"convention"`     // multiplier or divisor: how the stored scale acts
	Note       string `json:"note,omitempty"` // why there is nothing to count

	Totals
	Joined int       `json:"joined,omitempty"` // matrices that are stored as one already, whose parts so share a scale
	Layers []Layer   `json:"layers"`
	Left   []LeftOut `json:"left_out,omitempty"` // what could not be compared

	Master string    `json:"master,omitempty"` // that the proof was made against
	Proof  *ProofSum `json:"proof,omitempty"`  // where a master was given and something differs
}

// Totals count groups of fused projections. A ratio is the other scale over the
// first one's, as multipliers, so that 1 is equal: an f32 quotient, which is 1
// only for scales that are equal. Over nothing ratios are
// absent from the JSON and 0 here.
type Totals struct {
	Pairs     int     `json:"pairs"` // groups of gate and up, or of q, k and v
	Differing int     `json:"differing"`
	RatioMin  float64 `json:"ratio_min,omitempty"`  // over the members that differ from the first of their group
	RatioMean float64 `json:"ratio_mean,omitempty"` // geometric mean over them
	RatioMax  float64 `json:"ratio_max,omitempty"`
}

// Layer is the census of one kind of block in one layer.
type Layer struct {
	Layer int    `json:"layer"`
	MTP   bool   `json:"mtp,omitempty"`
	Set   string `json:"set"`  // gate and up; q, k and v
	Kind  string `json:"kind"` // expert, shared_expert, mlp, attention
	Totals
	Groups []Group   `json:"groups"`
	Proof  *ProofSum `json:"proof,omitempty"`
}

// Group is one set of matrices that a server fuses.
type Group struct {
	Expert  int      `json:"expert"`  // -1 for none
	Members []Member `json:"members"` // in the order in which they are stacked
	Differ  bool     `json:"differ"`
	Proof   []Proof  `json:"proof,omitempty"` // of each member after the first that differs, where a master was given
	Fix     *Choice  `json:"fix,omitempty"`   // what would mend the group, where that was asked for
}

// Furthest is the ratio of the group that is furthest from 1.
func (g *Group) Furthest() float64 {
	worst := 1.0
	for i := range g.Members {
		if r := g.Members[i].Ratio; apart(r) > apart(worst) {
			worst = r
		}
	}
	return worst
}

// Member is one matrix.
type Member struct {
	Name       string  `json:"name"`
	Projection string  `json:"projection"`
	Scale      float64 `json:"scale"`         // second-level, as a multiplier
	Ratio      float64 `json:"ratio"`         // over the first member's
	Change     float64 `json:"served_change"` // relative l2 distance of what a server that uses the first scale decodes from what is stored, |1/ratio − 1|
	Tensor     string  `json:"tensor"`
	File       string  `json:"file"` // of the tensor, which holds the scale
}

// Proof is what a server that uses the first member's scale does to another
// member: relative l2 errors against the master.
type Proof struct {
	Member       string  `json:"member"`
	Served       float64 `json:"rel_l2_served"`      // decoded with the first member's scale
	Stored       float64 `json:"rel_l2_stored"`      // with its own
	Compensated  float64 `json:"rel_l2_compensated"` // with the first's, block scales times the ratio, rounded to E4M3 and clamped
	Clamped      int64   `json:"clamped"`            // block scales beyond 448 in that
	Underflowed  int64   `json:"underflowed"`        // block scales that became 0 in that though they were not
	Scales       int64   `json:"scales"`
	RoundingCost float64 `json:"rounding_cost"`       // Compensated − Stored
	NonFinite    int64   `json:"nonfinite,omitempty"` // weights of the master that are no numbers and were left out
}

// ProofSum is many proofs together: means of their errors, sums of their counts.
type ProofSum struct {
	Members     int     `json:"members"`
	Served      float64 `json:"rel_l2_served"`
	Stored      float64 `json:"rel_l2_stored"`
	Compensated float64 `json:"rel_l2_compensated"`
	ServedWorst float64 `json:"rel_l2_served_worst"`
	WorstMember string  `json:"worst_member"`
	Clamped     int64   `json:"clamped"`
	Underflowed int64   `json:"underflowed"`
	Scales      int64   `json:"scales"`
}

// add takes one proof in; the means are sums until close.
func (s *ProofSum) add(p *Proof) {
	s.Members++
	s.Served += p.Served
	s.Stored += p.Stored
	s.Compensated += p.Compensated
	s.Clamped += p.Clamped
	s.Underflowed += p.Underflowed
	s.Scales += p.Scales
	if s.WorstMember == "" || p.Served > s.ServedWorst {
		s.ServedWorst, s.WorstMember = p.Served, p.Member
	}
}

// close turns the sums into means; nil where nothing came.
func (s *ProofSum) close() *ProofSum {
	if s.Members == 0 {
		return nil
	}
	n := float64(s.Members)
	s.Served, s.Stored, s.Compensated = s.Served/n, s.Stored/n, s.Compensated/n
	return s
}

// Noun is what groups are called: pairs where each has two members, groups
// where some have more.
func (r *Report) Noun(n int) string {
	word := "pair"
	for i := range r.Layers {
		for k := range r.Layers[i].Groups {
			if len(r.Layers[i].Groups[k].Members) > 2 {
				word = "group"
			}
		}
	}
	if n != 1 {
		word += "s"
	}
	return word
}

// Sentence says in one sentence what a server that uses the first scale of each
// group does: by the proof, or without one against what is stored. "" where
// nothing differs.
func (r *Report) Sentence() string {
	if r.Differing == 0 {
		return ""
	}
	if r.Proof == nil {
		low, high, worst := r.served()
		return fmt.Sprintf("a server that uses the first scale decodes weights of %d of %d %s as %.4g to %.4g times what they are, rel_l2 %.4g against what is stored at worst",
			r.Differing, r.Pairs, r.Noun(r.Pairs), low, high, worst)
	}
	p, proven := r.Proof, 0
	for i := range r.Layers {
		for k := range r.Layers[i].Groups {
			if len(r.Layers[i].Groups[k].Proof) > 0 {
				proven++
			}
		}
	}
	clamps := "no scale clamps"
	if p.Clamped == 1 {
		clamps = "1 scale clamps"
	} else if p.Clamped > 1 {
		clamps = fmt.Sprintf("%d scales clamp", p.Clamped)
	}
	if p.Underflowed > 0 {
		clamps += fmt.Sprintf(", %d become 0", p.Underflowed)
	}
	return fmt.Sprintf("a server that uses the first scale turns rel_l2 %.3g into %.3g in %d of %d %s; compensation brings it to %.3g; %s",
		p.Stored, p.Served, proven, r.Pairs, r.Noun(r.Pairs), p.Compensated, clamps)
}

// served is the span of what a server that uses the first scale multiplies the
// other members by, and the largest relative change of that.
func (r *Report) served() (low, high, worst float64) {
	low, high = 1/r.RatioMax, 1/r.RatioMin
	for i := range r.Layers {
		for k := range r.Layers[i].Groups {
			for m := range r.Layers[i].Groups[k].Members {
				worst = max(worst, r.Layers[i].Groups[k].Members[m].Change)
			}
		}
	}
	return low, high, worst
}

// LeftOut is a module that could not be compared.
type LeftOut struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// words is a list as a sentence has it: a, b and c.
func words(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}
