package yardstick

import (
	"fmt"

	"quantscope/analysis/candidate"
)

// AddParts adds a row for each part in which candidate of differs from the
// reference: the reference with that part alone of the candidate. The rows stand
// behind the candidates given, and what says so of them is for Options.Derived. A
// candidate of one part or none has no rows.
func AddParts(ref *candidate.Candidate, cands []*candidate.Candidate, of int) ([]*candidate.Candidate, []Derived, error) {
	if of < 0 || of >= len(cands) {
		return nil, nil, fmt.Errorf("yardstick: candidate %d of %d", of, len(cands))
	}
	parts, err := candidate.Parts(ref, cands[of])
	if err != nil {
		return nil, nil, err
	}
	if len(parts) < 2 {
		return cands, nil, nil
	}
	var rows []Derived
	for _, p := range parts {
		c, err := candidate.Only(ref, cands[of], p.Name)
		if err != nil {
			return nil, nil, err
		}
		rows = append(rows, Derived{Row: len(cands), Of: of, How: "only " + p.Name, Part: p.Name})
		cands = append(cands, c)
	}
	return cands, rows, nil
}
