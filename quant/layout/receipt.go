package layout

import (
	"encoding/json"
	"slices"
)

// ReceiptGroup is one variant of a mixture and the modules that were made so, as
// targets of compressed-tensors: names, or expressions after re:.
type ReceiptGroup struct {
	Variant    string   `json:"variant"`
	Format     string   `json:"format"`
	Method     string   `json:"method"`
	Convention string   `json:"convention"`
	Targets    []string `json:"targets"`

	entries []Entry // of the targets, once they are read
}

// UnmarshalJSON reads a group and its expressions.
func (g *ReceiptGroup) UnmarshalJSON(data []byte) error {
	type plain ReceiptGroup
	if err := json.Unmarshal(data, (*plain)(g)); err != nil {
		return err
	}
	g.entries = g.parse()
	return nil
}

func (g *ReceiptGroup) parse() []Entry {
	out := make([]Entry, len(g.Targets))
	for i, t := range g.Targets {
		out[i] = newEntry("", "", t, exactOrRegex)
	}
	return out
}

// Of is the receipt of one module: what the group says that has it, the receipt
// itself where there are no groups. It is false for a module of no group, and for
// one of several, which no export leaves.
func (r Receipt) Of(module string) (Receipt, bool) {
	if len(r.Groups) == 0 {
		return r, true
	}
	found := false
	groups := r.Groups
	r.Groups = nil
	for i := range groups {
		g := &groups[i]
		if !g.has(module) {
			continue
		}
		if found {
			return Receipt{}, false
		}
		found = true
		r.Variant, r.Format, r.Method, r.Convention = g.Variant, g.Format, g.Method, g.Convention
	}
	return r, found
}

func (g *ReceiptGroup) has(module string) bool {
	entries := g.entries
	if entries == nil {
		entries = g.parse()
	}
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.match(module, false) })
}
