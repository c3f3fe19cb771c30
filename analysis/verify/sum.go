package verify

import (
	"fmt"
	"math"
)

// hex16 is a hash as 16 hex digits.
func hex16(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// figures sums up what the workers found.
func (r *run) figures() {
	r.untouchedTotals()
	r.grouped()
	rep := r.rep
	rep.CosMin = 1
	for i := range r.sums.measured {
		m := &r.sums.measured[i]
		if !m.checked {
			continue
		}
		rep.QuantizedChecked++
		if m.reproduced {
			rep.QuantizedReproduced++
		}
		rel2 := m.decoded.rel2()
		relL2 := math.Sqrt(rel2)
		rep.MeanRel2 += Figure(rel2)
		rep.MeanRelL2 += Figure(relL2)
		if rep.WorstTensor == "" || Figure(relL2) > rep.WorstRelL2 || math.IsNaN(relL2) {
			rep.WorstTensor, rep.WorstRelL2 = r.jobs[i].matrix.Name, Figure(relL2)
		}
		if cos := Figure(m.decoded.cos()); cos < rep.CosMin || math.IsNaN(float64(cos)) {
			rep.CosMin = cos
		}
	}
	for i := range r.sums.recoded {
		x := &r.sums.recoded[i]
		rep.QuantizedChecked++
		rel2 := x.totals.rel2()
		relL2 := math.Sqrt(rel2)
		rep.MeanRel2 += Figure(rel2)
		rep.MeanRelL2 += Figure(relL2)
		if rep.WorstTensor == "" || Figure(relL2) > rep.WorstRelL2 || math.IsNaN(relL2) {
			rep.WorstTensor, rep.WorstRelL2 = x.name, Figure(relL2)
		}
		if cos := Figure(x.totals.cos()); cos < rep.CosMin || math.IsNaN(float64(cos)) {
			rep.CosMin = cos
		}
	}
	if n := Figure(rep.QuantizedChecked); n > 0 {
		rep.MeanRel2 /= n
		rep.MeanRelL2 /= n
	}
	if r.sums.moved > 0 {
		r.note("%d modules have codes that are not the nearest, as methods that weigh errors against one another leave them", r.sums.moved)
	}
	if r.sums.ownGlobal > 0 {
		r.note("%d records are under global scales other than the output's: those tensors were measured again under their own", r.sums.ownGlobal)
	}
	if rep.QuantizedTensors == 0 {
		r.note("nothing is quantized in the output")
	}
}
