package landscape

// Pricing is what exemption lists would buy: for each way of choosing, the mean
// error against the size, from nothing exempted to everything.
type Pricing struct {
	Base    string  `json:"base"`    // the arm of what is not exempted
	Protect string  `json:"protect"` // the arm of what is: source, or a variant
	Tensors int     `json:"tensors"`
	LeftOut int     `json:"left_out"` // without finite figures under both arms; they keep Base and are in no sum
	Repeats int     `json:"repeats"`  // of the random control
	Seed    uint64  `json:"seed"`
	Curves  []Curve `json:"curves"` // lists first, then controls
	// Verdicts say of each list whether it beats the controls at equal bytes by
	// more than their spread, and where.
	Verdicts []string `json:"verdicts"`
}

// Curve is one way of choosing what is exempted.
type Curve struct {
	Name    string  `json:"name"` // rel2, amax, layer, projection; random, uniform, reversed
	Control bool    `json:"control"`
	Points  []Point `json:"points"` // by rising size, the first without exemptions
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

// Assignment is an answer to a budget.
type Assignment struct {
	Arm    []int   `json:"-"` // by item
	Bytes  int64   `json:"bytes"`
	Budget int64   `json:"budget"`
	Bits   float64 `json:"bits_per_weight"`
	Error  float64 `json:"mean_rel2"`
	Bound  float64 `json:"bound"`  // no assignment within the budget has a lower mean
	Gap    float64 `json:"gap"`    // (Error − Bound)/Bound; 0 where it is the optimum
	Exact  bool    `json:"exact"`  // proven optimal
	Counts []int   `json:"counts"` // items by arm
}
