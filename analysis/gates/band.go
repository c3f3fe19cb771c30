package gates

import (
	"math"
	"sync"

	"quantscope/analysis/stats"
)

// bandPower is the power at which Pair.Band is told.
const bandPower = 0.8

// statedEffect is the difference of shares for which the verdict over all probes says
// how many cases it takes.
const statedEffect = 0.05

// mostBands are kept; a run that goes on has a few new ones with each answer.
const mostBands = 1 << 14

// bandKey is what a band depends on.
type bandKey struct {
	cases, differ int
	level         float64
}

// memo keeps what was worked out, since a report is made anew with each answer that
// comes, most of it as it was, and power is most of the work.
type memo struct {
	sync.Mutex
	of map[bandKey]float64
}

func (m *memo) get(key bandKey, work func() float64) float64 {
	m.Lock()
	v, ok := m.of[key]
	m.Unlock()
	if ok {
		return v
	}
	v = work()
	m.Lock()
	defer m.Unlock()
	if m.of == nil || len(m.of) >= mostBands {
		m.of = map[bandKey]float64{}
	}
	m.of[key] = v
	return v
}

var bands, sizes memo

// band is Pair.Band of so many cases, where as many differ as were seen to.
func band(cases, differ int, level float64) float64 {
	if cases == 0 {
		return math.NaN()
	}
	return bands.get(bandKey{cases, differ, level}, func() float64 {
		return stats.McNemarDetectable(cases, float64(differ)/float64(cases), 1-level, bandPower)
	})
}

// CasesFor is how many cases it takes to tell a difference of shares, for instance
// 0.05, at the level (0: 0.95) and with power 0.8, where as large a share of them differs
// as here: more than Pair.Cases says that this run cannot see it. -1 of no cases, and of
// no difference from 0 to 1.
func (p *Pair) CasesFor(difference, level float64) int {
	if p.Cases == 0 {
		return -1
	}
	differ := float64(p.Fewer+p.More) / float64(p.Cases)
	return stats.McNemarPairs(difference, max(differ, math.Abs(difference)), 1-levelOr(level), bandPower)
}

// size is CasesFor of statedEffect.
func (p *Pair) size(level float64) int {
	return int(sizes.get(bandKey{p.Cases, p.Fewer + p.More, level}, func() float64 { return float64(p.CasesFor(statedEffect, level)) }))
}
