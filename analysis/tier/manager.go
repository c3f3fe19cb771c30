package tier

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrPolicy is wrapped by errors about a policy that cannot be meant.
var ErrPolicy = errors.New("policy")

// Check is an error where a policy claims what cannot be.
func (p *Policy) Check() error {
	switch {
	case p.Window < 1:
		return fmt.Errorf("tier: %w: a window of %d tokens", ErrPolicy, p.Window)
	case !(p.Decay >= 0 && p.Decay < 1):
		return fmt.Errorf("tier: %w: decay %v (want 0 to below 1)", ErrPolicy, p.Decay)
	case !(p.Hysteresis >= 0) || math.IsInf(p.Hysteresis, 0):
		return fmt.Errorf("tier: %w: hysteresis %v (want 0 or more)", ErrPolicy, p.Hysteresis)
	case p.Stay < 0:
		return fmt.Errorf("tier: %w: %d windows that a promoted expert stays", ErrPolicy, p.Stay)
	case p.Moves < 0:
		return fmt.Errorf("tier: %w: %d promotions a window", ErrPolicy, p.Moves)
	}
	return nil
}

// Manager decides which experts are hot. It has one user.
//
// The score of an expert is the share of its layer's tokens that chose it, averaged
// over the windows with weights that fall by Decay. At the end of a window the hottest
// cold expert takes the place of the coldest hot ones as long as its score is above
// theirs by Hysteresis, most score a byte first. Bytes that are free are filled in any
// case. Before the first window nothing is known: the budget is filled with the first
// experts of each layer, layers in turn.
type Manager struct {
	shape  Shape
	policy Policy
	pools  []pool

	score  []float64 // averages, by layer·Experts+expert, before they are divided by weight
	weight float64   // Σ of what the averages are over
	count  []int64   // of the window
	hot    []bool
	since  []int // window that it was promoted at the end of; -1: it was there from the start
	window int
	free   []int64 // bytes, by pool
	order  []int   // memory of end
}

// pool are experts that share a budget: those from first on.
type pool struct {
	first, n int
	budget   int64
}

// pools are who shares a budget of bytes under a policy.
func pools(s *Shape, p *Policy, budget int64) []pool {
	if !p.PerLayer {
		return []pool{{0, s.Total(), budget}}
	}
	out := make([]pool, len(s.Layers))
	all := s.AllHot()
	for l := range s.Layers {
		layer := s.Hot[l] * int64(s.Experts)
		b := layer
		if budget < all {
			b = int64(float64(budget) * (float64(layer) / float64(all)))
		}
		out[l] = pool{l * s.Experts, s.Experts, min(b, layer)}
	}
	return out
}

// NewManager makes one with a budget of bytes for hot experts.
func NewManager(s Shape, p Policy, budget int64) (*Manager, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	if budget < 0 {
		return nil, fmt.Errorf("tier: %w of %d bytes", ErrBudget, budget)
	}
	n := s.Total()
	m := &Manager{shape: s, policy: p, score: make([]float64, n), count: make([]int64, n), hot: make([]bool, n), since: make([]int, n), order: make([]int, 0, n)}
	m.pools = pools(&s, &p, budget)
	m.free = make([]int64, len(m.pools))
	for i, p := range m.pools {
		m.free[i] = p.budget
		for e := range s.Experts {
			for l := p.first / s.Experts; l < (p.first+p.n)/s.Experts; l++ {
				if s.Hot[l] <= m.free[i] {
					m.free[i] -= s.Hot[l]
					at := l*s.Experts + e
					m.hot[at], m.since[at] = true, -1
				}
			}
		}
	}
	return m, nil
}

// Choose takes in the experts that one token chose in a layer, by its index in
// Shape.Layers, and says how many of them are hot.
func (m *Manager) Choose(layer int, experts []uint16) (hits int) {
	at := layer * m.shape.Experts
	for _, e := range experts {
		m.count[at+int(e)]++
		if m.hot[at+int(e)] {
			hits++
		}
	}
	return hits
}

// PrecisionOf is what an expert is stored in now; not ok where there is none.
func (m *Manager) PrecisionOf(layer, expert int) (Precision, bool) {
	l, ok := slices.BinarySearch(m.shape.Layers, layer)
	if !ok || expert < 0 || expert >= m.shape.Experts {
		return "", false
	}
	if m.hot[l*m.shape.Experts+expert] {
		return Hot, true
	}
	return Cold, true
}

// size is what an expert takes where it is hot.
func (m *Manager) size(at int) int64 { return m.shape.Hot[at/m.shape.Experts] }

// density is score a byte: what is kept first.
func (m *Manager) density(at int) float64 { return m.score[at] / float64(m.size(at)) }

