package views

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// klRows is a report as the screen lists it.
type klRows struct {
	report *yardstick.Report
	yard   *sessions.Yard
	by     int   // order of the table
	order  []int // candidates of the setup, by row
	inks   []int // by candidate: its colour and mark, those of the variant that it is
	limit  float64

	worstOf int // candidate
	worst   []klPlace
}

// klPlace is a position in words.
type klPlace struct {
	yardstick.Place
	corpus               string
	before, token, after string // as it stands in the text; token is the one that is to be predicted
	ref, cand            string // first choices
}

// klOrders are the orders of the table. The floor stays on top.
var klOrders = []struct {
	name string
	key  func(*yardstick.Party, *yardstick.Summary) float64
}{
	{"the order given", func(*yardstick.Party, *yardstick.Summary) float64 { return 0 }},
	{"KL", func(_ *yardstick.Party, s *yardstick.Summary) float64 { return s.KL }},
	{"p99", func(_ *yardstick.Party, s *yardstick.Summary) float64 { return s.P99 }},
	{"max", func(_ *yardstick.Party, s *yardstick.Summary) float64 { return s.Max }},
	{"top-1", func(_ *yardstick.Party, s *yardstick.Summary) float64 { return -s.Top1 }},
	{"perplexity", func(_ *yardstick.Party, s *yardstick.Summary) float64 { return s.PPL }},
	{"bits per weight", func(p *yardstick.Party, _ *yardstick.Summary) float64 { return p.BitsPerWeight }},
	{klFamilies, func(_ *yardstick.Party, s *yardstick.Summary) float64 { return s.KL }},
}

// klFamilies is the order in which every baseline stands before what is held
// against it.
const klFamilies = "baseline and what is held against it"

// update takes in a report, and the order in which its candidates are listed.
func (r *klRows) update(state *sessions.State, y *sessions.Yard, rep *yardstick.Report, by int) {
	fresh := r.report != rep || r.yard != y
	if fresh {
		r.worst, r.worstOf = nil, -1
	}
	r.report, r.yard = rep, y
	if rep == nil {
		r.order, r.inks = nil, nil
		return
	}
	cands := rep.Setup.Candidates
	r.inks = r.inks[:0]
	next := len(state.Variants)
	for i := range cands {
		ink := -1
		if !cands[i].Floor {
			if ink = state.VariantByName(cands[i].Spec); ink < 0 {
				ink = state.VariantByName(cands[i].Label)
			}
		}
		if ink < 0 {
			ink = next
			next++
		}
		r.inks = append(r.inks, ink)
	}
	if !fresh && by == r.by && len(r.order) == len(rep.Results) {
		return
	}
	r.by = by
	r.order = r.order[:0]
	r.limit = 0
	for i := range rep.Results {
		r.order = append(r.order, i)
		for j := range rep.Results[i].Corpora {
			if v := rep.Results[i].Corpora[j].KL; isNumber(v) {
				r.limit = max(r.limit, v)
			}
		}
	}
	key := klOrders[by].key
	defer func() {
		if klOrders[by].name == klFamilies {
			r.families()
		}
	}()
	slices.SortStableFunc(r.order, func(a, b int) int {
		pa, pb := &cands[a], &cands[b]
		if pa.Floor != pb.Floor {
			if pa.Floor {
				return -1
			}
			return 1
		}
		x, y := key(pa, &rep.Results[a].All), key(pb, &rep.Results[b].All)
		switch nx, ny := math.IsNaN(x), math.IsNaN(y); {
		case nx && !ny: // what has no figure comes last
			return 1
		case ny && !nx:
			return -1
		case nx:
			return 0
		}
		return cmp.Compare(x, y)
	})
}

// families moves every candidate behind its baseline, the order within each family
// and that of the families kept.
func (r *klRows) families() {
	under := map[int][]int{}
	var heads []int
	for _, c := range r.order {
		if base := r.party(c).Baseline; base >= 0 && base < len(r.report.Setup.Candidates) && base != c {
			under[base] = append(under[base], c)
		} else {
			heads = append(heads, c)
		}
	}
	out := make([]int, 0, len(r.order))
	seen := map[int]bool{}
	var add func(c int)
	add = func(c int) {
		if seen[c] {
			return
		}
		seen[c] = true
		out = append(out, c)
		for _, d := range under[c] {
			add(d)
		}
	}
	for _, c := range append(heads, r.order...) { // what is its own ancestor has no head
		add(c)
	}
	r.order = out
}

