package landscape

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"

	"quantscope/analysis/stats"
)

// UsualRepeats is how many random controls there are where nobody says.
const UsualRepeats = 20

// Controls are assignments at the bytes of an answer, or as little below as can
// be: the answer's arms are dealt out again to units in an order that knows
// nothing of the errors (random, repeats times under the seed; uniform: evenly
// over the checkpoint) or uses them the wrong way round (reversed: the largest
// arms to those that gain least by them). Each is a curve of one point, whose
// MeanRel2, Low and High are in the unit of Assignment.Value; Exempted counts
// the items that do not have their smallest arm.
func (s *Solver) Controls(a Assignment, repeats int, seed uint64) []Curve {
	if repeats <= 0 {
		repeats = UsualRepeats
	}
	if len(a.Arm) != len(s.table.Items) {
		return nil
	}
	d := s.dealer(a)
	order := make([]int, len(s.units))
	for i := range order {
		order[i] = i
	}
	rng := rand.New(rand.NewPCG(seed, uint64(len(s.units))))
	values := make([]float64, repeats)
	var random Point
	for r := range values {
		rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		p := d.deal(order)
		values[r] = p.MeanRel2
		random.Bytes += p.Bytes
		random.Exempted += p.Exempted
	}
	random.Bytes /= int64(repeats)
	random.Exempted /= repeats
	random.BitsPerWeight = bitsPerWeight(random.Bytes, s.elements)
	random.MeanRel2, random.Low, random.High = span(values)
	return []Curve{
		{Name: "random", Control: true, Points: []Point{random}},
		{Name: "uniform", Control: true, Points: []Point{d.deal(spread(len(s.units)))}},
		{Name: "reversed", Control: true, Points: []Point{d.deal(s.leastGain())}},
	}
}

// span is the mean of repeats with their 5th and 95th percentile.
func span(values []float64) (mean, low, high float64) {
	var total sum
	for _, v := range values {
		total.addFinite(v)
	}
	sorted := slices.Sorted(slices.Values(values))
	return total.value() / float64(len(values)), stats.Quantile(sorted, 0.05), stats.Quantile(sorted, 0.95)
}

// spread is an order of n places of which every beginning is spread evenly:
// multiples of the golden section, without those that were there before.
func spread(n int) []int {
	const golden = 0.6180339887498949
	order := make([]int, 0, n)
	seen := make([]bool, n)
	add := func(at int) {
		if !seen[at] {
			seen[at] = true
			order = append(order, at)
		}
	}
	at := 0.5
	for range 4 * n {
		add(min(int(at*float64(n)), n-1))
		if at += golden; at >= 1 {
			at--
		}
	}
	for i := range n { // the multiples reach all by then; should one be left out, it comes last
		add(i)
	}
	return order
}

// leastGain orders units by what their best arm gains per byte, the least first.
func (s *Solver) leastGain() []int {
	order := make([]int, len(s.units))
	whole := make([]step, len(s.units))
	for u := range order {
		order[u] = u
		if c := &s.units[u]; len(c.option) > 1 {
			whole[u] = c.stepTo(0, int32(len(c.option)-1))
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := whole[a], whole[b]
		return compareProducts(x.err, max(y.bytes, 1), y.err, max(x.bytes, 1))
	})
	return order
}

// dealer deals the arms of an answer out again.
type dealer struct {
	*Solver
	arms   []int // of the units, the largest first, by use
	kinds  []int // those that occur, the largest first
	target int64
	given  []option
}

func (s *Solver) dealer(a Assignment) *dealer {
	d := &dealer{Solver: s, target: a.Bytes, given: make([]option, len(s.units))}
	total := make([]int64, len(s.table.Arms)) // bytes of all items, as far as they are known
	for k := range s.table.Arms {
		for _, b := range s.table.Arms[k].Bytes {
			total[k] += max(b, 0)
		}
	}
	counts := make([]int, len(s.table.Arms)) // units
	for u := range s.units {
		counts[a.Arm[s.units[u].items[0]]]++
	}
	for k, n := range counts {
		if n > 0 {
			d.kinds = append(d.kinds, k)
		}
	}
	slices.SortFunc(d.kinds, func(a, b int) int { return cmp.Or(cmp.Compare(total[b], total[a]), cmp.Compare(a, b)) })
	for _, k := range d.kinds {
		d.arms = append(d.arms, slices.Repeat([]int{k}, counts[k])...)
	}
	s.every()
	return d
}

