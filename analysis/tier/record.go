package tier

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
)

// experts are where a model has routed experts; all layers must have as many, and a
// token must choose as many in each.
func experts(spec *model.Spec) (layers []int, n, topK int, err error) {
	if spec == nil {
		return nil, 0, 0, errors.New("tier: there is no forward pass for this model")
	}
	for i := range spec.Layers {
		l := &spec.Layers[i]
		if l.MoE == nil {
			continue
		}
		if k := min(l.MoE.TopK, l.MoE.Experts); n == 0 {
			n, topK = l.MoE.Experts, k
		} else if l.MoE.Experts != n || k != topK {
			return nil, 0, 0, fmt.Errorf("tier: layer %d chooses %d of %d experts, layers before it %d of %d", l.Index, k, l.MoE.Experts, topK, n)
		}
		layers = append(layers, l.Index)
	}
	if len(layers) == 0 {
		return nil, 0, 0, fmt.Errorf("tier: %s has no routed experts: every token needs every weight, and none can be colder", spec.Family)
	}
	return layers, n, topK, nil
}

// groupTokens is how many tokens go through the layers together where memory does not
// matter, and defaultMem what they may take where nothing is said.
const (
	groupTokens = 1 << 14
	defaultMem  = 2 << 30
)

// record takes texts through the forward pass and keeps the routers' choices.
func record(ctx context.Context, m Model, corpora []*corpus.Corpus, o Options) (*Trace, error) {
	layers, n, topK, err := experts(m.Spec)
	if err != nil {
		return nil, err
	}
	t := &Trace{Kind: Recorded, Layers: layers, Experts: n, TopK: topK}
	var chunks [][]int32
	longest := 0
	for _, c := range corpora {
		if c.Tokens() > 0 {
			t.Phases = append(t.Phases, Phase{c.Name, t.Tokens})
		}
		for _, ids := range c.Chunks {
			if len(ids) == 0 {
				continue
			}
			if len(ids) > maxChoices/(len(layers)*topK)-t.Tokens {
				return nil, fmt.Errorf("%w: texts of more than %d tokens make more than %d choices: take fewer chunks", ErrWorkload, t.Tokens, maxChoices)
			}
			chunks = append(chunks, ids)
			t.Tokens += len(ids)
			longest = max(longest, len(ids))
		}
	}
	if t.Tokens == 0 {
		return nil, fmt.Errorf("%w: texts of no tokens", ErrWorkload)
	}
	t.Choices = make([]uint16, t.Tokens*len(layers)*topK)
	return t, t.pass(ctx, m, chunks, longest, o)
}

// pass runs the chunks through the model in groups.
func (t *Trace) pass(ctx context.Context, m Model, chunks [][]int32, longest int, o Options) error {
	mem := o.Mem
	if mem <= 0 {
		mem = defaultMem
	}
	budget, err := model.Plan(m.Spec, model.Workload{Chunk: longest, Parties: 1, Threads: o.Threads, Bits: m.Bits}, mem)
	var small *model.MemoryError
	if errors.As(err, &small) && o.Mem <= 0 {
		budget, err = model.Plan(m.Spec, model.Workload{Chunk: longest, Parties: 1, Threads: o.Threads, Bits: m.Bits}, small.Need)
	}
	if err != nil {
		return err
	}
	src, err := m.Source()
	if err != nil {
		return err
	}
	index := map[int]int{}
	for i, l := range t.Layers {
		index[l] = i
	}
	begun, first, group := time.Now(), 0, 0
	po := model.Options{
		Set: o.Set, Threads: o.Threads, BF16: o.BF16,
		Routed: func(_, layer int, _ []float32, choices []model.Choice) {
			l, ok := index[layer]
			if !ok {
				return
			}
			for i := range choices {
				dst := t.Of(first+i, l)
				for k, e := range choices[i].Experts {
					dst[k] = uint16(e)
				}
			}
		},
		Done: func(_, layer int) {
			if o.Progress != nil {
				done := int64(first) + int64(group)*int64(layer+1)/int64(len(m.Spec.Layers))
				o.Progress(Progress{Stage: StageRouting, Budget: -1, Done: done, Of: int64(t.Tokens), Seconds: time.Since(begun).Seconds()})
			}
		},
	}
	budget.Apply(&po)
	pass := model.NewPass(m.Spec, []model.Source{src}, po)
	limit := min(groupTokens, max(budget.Tokens, longest))
	for at := 0; at < len(chunks); {
		if o.Pause != nil {
			if err := o.Pause(ctx); err != nil {
				return err
			}
		}
		end := at
		for group = 0; end < len(chunks) && (end == at || group+len(chunks[end]) <= limit); end++ {
			group += len(chunks[end])
		}
		if _, err := pass.Run(ctx, chunks[at:end]); err != nil {
			return fmt.Errorf("tier: routing of %s: %w", m.Label, err)
		}
		first += group
		at = end
	}
	return nil
}
