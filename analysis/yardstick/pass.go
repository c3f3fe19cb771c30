package yardstick

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
)

// measurement is the state of Measure. Party 0 is the reference, party 1+i is
// candidate i of the setup.
type measurement struct {
	setup   *Setup
	o       Options
	set     kernels.Set
	threads int
	mem     int64
	parties []*participant
	budgets []model.Budget // by run
	runs    [][]int        // parties whose architecture is the same go through one pass
	laps    []*laps        // by run
	groups  [][]chunkAt
	now     []chunkAt // the group that goes through the layers, and its tokens
	tokens  int64
	cache   *hiddenCache
	base    *base    // nil where the reference is a model
	out     *baseOut // nil where no file is asked for
	meter   *meter
	chunks  []*Chunk
	control chunkAt          // the first chunk of all, which checks are made on, whoever scored it
	first   []float32        // its hidden states under the reference; nil where it was not scored here
	where   []string         // by candidate: where its hidden states first were not finite
	texts   map[int32]string // of tokens that are in no corpus
}

type participant struct {
	label string
	own   *candidate.Candidate
	src   model.Source
	spec  *model.Spec
	bf16  bool
}

// chunkAt is a chunk of the corpora.
type chunkAt struct {
	corpus, index int
	ids           []int32
}

func newMeasurement(ctx context.Context, s *Setup, ref *candidate.Candidate, cands []*candidate.Candidate, o Options) (*measurement, error) {
	m := &measurement{
		setup: s, o: o, set: o.kernels(), threads: o.Threads, mem: o.Mem,
		where: make([]string, len(s.Candidates)), texts: map[int32]string{},
	}
	if m.threads <= 0 {
		m.threads = runtime.GOMAXPROCS(0)
	}
	if m.mem <= 0 {
		m.mem = defaultMem
	}
	all := append([]*candidate.Candidate{ref}, cands...)
	if len(s.Candidates) > len(cands) {
		all = append(all, ref)
	}
	for i, c := range all {
		if c.Arch == nil {
			return nil, fmt.Errorf("yardstick: %s has no architecture that is known", c.Label)
		}
		src, err := c.Source()
		if err != nil {
			return nil, err
		}
		p := &participant{label: c.Label, own: c, src: src, spec: c.Arch, bf16: o.BF16}
		if i > 0 {
			p.label = s.label(i - 1)
		}
		if i > 0 && s.Candidates[i-1].Floor && o.Base == nil {
			p.bf16 = !o.BF16
		}
		m.parties = append(m.parties, p)
	}
	m.runs = byArchitecture(m.parties)
	m.laps = make([]*laps, len(m.runs))
	m.openBase()
	var err error
	if m.cache, err = openCache(ctx, m); err != nil {
		return nil, err
	}
	return m, m.plan()
}

// close gives back what the measurement holds, and a file that was not completed.
func (m *measurement) close() {
	m.release()
	if m.out != nil {
		m.out.w.Abandon()
	}
}

// label is what a candidate is called; −1 is the reference.
func (s *Setup) label(candidate int) string {
	if candidate < 0 {
		return s.Reference.Label
	}
	return s.Candidates[candidate].Label
}

// byArchitecture puts parties together that can go through one pass. Widths of the
// vocabulary do not matter before the head.
func byArchitecture(parties []*participant) (runs [][]int) {
next:
	for i, p := range parties {
		for r, run := range runs {
			q := parties[run[0]].spec
			if p.spec == q || q.Hidden == p.spec.Hidden && q.Width() == p.spec.Width() && q.EmbedScale == p.spec.EmbedScale && reflect.DeepEqual(q.Hyper, p.spec.Hyper) && reflect.DeepEqual(q.Layers, p.spec.Layers) {
				runs[r] = append(runs[r], i)
				continue next
			}
		}
		runs = append(runs, []int{i})
	}
	return runs
}

