package gates

import (
	"math"
	"sync"

	"quantscope/analysis/stats"
)

// bandPower is the power at which Pair.Band is told.
const bandPower = 0.8

// mostBands are kept; a run that goes on has a few new ones with each answer.
const mostBands = 1 << 14

// bandKey is what a band depends on.
type bandKey struct {
	cases, differ int
	level         float64
}

// bandsKept are the bands that were asked for, since a report is made anew with each
// answer that comes, most of it as it was, and bands are most of the work.
var bandsKept = struct {
	sync.Mutex
	of map[bandKey]float64
}{of: map[bandKey]float64{}}

// band is Pair.Band of so many cases, where as many differ as were seen to.
func band(cases, differ int, level float64) float64 {
	if cases == 0 {
		return math.NaN()
	}
	key := bandKey{cases, differ, level}
	bandsKept.Lock()
	v, ok := bandsKept.of[key]
	bandsKept.Unlock()
	if ok {
		return v
	}
	v = stats.McNemarDetectable(cases, float64(differ)/float64(cases), 1-level, bandPower)
	bandsKept.Lock()
	if len(bandsKept.of) >= mostBands {
		clear(bandsKept.of)
	}
	bandsKept.of[key] = v
	bandsKept.Unlock()
	return v
}

// CasesFor is how many cases it takes to tell a difference of shares, for instance
// 0.05, at the level and with power 0.8, where as many of them differ as here: more
// than Pair.Cases says that this run cannot see it. -1 of no answers, and of no
// difference from 0 to 1.
func (p *Pair) CasesFor(difference, level float64) int {
	n := p.Both + p.OnlyBase + p.OnlyArm + p.Neither
	if n == 0 {
		return -1
	}
	differ := float64(p.OnlyBase+p.OnlyArm) / float64(n)
	return stats.McNemarPairs(difference, max(differ, math.Abs(difference)), 1-levelOr(level), bandPower)
}
