package yardstick

import (
	"errors"
	"slices"

	"quantscope/analysis/model"
)

// defaultMem bounds hidden states, weights and logits where nothing else is said.
const defaultMem = 2 << 30

// plan lays out the groups of chunks, corpora in turn.
func (m *measurement) plan() error {
	done := map[[2]int]bool{}
	for _, c := range m.o.Prior {
		done[[2]int{c.Corpus, c.Index}] = true
		m.chunks = append(m.chunks, c)
	}
	var order []chunkAt
	most, longest := 0, 0
	for _, c := range m.setup.Corpora {
		most = max(most, len(c.IDs))
		for _, ids := range c.IDs {
			longest = max(longest, len(ids))
		}
	}
	for k := range most {
		for c := range m.setup.Corpora {
			ids := m.setup.Corpora[c].IDs
			if k >= len(ids) || Scored(len(ids[k]), m.setup.half()) == 0 {
				continue
			}
			at := chunkAt{c, k, ids[k]}
			if m.control.ids == nil {
				m.control = at
			}
			if done[[2]int{c, k}] || m.o.Skip != nil && m.o.Skip(c, k) {
				continue
			}
			order = append(order, at)
		}
	}
	limit, err := m.budget(longest)
	if err != nil {
		return err
	}
	var total int64
	tokens := 0
	for i, c := range order {
		if i == 0 || tokens+len(c.ids) > limit {
			m.groups, tokens = append(m.groups, nil), 0
		}
		last := &m.groups[len(m.groups)-1]
		*last = append(*last, c)
		tokens += len(c.ids)
		total += int64(len(c.ids))
	}
	layers := len(m.parties[0].spec.Layers)
	var work int64
	for i, p := range m.parties {
		if i > 0 || m.base == nil {
			work += total * int64(len(p.spec.Layers))
		}
	}
	m.meter = newMeter(m.o.Progress, layers, work, len(order))
	return nil
}

// Of the memory the passes have half, and up to eleven sixteenths where even one
// chunk needs that; codes that candidates keep, heads (a quarter at most) and logits
// (a sixteenth) share the rest.
const (
	passShare = 8
	passMost  = 11
	ofShares  = 16
)

// budget plans the passes by memory. Where a bound was given one that is too small
// is an error with what one chunk needs; where none was it is raised.
func (m *measurement) budget(longest int) (tokens int, err error) {
	tokens = m.wantedTokens()
	m.budgets = make([]model.Budget, len(m.runs))
	for i, run := range m.runs {
		w := model.Workload{Chunk: longest, Parties: len(run), Threads: m.threads}
		for _, p := range run {
			w.Bits = max(w.Bits, m.parties[p].own.BitsPerWeight)
		}
		spec := m.parties[run[0]].spec
		b, err := model.Plan(spec, w, m.mem/ofShares*passShare)
		var small *model.MemoryError
		if errors.As(err, &small) {
			if need := (small.Need + passMost - 1) / passMost * ofShares; need > m.mem {
				if m.o.Mem > 0 {
					return 0, &model.MemoryError{Need: need, Have: m.mem}
				}
				m.mem = need
			}
			b, err = model.Plan(spec, w, small.Need)
		}
		if err != nil {
			return 0, err
		}
		m.budgets[i] = b
		tokens = min(tokens, b.Tokens)
	}
	return tokens, nil
}

// bound gives a pass of the reference alone the memory that it has beside others.
func (m *measurement) bound(o *model.Options) {
	for i, run := range m.runs {
		if slices.Contains(run, 0) {
			m.budgets[i].Apply(o)
		}
	}
}

// wantedTokens is how many tokens go through the layers together where memory does
// not matter: enough that reading and expanding weights costs little beside using
// them, more where each token uses few of many experts.
func (m *measurement) wantedTokens() int {
	if m.o.Group > 0 {
		return m.o.Group
	}
	const usual = 4096
	if m.parties[0].own.Bytes < m.mem/8 { // weights stay in the page cache
		return usual
	}
	want := usual
	for i := range m.parties[0].spec.Layers {
		if moe := m.parties[0].spec.Layers[i].MoE; moe != nil && moe.TopK > 0 {
			want = max(want, usual*min(moe.Experts/moe.TopK/4, 16))
		}
	}
	return want
}