// group takes chunks through all parties and scores them.
func (m *measurement) group(ctx context.Context, g []chunkAt) error {
	var tokens int64
	chunks := make([][]int32, len(g))
	for i, c := range g {
		chunks[i] = c.ids
		tokens += int64(len(c.ids))
	}
	hidden := make([][]float32, len(m.parties))
	if m.base != nil {
		hidden[0] = []float32{} // no pass for it
	}
	cached, err := m.cache.load(g)
	if err != nil {
		return err
	}
	if cached != nil {
		hidden[0] = cached
		m.meter.layer("reference", -1, len(m.parties[0].spec.Layers)-1, tokens*int64(len(m.parties[0].spec.Layers)))
	}
	for i := range m.runs {
		if err := m.run(ctx, i, g, chunks, tokens, hidden); err != nil {
			return err
		}
	}
	if cached == nil {
		m.cache.keep(g, hidden[0])
	}
	if g[0].corpus == m.control.corpus && g[0].index == m.control.index && m.base == nil {
		n := len(g[0].ids) * m.parties[0].spec.Width()
		m.first = append([]float32(nil), hidden[0][:n]...)
	}
	return m.score(ctx, g, hidden)
}

// laps are the parties of one architecture that go through a pass together, which
// is used again for group after group.
type laps struct {
	of   []int
	pass *model.Pass
}

// run fills in the hidden states of parties of one architecture that have none.
func (m *measurement) run(ctx context.Context, run int, g []chunkAt, chunks [][]int32, tokens int64, hidden [][]float32) error {
	var of []int
	for _, p := range m.runs[run] {
		if hidden[p] == nil {
			of = append(of, p)
		}
	}
	if len(of) == 0 {
		return nil
	}
	m.now, m.tokens = g, tokens
	if m.laps[run] == nil || !slices.Equal(m.laps[run].of, of) {
		m.laps[run] = m.newLaps(run, of)
	}
	out, err := m.laps[run].pass.Run(ctx, chunks)
	if err != nil {
		return m.named(of, err)
	}
	for i, h := range out {
		hidden[of[i]] = h.X
	}
	return nil
}

func (m *measurement) newLaps(run int, of []int) *laps {
	o := model.Options{
		Set: m.set, Threads: m.threads,
		Done: func(source, layer int) {
			stage := "candidates"
			if of[source] == 0 {
				stage = "reference"
			}
			m.meter.layer(stage, of[source]-1, layer, m.tokens)
		},
		NonFinite: func(source, layer int, e *model.NonFiniteError) error {
			return m.nonFinite(of[source], layer, m.now, e)
		},
	}
	var sources []model.Source
	for _, p := range of {
		sources, o.BF16Of = append(sources, m.parties[p].src), append(o.BF16Of, m.parties[p].bf16)
	}
	m.budgets[run].Apply(&o)
	return &laps{of, model.NewPass(m.parties[of[0]].spec, sources, o)}
}

// nonFinite ends the pass where it is the reference that is not finite, and notes
// the first place of a candidate.
func (m *measurement) nonFinite(party, layer int, g []chunkAt, e *model.NonFiniteError) error {
	at := g[min(e.Chunk, len(g)-1)]
	part := "embeddings"
	if layer >= 0 {
		part = fmt.Sprintf("layer %d", layer)
	}
	text := fmt.Sprintf("%s, corpus %s, chunk %d, position %d: channel %d is %g", part, m.setup.Corpora[at.corpus].Name, at.index, e.Position, e.Channel, e.Value)
	if party == 0 {
		return fmt.Errorf("%s: %w: %s", m.parties[0].label, ErrReference, text)
	}
	if m.where[party-1] == "" {
		m.where[party-1] = text
	}
	return nil
}

// named puts the label of the party before an error of a pass of one.
func (m *measurement) named(of []int, err error) error {
	if len(of) != 1 || errors.Is(err, ErrReference) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%s: %w", m.parties[of[0]].label, err)
}
