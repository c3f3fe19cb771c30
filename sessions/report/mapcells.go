package report

import (
	"math"
	"slices"

	"quantscope/analysis/landscape"
)

// classes is how many colours a map has: steps that an eye tells apart.
const classes = 12

// cellState says what a cell of a map shows. Of several tensors in one cell, the
// greatest state that is no figure is told where none of them has one.
type cellState uint8

const (
	absent cellState = iota // no such tensor
	pending
	measured
	notFinite
	failed
)

// metric is what a map shows of a tensor.
type metric struct {
	name, unit string
	of         func(s *landscape.Sample) float64
	write      func(x float64) string
}

var relL2Metric = metric{"rel_l2", "relative error", func(s *landscape.Sample) float64 { return s.RelL2 }, digits(4)}

var deepMetric = metric{"deep clips", "share of blocks", func(s *landscape.Sample) float64 { return float64(s.Deep) / float64(s.Blocks) }, Share}

// cell is one place of a map.
type cell struct {
	state   cellState
	value   float64 // of measured
	item    int     // that has the value
	clipped bool    // deeply, in some block
}

// mapData is a metric of one arm on the panels of a grid.
type mapData struct {
	metric  metric
	cells   [][]cell // by panel
	scale   span     // of the colours
	all     span     // of all values
	counts  map[cellState]int
	clipped int // tensors
	marks   bool
	worst   []int // items, the worst first
}

// newMap fills the cells. A cell of several tensors has the largest value.
func newMap(g *grid, arm *landscape.Arm, m metric) *mapData {
	d := &mapData{metric: m, counts: map[cellState]int{}}
	var values []float64
	var at []int
	for p := range g.panels {
		cells := make([]cell, len(g.panels[p].cells))
		for c, items := range g.panels[p].cells {
			for _, i := range items {
				state, v := stateOf(&arm.Samples[i], m)
				d.counts[state]++
				clipped := arm.Samples[i].Deep > 0
				if clipped {
					d.clipped++
				}
				if state == measured {
					values = append(values, v)
					at = append(at, i)
				}
				switch old := &cells[c]; {
				case state == measured && (old.state != measured || v > old.value):
					*old = cell{measured, v, i, clipped || old.clipped}
				case old.state != measured && state > old.state:
					*old = cell{state: state, item: i}
				}
			}
		}
		d.cells = append(d.cells, cells)
	}
	d.marks = d.clipped > 0 && 2*d.clipped <= len(values)
	for _, v := range values {
		d.all.add(v)
	}
	d.scale = robust(values)
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case values[a] > values[b]:
			return -1
		case values[a] < values[b]:
			return 1
		}
		return at[a] - at[b]
	})
	for _, o := range order[:min(5, len(order))] {
		d.worst = append(d.worst, at[o])
	}
	return d
}

func stateOf(s *landscape.Sample, m metric) (cellState, float64) {
	switch s.State {
	case landscape.Pending:
		return pending, 0
	case landscape.Failed:
		return failed, 0
	}
	v := m.of(s)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return notFinite, 0
	}
	return measured, v
}

// robust is the span of colours: from the 0.5th to the 99.5th percentile where
// there are many values, so that one outlier does not take all colours.
func robust(values []float64) span {
	var s span
	if len(values) < 200 {
		for _, v := range values {
			s.add(v)
		}
		return s
	}
	sorted := slices.Clone(values)
	slices.Sort(sorted)
	cut := len(sorted) / 200
	s.add(sorted[cut])
	s.add(sorted[len(sorted)-1-cut])
	s.n = len(sorted)
	return s
}

// class is the colour of a value, 0 for the least.
func (d *mapData) class(v float64) int {
	if !(d.scale.hi > d.scale.lo) {
		return classes / 2
	}
	x := (v - d.scale.lo) / (d.scale.hi - d.scale.lo) * classes
	return max(0, min(classes-1, int(math.Floor(x))))
}

// packed is the values of a panel as text, two characters a cell of six bits
// each, for whoever points at a cell: 0 to 4090 from the least to the largest
// value, 4092 not finite, 4093 failed, 4094 not measured, 4095 absent.
func (d *mapData) packed(p int) string {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	b := make([]byte, 0, 2*len(d.cells[p]))
	width := d.all.hi - d.all.lo
	for _, c := range d.cells[p] {
		q := 4095
		switch c.state {
		case measured:
			q = 0
			if width > 0 {
				q = int(math.Round((c.value - d.all.lo) / width * 4090))
			}
		case notFinite:
			q = 4092
		case failed:
			q = 4093
		case pending:
			q = 4094
		}
		b = append(b, digits[q>>6], digits[q&63])
	}
	return string(b)
}
