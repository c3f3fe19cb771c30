package sessions

import (
	"cmp"
	"slices"
	"strings"
)

// Fallback is the tensors of a variant for which something else ran than what was
// requested.
type Fallback struct {
	Variant              int
	Requested, Effective string
	Why                  string // of most of them
	Tensors              []int
	Params               int64
	ShareParams          float64 // of the parameters of the variant's tensors
}

// Fallbacks are counted anew from the records and events of the state, most
// parameters first.
func (s *State) Fallbacks() []Fallback {
	type key struct {
		variant              int
		requested, effective string
	}
	list := map[key]*Fallback{}
	whys := map[key]map[string]int{}
	seen := map[pair]bool{}
	for i := len(s.Log) - 1; i >= 0; i-- { // the newest of a tensor is what counts
		e := &s.Log[i]
		if e.Kind != EventFallback || !s.stands(e) || seen[pair{e.Variant, e.Tensor}] {
			continue
		}
		seen[pair{e.Variant, e.Tensor}] = true
		k := key{e.Variant, s.requested(e), e.Effective}
		f := list[k]
		if f == nil {
			f = &Fallback{Variant: k.variant, Requested: k.requested, Effective: k.effective}
			list[k], whys[k] = f, map[string]int{}
		}
		f.Tensors = append(f.Tensors, e.Tensor)
		f.Params += s.params(e.Tensor)
		whys[k][whyOf(e)]++
	}
	out := make([]Fallback, 0, len(list))
	totals := map[int]int64{}
	for k, f := range list {
		slices.Sort(f.Tensors)
		most := 0
		for why, n := range whys[k] {
			if n > most || n == most && why < f.Why {
				most, f.Why = n, why
			}
		}
		if totals[f.Variant] == 0 {
			totals[f.Variant] = s.paramsOf(f.Variant)
		}
		f.ShareParams = share(float64(f.Params), float64(totals[f.Variant]))
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Fallback) int {
		return cmp.Or(cmp.Compare(b.Params, a.Params), cmp.Compare(a.Variant, b.Variant), cmp.Compare(a.Requested, b.Requested), cmp.Compare(a.Effective, b.Effective))
	})
	return out
}

// stands says whether a fallback is about a tensor that has a record, and no newer
// one than the event.
func (s *State) stands(e *Event) bool {
	if e.Variant < 0 || e.Variant >= len(s.Records) || e.Tensor < 0 || e.Tensor >= len(s.Records[e.Variant]) {
		return false
	}
	r := &s.Records[e.Variant][e.Tensor]
	return r.Seq != 0 && !r.Failed
}

// requested is what was asked for: of a recipe, by its group.
func (s *State) requested(e *Event) string {
	if how, ok := s.How(e.Variant, e.Tensor); ok && s.RecipeOf(e.Variant) != nil {
		return how.Name
	}
	if e.Requested != "" {
		return e.Requested
	}
	return s.Variants[e.Variant].Plain()
}

// whyOf is why something else ran: older events say so at the end of their message.
func whyOf(e *Event) string {
	if e.Why != "" {
		return e.Why
	}
	_, rest, ok := strings.Cut(e.Message, " in place of ")
	if !ok {
		return ""
	}
	_, why, _ := strings.Cut(rest, ": ")
	return why
}

func (s *State) params(tensor int) int64 {
	t := &s.Tensors[tensor]
	return int64(t.Rows) * int64(t.Cols)
}

// paramsOf are the parameters of the tensors that a variant quantizes.
func (s *State) paramsOf(variant int) (n int64) {
	r := s.RecipeOf(variant)
	for t := range s.Tensors {
		if r == nil || t >= len(r.Of) || r.Of[t] >= 0 {
			n += s.params(t)
		}
	}
	return n
}

// EffectiveShare is tensors of a variant of which the same was requested and the same
// ran.
type EffectiveShare struct {
	Requested   string  `json:"requested"`
	Effective   string  `json:"effective"` // SourceArm for what keeps the source's bytes
	Tensors     int     `json:"tensors"`
	Params      int64   `json:"params"`
	ShareParams float64 `json:"share_params"` // of the parameters of all tensors of the session
	Why         string  `json:"why,omitempty"`
}

// EffectiveShares say of all tensors of a variant that have a record, or need none,
// what was requested and what ran, most parameters first.
func (s *State) EffectiveShares(variant int) []EffectiveShare {
	if variant < 0 || variant >= len(s.Variants) || variant >= len(s.Records) {
		return nil
	}
	type key struct{ requested, effective string }
	fell := map[int]*Fallback{}
	fallbacks := s.Fallbacks()
	for i := range fallbacks {
		if f := &fallbacks[i]; f.Variant == variant {
			for _, t := range f.Tensors {
				fell[t] = f
			}
		}
	}
	list := map[key]*EffectiveShare{}
	all := int64(0)
	for t := range s.Tensors {
		all += s.params(t)
		how, quantized := s.How(variant, t)
		k, why := key{how.Plain(), how.Plain()}, ""
		r := &s.Records[variant][t]
		switch f := fell[t]; {
		case !quantized:
			k = key{SourceArm, SourceArm}
		case r.Seq == 0 || r.Failed:
			continue
		case f != nil:
			k, why = key{f.Requested, f.Effective}, f.Why
		}
		e := list[k]
		if e == nil {
			e = &EffectiveShare{Requested: k.requested, Effective: k.effective, Why: why}
			list[k] = e
		}
		e.Tensors++
		e.Params += s.params(t)
	}
	out := make([]EffectiveShare, 0, len(list))
	for _, e := range list {
		e.ShareParams = share(float64(e.Params), float64(all))
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b EffectiveShare) int {
		return cmp.Or(cmp.Compare(b.Params, a.Params), cmp.Compare(a.Requested, b.Requested), cmp.Compare(a.Effective, b.Effective))
	})
	return out
}