// End ends a window of so many tokens: scores are brought up to date, and experts
// moved. held is how many more would be hot by score alone.
func (m *Manager) End(tokens int) (moves []Move, held int) {
	if tokens > 0 {
		d := m.policy.Decay
		m.weight = d*m.weight + (1 - d)
		for i, n := range m.count {
			m.score[i] = d*m.score[i] + float64((1-d)*float64(n)/float64(tokens))
		}
	}
	clear(m.count)
	most := m.policy.Moves
	if most == 0 {
		most = math.MaxInt
	}
	for i := range m.pools {
		var some []Move
		some, most = m.move(i, most)
		moves = append(moves, some...)
		held += m.held(i)
	}
	m.window++
	slices.SortFunc(moves, func(a, b Move) int {
		return cmp.Or(cmp.Compare(a.Layer, b.Layer), cmp.Compare(a.Expert, b.Expert))
	})
	return moves, held
}

// newcomers are the cold experts of a pool, most score a byte first; victims the hot
// ones that have stayed long enough, least first. Of equals the earlier one is hotter.
func (m *Manager) newcomers(p pool) []int {
	return m.sorted(p, func(at int) bool { return !m.hot[at] }, func(a, b int) int {
		return cmp.Or(cmp.Compare(m.density(b), m.density(a)), cmp.Compare(a, b))
	})
}

func (m *Manager) victims(p pool) []int {
	stayed := func(at int) bool { return m.hot[at] && (m.since[at] < 0 || m.window-m.since[at] >= m.policy.Stay) }
	return m.sorted(p, stayed, func(a, b int) int {
		return cmp.Or(cmp.Compare(m.density(a), m.density(b)), cmp.Compare(b, a))
	})
}

func (m *Manager) sorted(p pool, take func(at int) bool, less func(a, b int) int) []int {
	var out []int
	for at := p.first; at < p.first+p.n; at++ {
		if take(at) {
			out = append(out, at)
		}
	}
	slices.SortFunc(out, less)
	return out
}

// move moves experts of a pool, with most promotions left, and says how many are left
// then.
func (m *Manager) move(i, most int) ([]Move, int) {
	p := m.pools[i]
	if p.budget == 0 || m.free[i] < 0 {
		return nil, most
	}
	var moves []Move
	victims := m.victims(p)
	for _, at := range m.newcomers(p) {
		if most == 0 {
			break
		}
		size := m.size(at)
		gone, room, lost := 0, m.free[i], 0.0
		for room < size && gone < len(victims) {
			room += m.size(victims[gone])
			lost += m.score[victims[gone]]
			gone++
		}
		if room < size {
			continue
		}
		if gone > 0 && !(m.score[at] > (1+m.policy.Hysteresis)*lost) {
			if m.even() {
				break
			}
			continue
		}
		for _, v := range victims[:gone] {
			m.hot[v] = false
			moves = append(moves, m.moved(v))
		}
		victims = victims[gone:]
		m.free[i] = room - size
		m.hot[at], m.since[at] = true, m.window
		moves = append(moves, m.moved(at))
		most--
	}
	return moves, most
}

// even says whether all experts take as much: then nobody who is less hot than one
// that may not come in may.
func (m *Manager) even() bool {
	return slices.Min(m.shape.Hot) == slices.Max(m.shape.Hot)
}

func (m *Manager) moved(at int) Move {
	return Move{Layer: m.shape.Layers[at/m.shape.Experts], Expert: at % m.shape.Experts, Up: m.hot[at], Score: m.scoreOf(at)}
}

func (m *Manager) scoreOf(at int) float64 {
	if m.weight == 0 {
		return 0
	}
	return m.score[at] / m.weight
}

// held is how many experts of a pool are cold that would be hot by score alone: with
// those that have most of it a byte for as long as they fit, hot ones first among
// equals.
func (m *Manager) held(i int) (held int) {
	p := m.pools[i]
	m.order = m.order[:0]
	for at := p.first; at < p.first+p.n; at++ {
		m.order = append(m.order, at)
	}
	slices.SortFunc(m.order, func(a, b int) int {
		if c := cmp.Compare(m.density(b), m.density(a)); c != 0 {
			return c
		}
		switch {
		case m.hot[a] && !m.hot[b]:
			return -1
		case m.hot[b] && !m.hot[a]:
			return 1
		}
		return cmp.Compare(a, b)
	})
	left := p.budget
	for _, at := range m.order {
		if m.size(at) > left || m.score[at] == 0 {
			continue
		}
		left -= m.size(at)
		if !m.hot[at] {
			held++
		}
	}
	return held
}

// perLayer counts hot experts by layer, and what they take.
func (m *Manager) perLayer() (n []int, hot int, bytes int64) {
	n = make([]int, len(m.shape.Layers))
	for at, h := range m.hot {
		if h {
			n[at/m.shape.Experts]++
			hot++
			bytes += m.size(at)
		}
	}
	return n, hot, bytes
}
