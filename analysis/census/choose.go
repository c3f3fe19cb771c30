package census

import (
	"fmt"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/layout"
)

// Ways of mending a group.
const (
	ByCompensation   = "compensation"   // block scales are multiplied by the ratio of the second-level scales
	ByRequantization = "requantization" // all members are made again of the master under one second-level scale
)

// Choice is how a group is mended, with what each way loses: relative l2 errors
// over the group as a whole.
type Choice struct {
	By          string   `json:"by"`
	Scale       float64  `json:"scale"`                        // of all members after it, as a multiplier
	Kept        string   `json:"kept,omitempty"`               // member whose scale stays under compensation
	Against     string   `json:"against"`                      // what the errors are against: master, or stored
	Stored      *float64 `json:"rel_l2_stored,omitempty"`      // of the group as it is, against the master
	Compensated float64  `json:"rel_l2_compensated"`           // by the best of its members' scales
	Requantized *float64 `json:"rel_l2_requantized,omitempty"` // absent where it was not possible
	Clamped     int64    `json:"clamped"`                      // block scales under compensation
	Underflowed int64    `json:"underflowed"`

	base    int     // member whose scale is kept
	global  float32 // as stored
	amax    float32 // of the group in the master
	w2      float64 // Σw², and Σe² of each way
	e2      [3]float64
	decided bool
}

// Places in Choice.e2.
const (
	asStored = iota
	compensated
	requantized
)

// specOf is how a module would be made again: the method and the arithmetic that
// its receipt names, else round to nearest by what the layout's own tools do.
// note says why it is not what the receipt names.
func (r *run) specOf(m *layout.Module) (spec kernels.Spec, note string) {
	name := export.ModelOpt
	if divides(m) {
		name = export.CompressedTensors
	}
	spec = kernels.Spec{Format: m.Spec.Format, Convention: m.Spec.Convention}
	if c, err := export.DefaultConvention(name, m.Spec.Format); err == nil {
		spec.Convention = c
	}
	spec.Method = kernels.Methods(spec.Format)[0]
	receipt, _ := r.layout.Receipt.Of(m.Name)
	if receipt.Variant == "" || receipt.Format != spec.Format {
		return spec, fmt.Sprintf("no receipt says how it was made, so that requantization is by %s", spec.Method)
	}
	c, err := kernels.ConventionByName(receipt.Convention)
	same := err == nil && (c == kernels.CT || c == kernels.CT32) == divides(m)
	_, ofBooks := kernels.CodebookBase(spec.Format)
	known := slices.Contains(kernels.Methods(spec.Format), receipt.Method) || ofBooks && kernels.NamesBook(receipt.Method)
	if !same || !known {
		return spec, fmt.Sprintf("%s by %s cannot be made again, so that requantization is by %s", receipt.Variant, receipt.Convention, spec.Method)
	}
	spec.Convention, spec.Method = c, receipt.Method
	return spec, ""
}

// choose takes of the ways of mending a group that were weighed the one that
// loses least, in Σe² over the group.
func (r *run) choose(members []member, again remade) *Choice {
	c := &Choice{Against: "stored", decided: true}
	if members[0].source != nil {
		c.Against = "master"
	}
	c.amax = again.amax
	tied, broken := false, false
	for k := range members {
		c.w2 += members[k].w2
		c.e2[asStored] += members[k].stored
		c.e2[requantized] += members[k].requantized
		tied = tied || r.tied[placeOf(members[k].mod)] > 1
		broken = broken || members[k].broken > 0
	}
	// A second-level scale that others have too can only become the first's.
	best, losses := 0, make([]loss, len(members[0].comp))
	for b := range losses {
		for k := range members {
			losses[b].e2 += members[k].comp[b].e2
			losses[b].clamped += members[k].comp[b].clamped
			losses[b].underflowed += members[k].comp[b].underflowed
		}
		if !tied && losses[b].e2 < losses[best].e2 {
			best = b
		}
	}
	c.By, c.base, c.Kept, c.global = ByCompensation, best, members[best].mod.Name, members[best].global
	c.e2[compensated], c.Clamped, c.Underflowed = losses[best].e2, losses[best].clamped, losses[best].underflowed
	c.Compensated = c.relL2(compensated)
	if c.Against == "master" {
		stored := c.relL2(asStored)
		c.Stored = &stored
	}
	if again.global != 0 && !tied {
		e := c.relL2(requantized)
		c.Requantized = &e
		if broken || c.e2[requantized] < c.e2[compensated] {
			c.By, c.Kept, c.global = ByRequantization, "", again.global
		}
	}
	c.Scale = float64(c.global)
	if divides(members[0].mod) {
		c.Scale = 1 / c.Scale
	}
	return c
}

// relL2 is the relative error of a way; 0 where nothing is lost or there is
// nothing to lose.
func (c *Choice) relL2(way int) float64 {
	if c.e2[way] == 0 || c.w2 == 0 {
		return 0
	}
	return math.Sqrt(c.e2[way] / c.w2)
}