// every fills in what every arm does to every unit, once for a solver.
func (s *Solver) every() {
	if s.all != nil {
		return
	}
	n := len(s.table.Arms)
	s.all = make([]option, len(s.units)*n)
	for u := range s.units {
		row := s.all[u*n : (u+1)*n]
		for k := range row {
			row[k].arm = -1
		}
		for _, k := range s.arms {
			if o, ok, err := s.optionOf(k, s.units[u].items); ok && err == nil {
				row[k] = o
			}
		}
	}
}

// of is what an arm does to a unit; its arm is -1 where it cannot be used.
func (d *dealer) of(u, arm int) option { return d.all[u*len(d.table.Arms)+arm] }

// deal gives the arms to the units in order, the largest first, then makes the
// bytes fit: from the end of the order units get the next smaller of the
// answer's arms, the largest first, and in the end their smallest; from the
// beginning of the order units get what is left.
func (d *dealer) deal(order []int) Point {
	given := d.given
	bytes := d.fixedBytes
	for k, u := range order {
		given[u] = d.units[u].option[0]
		if o := d.of(u, d.arms[k]); o.arm >= 0 {
			given[u] = o
		}
		bytes += given[u].bytes
	}
	move := func(u int, to option) {
		bytes += to.bytes - given[u].bytes
		given[u] = to
	}
	for level, kind := range d.kinds {
		for k := len(order) - 1; k >= 0 && bytes > d.target; k-- {
			u := order[k]
			if given[u].arm != kind {
				continue
			}
			for _, next := range d.kinds[level+1:] {
				if o := d.of(u, next); o.arm >= 0 && o.bytes < given[u].bytes {
					move(u, o)
					break
				}
			}
		}
	}
	for k := len(order) - 1; k >= 0 && bytes > d.target; k-- {
		if least := d.units[order[k]].option[0]; least.bytes < given[order[k]].bytes {
			move(order[k], least)
		}
	}
	for _, u := range order {
		if bytes == d.target {
			break
		}
		for _, k := range d.kinds {
			if o := d.of(u, k); o.arm >= 0 && o.bytes > given[u].bytes && bytes+o.bytes-given[u].bytes <= d.target {
				move(u, o)
				break
			}
		}
	}
	total, moved := int64(0), 0
	for u, o := range given {
		total += o.err
		if o.bytes > d.units[u].option[0].bytes {
			moved += len(d.units[u].items)
		}
	}
	v := float64(total) * d.unitOfValue()
	return Point{Exempted: moved, Bytes: bytes, BitsPerWeight: bitsPerWeight(bytes, d.elements), MeanRel2: v, Low: v, High: v}
}

// Beats says in a sentence whether an answer beats its controls by more than
// the spread of the random ones (from the 5th to the 95th percentile).
func Beats(a Assignment, controls []Curve) (sentence string, beats bool) {
	var best *Point
	var name string
	width, low, high := 0.0, 0.0, 0.0
	for i := range controls {
		c := &controls[i]
		if len(c.Points) == 0 {
			continue
		}
		p := &c.Points[0]
		if w := p.High - p.Low; w >= width && c.Name == "random" {
			width, low, high = w, p.Low, p.High
		}
		if best == nil || p.MeanRel2 < best.MeanRel2 {
			best, name = p, c.Name
		}
	}
	if best == nil {
		return "there are no controls to compare the answer with", false
	}
	margin := best.MeanRel2 - a.Value
	slack := 2*a.Slack + 1e-12*best.MeanRel2
	random := fmt.Sprintf("random %.6g to %.6g", low, high)
	switch {
	case margin > width+slack:
		little := ""
		if margin < worthwhile*best.MeanRel2 {
			little = ", which is little"
		}
		return fmt.Sprintf("the answer beats its controls by more than their spread: %.6g against %.6g of the best of them (%s; %s), %.3g %% less%s", a.Value, best.MeanRel2, name, random, 100*margin/best.MeanRel2, little), true
	case margin > slack:
		return fmt.Sprintf("the answer does not beat its controls by more than their spread: %.6g against %.6g of the best of them (%s; %s)", a.Value, best.MeanRel2, name, random), false
	}
	return fmt.Sprintf("the answer does not beat its controls: %.6g against %.6g of the best of them (%s; %s); it does not matter which tensors get the bytes", a.Value, best.MeanRel2, name, random), false
}
