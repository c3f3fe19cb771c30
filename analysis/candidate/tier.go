package candidate

import "quantscope/analysis/tier"

// TierModel is what a hot tier needs to know of the candidate.
func (c *Candidate) TierModel() tier.Model {
	return tier.Model{Label: c.Label, Identity: c.Identity, Spec: c.Arch, Bits: c.BitsPerWeight, Source: c.Source}
}
