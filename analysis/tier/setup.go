package tier

// Setup is one run: which model, which precisions, which workload, which policy, at
// which budgets. It is stored with the session.
type Setup struct {
	Shape     Shape       `json:"shape"`
	Source    string      `json:"source"`          // identity of the checkpoint
	Model     string      `json:"model"`           // its label
	Hot       string      `json:"hot"`             // variant, or source: as the checkpoint has it
	Cold      string      `json:"cold"`            // variant
	Routed    string      `json:"routed"`          // whose forward pass chose the experts; "" of made-up workloads
	Workload  WorkloadRef `json:"workload"`        //
	Policy    Policy      `json:"policy"`          //
	Budgets   []Budget    `json:"budgets"`         // in the order in which they are run
	Trace     int         `json:"trace"`           // 1: windows, 2: moves too
	Seed      uint64      `json:"seed"`            // of the random control
	KernelSet string      `json:"kernel_set"`      //
	Program   string      `json:"program"`         //
	Notes     []string    `json:"notes,omitempty"` //
}

// WorkloadRef is a workload as a setup names it.
type WorkloadRef struct {
	Name   string  `json:"name"`
	Kind   string  `json:"kind"` // recorded, zipf, file
	SHA256 string  `json:"sha256"`
	Tokens int     `json:"tokens"`
	Phases []Phase `json:"phases,omitempty"`
}

// Phase is a stretch of a workload that has a name: a corpus.
type Phase struct {
	Name  string `json:"name"`
	First int    `json:"first"` // token
}

// Budget is how many bytes of experts may be hot. Share is what part of all experts,
// in the hot precision, that is.
type Budget struct {
	Label string  `json:"label"` // 25%, 1.5GiB
	Bytes int64   `json:"bytes"`
	Share float64 `json:"share"`
}

// Policy is how the hot set follows the workload.
type Policy struct {
	Window     int     `json:"window"`     // tokens
	Decay      float64 `json:"decay"`      // of the scores from window to window, 0 to below 1; 0: only the last one counts
	Hysteresis float64 `json:"hysteresis"` // a newcomer must be hotter by this share than what it replaces
	Stay       int     `json:"stay"`       // windows that a promoted expert stays at least
	Moves      int     `json:"moves"`      // promotions a window at most; 0: no limit
	PerLayer   bool    `json:"per_layer"`  // every layer has its share of the budget, else they compete
}

// DefaultPolicy is what is used where nothing is said.
func DefaultPolicy() Policy { return Policy{Window: 256, Decay: 0.5, Hysteresis: 0.25, Stay: 1} }

// Window is what happened in one window of a run at one budget: trace level 1.
type Window struct {
	Budget   int   `json:"budget"` // index in Setup.Budgets
	Index    int   `json:"index"`
	First    int   `json:"first"` // token
	Tokens   int   `json:"tokens"`
	Pairs    int64 `json:"pairs"` // tokens × layers × experts a token
	Hits     int64 `json:"hits"`  // of these, on experts that were hot when the token came
	Promoted int   `json:"promoted"`
	Evicted  int   `json:"evicted"`
	Churn    int64 `json:"churn"` // promoted and evicted so far, this window included
	Hot      int   `json:"hot"`   // experts, after the window's moves
	HotBytes int64 `json:"hot_bytes"`
	PerLayer []int `json:"per_layer"` // hot experts after the moves, by index in Shape.Layers
	// Held is how many moves hysteresis, Stay and Moves kept back: newcomers that were
	// hotter than what stayed.
	Held  int    `json:"held"`
	Moves []Move `json:"moves,omitempty"` // trace level 2
}

// HitShare is the share of routed pairs that hot experts served.
func (w *Window) HitShare() float64 { return share(w.Hits, w.Pairs) }

// Move is one expert that changed its precision at the end of a window.
type Move struct {
	Layer  int     `json:"layer"` // of the model
	Expert int     `json:"expert"`
	Up     bool    `json:"up"`    // promoted, else evicted
	Score  float64 `json:"score"` // share of its layer's tokens that chose it, decayed
}

// Result is a run at one budget.
type Result struct {
	Budget      int       `json:"budget"`
	Windows     int       `json:"windows"`
	Coverage    float64   `json:"coverage"`       // hot over layers × experts, at the end
	Hits        float64   `json:"hits"`           // share of pairs, of all windows
	Settled     float64   `json:"hits_settled"`   // of the second half of the windows
	Best        float64   `json:"hits_hindsight"` // what the best fixed map would have served, chosen with the whole workload known
	Promoted    int64     `json:"promoted"`
	Evicted     int64     `json:"evicted"`
	Churn       int64     `json:"churn"`
	ChurnWindow float64   `json:"churn_per_window"`
	Held        int64     `json:"held"`
	HotBytes    int64     `json:"hot_bytes"`     // of the hot experts at the end
	Replace     int64     `json:"replace_bytes"` // of all experts, where a hot expert has no cold copy
	Beside      int64     `json:"beside_bytes"`  // where it keeps one, so that eviction costs nothing
	PerLayer    []int     `json:"per_layer"`     // hot experts at the end
	Histogram   []int     `json:"histogram"`     // layers by number of hot experts, from 0
	ByPhase     []float64 `json:"hits_by_phase,omitempty"`
	Map         *Map      `json:"map"` // in force at the end
	Controls    []Control `json:"controls,omitempty"`
}

// Control is another map of as many bytes.
type Control struct {
	Name string  `json:"name"` // fixed, random, coldest
	Hits float64 `json:"hits"` // share of all pairs that it would have served
	Map  *Map    `json:"map"`
}

// Curve is what share of the workload fixed maps of any budget could have served,
// chosen with the whole workload known.
type Curve struct {
	Share []float64 `json:"share"` // of all experts' hot bytes, ascending from 0 to 1
	Hits  []float64 `json:"hits"`
	// Knee is the budget beyond which more brings less than the average: where the
	// curve is farthest above the diagonal. Rise is how far; where it is within Noise,
	// what even routing would show with so few tokens, there is no knee and Knee is -1.
	Knee  float64 `json:"knee"`
	Rise  float64 `json:"rise"`
	Noise float64 `json:"noise"`
}

// End ends a run.
type End struct {
	State   string    `json:"state"` // finished, cancelled, stopped
	Reason  string    `json:"reason,omitempty"`
	Results []*Result `json:"results,omitempty"` // by budget
	Curve   *Curve    `json:"curve,omitempty"`
	Verdict string    `json:"verdict,omitempty"`
}

func share(n, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
