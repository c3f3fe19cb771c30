package landscape

// Report is what the figures of one arm look like, role by role.
type Report struct {
	Variant string  `json:"variant"`
	Groups  []Group `json:"groups"` // routed experts, attention, MLP, …: those there are, the largest first
}

// Group is the landscape of the matrices of one role. Means and shares are over
// measured tensors with finite figures; the others are counted.
type Group struct {
	Role    string `json:"role"` // routed experts, attention, dense MLP, shared experts, …
	Tensors int    `json:"tensors"`
	Pending int    `json:"pending"`
	Failed  int    `json:"failed"`
	LeftOut int    `json:"left_out"` // measured, and a figure is not finite

	CosMin    Value `json:"cos_min"`
	CosMax    Value `json:"cos_max"`
	MeanRel2  Value `json:"mean_rel2"`
	MeanRelL2 Value `json:"mean_rel_l2"`

	WorstOverMean Value  `json:"worst_over_mean"` // of rel_l2
	Worst         int    `json:"-"`               // index of the item, -1 for none
	WorstTensor   string `json:"worst_tensor"`
	WorstCount    int    `json:"worst_count"` // 1 % of the tensors, at least one
	WorstShare    Value  `json:"worst_share"` // of Σrel2, in the worst 1 %

	Decomposition Decomposition `json:"decomposition"`
	Anova         Anova         `json:"anova"`
	Neighbours    Neighbours    `json:"neighbours"`
	Selectors     []Selector    `json:"selectors"`
	Layers        []Level       `json:"layers"`
	Experts       []Level       `json:"experts"`
	Projections   []Level       `json:"projections"`
	Tail          Tail          `json:"tail"`
	Clamps        Clamps        `json:"clamps"`
	Verdict       Verdict       `json:"verdict"`
}

// Decomposition shares the variance of rel2 out over an additive model of layer,
// expert index and projection. In a balanced design the three and the remainder
// add up to 1; Confounded is what cannot be told apart otherwise.
type Decomposition struct {
	Layer      Value `json:"layer"`
	Expert     Value `json:"expert"`
	Projection Value `json:"projection"`
	Confounded Value `json:"confounded"`
	Remainder  Value `json:"remainder"`

	// What the three would have in the mean of pure noise: a factor of many levels
	// takes a part of any variance. 0, and not in the JSON, where the factor has no share.
	LayerByChance      float64 `json:"layer_by_chance,omitempty"`
	ExpertByChance     float64 `json:"expert_by_chance,omitempty"`
	ProjectionByChance float64 `json:"projection_by_chance,omitempty"`
}

// Anova is the one-way analysis of variance of rel2 over the expert index.
type Anova struct {
	Why          string `json:"why,omitempty"` // why there is none
	Experts      int    `json:"experts"`
	DFBetween    int    `json:"df_between"`
	DFWithin     int    `json:"df_within"`
	F            Value  `json:"f"`
	P            Value  `json:"p"`
	Log10P       Value  `json:"log10_p"`
	OverExpected Value  `json:"over_expected"` // variance of the experts' means over what the null expects of it
	Omega2       Value  `json:"omega2"`        // effect size, with its interval
	KruskalH     Value  `json:"kruskal_h"`
	KruskalP     Value  `json:"kruskal_p"`
	// AdjustedF and AdjustedP are of the same test after the means of each layer
	// and projection were taken out, so that their differences do not hide it.
	AdjustedF Value `json:"adjusted_f"`
	AdjustedP Value `json:"adjusted_p"`
}

// Neighbours is the Spearman correlation of the experts' ranks (by mean rel2
// over projections) between layers that follow one another.
type Neighbours struct {
	Why   string     `json:"why,omitempty"`
	Mean  Value      `json:"mean"`
	Pairs []RankPair `json:"pairs"`
}

// RankPair is one pair of layers.
type RankPair struct {
	A   string `json:"a"` // L3
	B   string `json:"b"`
	N   int    `json:"n"` // experts in both
	Rho Value  `json:"rho"`
	P   Value  `json:"p"`
}