// first is the candidate that is selected at the beginning: not the floor.
func (r *klRows) first() int {
	for _, c := range r.order {
		if !r.party(c).Floor {
			return c
		}
	}
	return 0
}

func (r *klRows) party(c int) *yardstick.Party { return &r.report.Setup.Candidates[c] }

// row is where a candidate stands in the table.
func (r *klRows) row(c int) int { return max(slices.Index(r.order, c), 0) }

// running says that more of the measurement is to come.
func (r *klRows) running() bool { return r.report.Positions < r.report.Of }

// Tokens around a position that are taken into its text.
const (
	klBefore = 400
	klAfter  = 40
	klRest   = 400 // where a position stands alone
)

// updateWorst puts the worst positions of a candidate into words.
func (r *klRows) updateWorst(c int) {
	if r.worstOf == c && r.worst != nil || c < 0 || c >= len(r.report.Results) {
		return
	}
	r.worstOf = c
	r.worst = make([]klPlace, 0, len(r.report.Results[c].Worst))
	s := r.report.Setup
	for _, at := range r.report.Results[c].Worst {
		p := klPlace{Place: at, corpus: klCorpusName(s, at.Corpus)}
		k := r.chunk(at.Corpus, at.Chunk)
		p.token, p.ref, p.cand = r.text(k, at.Target), r.text(k, at.Ref), r.text(k, at.Cand)
		if at.Corpus >= 0 && at.Corpus < len(s.Corpora) && at.Chunk >= 0 && at.Chunk < len(s.Corpora[at.Corpus].IDs) {
			ids := s.Corpora[at.Corpus].IDs[at.Chunk]
			if t := at.At + 1; t > 0 && t < len(ids) {
				p.before = r.join(k, ids[max(t-klBefore, 0):t])
				p.after = r.join(k, ids[t+1:min(t+1+klAfter, len(ids))])
			}
		}
		r.worst = append(r.worst, p)
	}
}

// whole is a place with as much of the text behind it as is shown of one alone.
func (r *klRows) whole(p *klPlace) *klPlace {
	full, s := *p, r.report.Setup
	if p.Corpus >= 0 && p.Corpus < len(s.Corpora) && p.Chunk >= 0 && p.Chunk < len(s.Corpora[p.Corpus].IDs) {
		ids := s.Corpora[p.Corpus].IDs[p.Chunk]
		if t := p.At + 1; t > 0 && t < len(ids) {
			full.after = r.join(r.chunk(p.Corpus, p.Chunk), ids[t+1:min(t+1+klRest, len(ids))])
		}
	}
	return &full
}

// klCorpusName is how a corpus is called.
func klCorpusName(s *yardstick.Setup, i int) string {
	if i < 0 || i >= len(s.Corpora) {
		return "?"
	}
	return Clean(s.Corpora[i].Name)
}

// chunk is a scored chunk, nil where it is not there.
func (r *klRows) chunk(corpus, index int) *yardstick.Chunk {
	if r.yard == nil {
		return nil
	}
	i := slices.IndexFunc(r.yard.Chunks, func(k *yardstick.Chunk) bool { return k.Corpus == corpus && k.Index == index })
	if i < 0 {
		return nil
	}
	return r.yard.Chunks[i]
}

// text is what a token stands for, its number where that is not known.
func (r *klRows) text(k *yardstick.Chunk, id int32) string {
	if s, ok := r.report.Setup.Texts[id]; ok {
		return s
	}
	if k != nil {
		if s, ok := k.Texts[id]; ok {
			return s
		}
	}
	return "#" + thousands(int64(id))
}

// join is a piece of text. Tokens are set together before they are cleaned: one
// may hold half of a character.
func (r *klRows) join(k *yardstick.Chunk, ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(r.text(k, id))
	}
	return b.String()
}
