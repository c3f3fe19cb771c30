package bias

import (
	"math"
	"sync"
)

// flow are the sums that a Flow is made of. Positions come in the order of the text,
// of each the sums over its channels in their order; those are added up position by
// position, and so are the channels of d. What is added to what therefore depends
// neither on threads nor on how a text was cut.
type flow struct {
	next, finite, broken int64 // positions that came, that are finite in both, that are not
	d, x, absX           float64
	dx, x2, d2           float64
	mean                 []float64   // Σd, by channel
	null                 [][]float64 // Σ±d, by draw and channel
}

func newFlow(hidden int) *flow {
	f := &flow{mean: make([]float64, hidden), null: make([][]float64, draws)}
	for k := range f.null {
		f.null[k] = make([]float64, hidden)
	}
	return f
}

// rowSums are the sums of one position.
type rowSums struct {
	d, x, absX, dx, x2, d2 float64
	ok                     bool
}

// lane is how many channels go through the draws together: what they are added to
// then stays near the processor.
const lane = 128

// add takes in n positions: values x of the reference, y of the candidate. rows is
// memory that is used again.
func (f *flow) add(x, y []float32, n, threads int, rows []rowSums) []rowSums {
	hidden := len(f.mean)
	rows = append(rows[:0], make([]rowSums, n)...)
	share(n, threads, n*hidden, func(from, to int) {
		for p := from; p < to; p++ {
			rows[p] = sumsOf(x[p*hidden:][:hidden], y[p*hidden:][:hidden])
		}
	})
	quiet := true // nothing differs: channels need not be gone over
	for _, r := range rows {
		if !r.ok {
			f.broken++
			continue
		}
		f.finite++
		f.d, f.x, f.absX = f.d+r.d, f.x+r.x, f.absX+r.absX
		f.dx, f.x2, f.d2 = f.dx+r.dx, f.x2+r.x2, f.d2+r.d2
		quiet = quiet && r.d2 == 0
	}
	if !quiet {
		lanes := (hidden + lane - 1) / lane
		share(lanes, threads, n*hidden*draws, func(from, to int) {
			for l := from; l < to; l++ {
				f.channels(x, y, rows, l*lane, min((l+1)*lane, hidden))
			}
		})
	}
	f.next += int64(n)
	return rows
}

// sumsOf are the sums of one position.
func sumsOf(x, y []float32) (r rowSums) {
	for c, v := range x {
		a, d := float64(v), float64(y[c])-float64(v)
		r.d += d
		r.x += a
		r.absX += math.Abs(a)
		r.dx += float64(d * a)
		r.x2 += float64(a * a)
		r.d2 += float64(d * d)
	}
	r.ok = !math.IsNaN(r.x2+r.d2) && !math.IsInf(r.x2, 0) && !math.IsInf(r.d2, 0)
	return r
}

// channels adds the differences of some channels, with and without signs.
func (f *flow) channels(x, y []float32, rows []rowSums, from, to int) {
	hidden := len(f.mean)
	var buf [lane]float64
	d, mean := buf[:to-from], f.mean[from:to]
	for p := range rows {
		if !rows[p].ok || rows[p].d2 == 0 {
			continue
		}
		a, b := x[p*hidden+from:p*hidden+to], y[p*hidden+from:p*hidden+to]
		for c := range d {
			d[c] = float64(b[c]) - float64(a[c])
			mean[c] += d[c]
		}
		signs := signsOf(uint64(f.next) + uint64(p))
		for k, sums := range f.null {
			sums := sums[from:to]
			if signs>>k&1 == 0 {
				for c, v := range d {
					sums[c] += v
				}
				continue
			}
			for c, v := range d {
				sums[c] -= v
			}
		}
	}
}

// signsOf are the signs of a position, a bit for each draw: SplitMix64 of its number.
func signsOf(position uint64) uint64 {
	z := (position + seed<<40) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// figures are what the sums say.
func (f *flow) figures() Flow {
	out := Flow{
		Positions: f.finite, NonFinite: f.broken,
		Rel: math.Sqrt(f.d2 / f.x2), Bias: f.d / f.absX, Gain: f.dx / f.x2, Ref: f.x / f.absX,
		Shift: math.NaN(), Null: math.NaN(), NullMax: math.NaN(),
	}
	if f.d2 == 0 || f.finite == 0 {
		return out
	}
	out.Shift = f.share(f.mean)
	var sum, most float64
	for _, sums := range f.null {
		v := f.share(sums)
		sum, most = sum+v, max(most, v)
	}
	out.Null, out.NullMax = sum/draws, most
	return out
}

// share is ‖Σd‖² over n·Σ‖d‖²: the share of the squared error that is the same at
// every position.
func (f *flow) share(sums []float64) float64 {
	var s float64
	for _, v := range sums {
		s += float64(v * v)
	}
	return s / (float64(f.finite) * f.d2)
}

// share calls f with parts of n things that take so much work in all, beside each
// other where that is worth it. What f does of one thing must not depend on others.
func share(n, threads, work int, f func(from, to int)) {
	const worth = 1 << 14
	parts := max(min(threads, n, work/worth), 1)
	if parts == 1 {
		f(0, n)
		return
	}
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { f(i*n/parts, (i+1)*n/parts) })
	}
	wg.Wait()
}