// Selector says how well a cheap figure of the source finds the oracle's worst
// list, which is by rel2.
type Selector struct {
	Name     string `json:"name"`     // amax, std, kurtosis
	K        int    `json:"k"`        // length of both lists
	Hits     int    `json:"hits"`     // in both
	Overlap  Value  `json:"overlap"`  // hits over k
	Expected Value  `json:"expected"` // the overlap by chance, k/n
	P        Value  `json:"p"`        // of as many hits or more by chance (hypergeometric)
	Rho      Value  `json:"rho"`      // Spearman correlation with rel2 over all tensors
}

// LevelKind says what is different about a layer, an expert index or a
// projection.
type LevelKind string

// Kinds of levels.
const (
	LevelEven  LevelKind = "even"  // as the others
	LevelShift LevelKind = "shift" // most of its tensors are off by about the same factor
	LevelTail  LevelKind = "tail"  // few of its tensors are off
)

// Level is how the tensors of one layer, expert index or projection stand to
// the others.
type Level struct {
	Name    string    `json:"name"` // L5, M46 for an MTP layer, expert 17, down
	N       int       `json:"n"`
	Mean    Value     `json:"mean_rel2"`
	Ratio   Value     `json:"ratio"` // of its rel2 to that of the median one of the same kind (of a level that differs: of those that do not), other factors taken out
	P       Value     `json:"p"`     // that it is 1, adjusted for all levels of the same kind
	Kind    LevelKind `json:"kind"`
	Tail    int       `json:"tail"` // of its tensors, in Tail
	Members []int     `json:"-"`    // indices of its items
}

// Tail are tensors that stand out of what layer, expert and projection explain.
type Tail struct {
	Why     string   `json:"why,omitempty"`
	Count   int      `json:"count"`
	Share   Value    `json:"share"`   // of Σrel2, in them
	Ratio   Value    `json:"ratio"`   // of their rel2 to what was expected, geometric mean
	P       Value    `json:"p"`       // smallest of theirs, adjusted for all tensors
	Tensors []string `json:"tensors"` // the worst first
	Items   []int    `json:"-"`
	Better  int      `json:"better"` // tensors that stand out with less error; they are in nothing above
}

// Clamps says how many block scales were clamped, and where.
type Clamps struct {
	High   int64        `json:"high"`
	Low    int64        `json:"low"`
	Blocks int64        `json:"blocks"`
	Places []ClampPlace `json:"places"` // layers × projections with any, the most first
}

// ClampPlace is a layer and a projection.
type ClampPlace struct {
	Layer      string `json:"layer"`
	Projection string `json:"projection"`
	Tensors    int    `json:"tensors"` // with a clamped scale
	High       int64  `json:"high"`
	Low        int64  `json:"low"`
	Blocks     int64  `json:"blocks"`
}

// VerdictKind is a verdict in a word.
type VerdictKind string

// Verdicts.
const (
	Flat       VerdictKind = "flat"       // nothing was found that stands out
	Structured VerdictKind = "structured" // layers, experts, projections or a tail stand out
	Unknown    VerdictKind = "unknown"    // too little was measured to say
)

// Verdict is the landscape in one sentence with its figures.
type Verdict struct {
	Kind     VerdictKind `json:"kind"`
	Sentence string      `json:"sentence"`
	Effects  []Effect    `json:"effects"` // what was found, the largest first
	// Pays says whether an exemption list, of the worst 1 % or of what was found,
	// could remove PaysFactor times its share of the bytes or more.
	Pays bool `json:"pays"`
	// What exempting all that was found worse than the rest could remove at most:
	// its share of Σrel2, against its share of the bytes.
	ErrorShare Value `json:"error_share"`
	ByteShare  Value `json:"byte_share"`
}

// Effect is one thing that stands out.
type Effect struct {
	Kind  string `json:"kind"` // layer, expert, projection, tail
	Name  string `json:"name"` // L5; expert 17; down; 3 of 240 tensors
	Ratio Value  `json:"ratio"`
	P     Value  `json:"p"`
}
