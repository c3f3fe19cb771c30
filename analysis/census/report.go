package census

// Report is the census of a checkpoint.
type Report struct {
	Path       string `json:"path"`
	Layout     string `json:"layout"`         // modelopt, compressed-tensors
	Convention string `json:"convention"`     // multiplier or divisor: how the stored scale acts
	Note       string `json:"note,omitempty"` // why there is nothing to count

	Totals
	Layers []Layer   `json:"layers"`
	Left   []LeftOut `json:"left_out,omitempty"` // what could not be compared
}

// Totals count groups of fused projections. A ratio is the other scale over the
// first one's, as multipliers, so that 1 is equal. Over nothing ratios are
// absent from the JSON and 0 here.
type Totals struct {
	Pairs     int     `json:"pairs"` // groups of gate and up, or of q, k and v
	Differing int     `json:"differing"`
	RatioMin  float64 `json:"ratio_min,omitempty"`  // over the pairs that differ
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
	Groups []Group `json:"groups"`
}

// Group is one set of matrices that a server fuses.
type Group struct {
	Expert  int      `json:"expert"`  // -1 for none
	Members []Member `json:"members"` // in the order in which they are stacked
	Differ  bool     `json:"differ"`
	Proof   []Proof  `json:"proof,omitempty"` // of each member after the first that differs, where a master was given
}

// Member is one matrix.
type Member struct {
	Name       string  `json:"name"`
	Projection string  `json:"projection"`
	Scale      float64 `json:"scale"` // second-level, as a multiplier
	Ratio      float64 `json:"ratio"` // over the first member's
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
	RoundingCost float64 `json:"rounding_cost"` // Compensated − Stored
}

// LeftOut is a module that could not be compared.
type LeftOut struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}
