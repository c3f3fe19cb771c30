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
