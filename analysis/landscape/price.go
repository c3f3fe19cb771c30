package landscape

// Pricing is what exemption lists would buy: for each way of choosing, the mean
// error against the size, from nothing exempted to everything.
type Pricing struct {
	Base    string  `json:"base"`    // the arm of what is not exempted
	Protect string  `json:"protect"` // the arm of what is: source, or a variant
	By      string  `json:"by"`      // the granularity of rel2 and amax lists and of the controls
	Tensors int     `json:"tensors"`
	LeftOut int     `json:"left_out"` // without finite figures under both arms; they keep Base and are in no sum
	NoAmax  int     `json:"no_amax"`  // without a largest magnitude: last in the list by amax
	Repeats int     `json:"repeats"`  // of the random control
	Seed    uint64  `json:"seed"`
	Curves  []Curve `json:"curves"` // lists first, then controls
	// Verdicts say of each list whether it beats the controls at equal bytes by
	// more than their spread, and where.
	Verdicts []string `json:"verdicts"`
	// Against has the figures of Verdicts, list by list.
	Against []Comparison `json:"against"`
}

// Curve is one way of choosing what is exempted.
type Curve struct {
	Name    string  `json:"name"` // rel2, amax, layer, projection; random, uniform, reversed
	Control bool    `json:"control"`
	Points  []Point `json:"points"` // by the length of the list, the first without exemptions, the last with all
}

// Point is one length of a list.
type Point struct {
	Exempted      int     `json:"exempted"` // tensors
	Bytes         int64   `json:"bytes"`
	BitsPerWeight float64 `json:"bits_per_weight"`
	MeanRel2      float64 `json:"mean_rel2"`
	// Low and High span the repeats of a control that has any (5th and 95th
	// percentile); else both are MeanRel2.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	Last string  `json:"last"` // what was added last: L5, down, a tensor
}

// Assignment is an answer to a budget. What is random has no part in it.
type Assignment struct {
	Arm    []int   `json:"-"` // by item
	Bytes  int64   `json:"bytes"`
	Budget int64   `json:"budget"`
	Bits   float64 `json:"bits_per_weight"`
	Error  float64 `json:"mean_rel2"`
	Bound  float64 `json:"bound"`  // no assignment within the budget has a lower Value
	Gap    float64 `json:"gap"`    // (Value − Bound)/Bound; 0 where it is the optimum, 1 where the bound is 0 and the value is not
	Exact  bool    `json:"exact"`  // proven optimal, to within Slack
	Counts []int   `json:"counts"` // items by arm

	Objective string  `json:"objective"`       // mean or weighted
	Value     float64 `json:"objective_value"` // what was minimised: Error, or Weighted
	Weighted  float64 `json:"weighted_rel2"`   // Σe²/Σw² over all items; NaN is never stored, 0 where the records have no sums
	// Slack bounds, in the unit of Value, what rounding can hide: figures are
	// rounded to integers before they are added (Solver says how).
	Slack float64 `json:"slack"`
	Fixed int     `json:"fixed"` // items without figures under any arm, which keep the source
	Split int     `json:"split"` // groups that servers fuse whose items are stored in different schemes
	// Notes are sentences on the answer that a person should read.
	Notes []string `json:"notes"`
}
