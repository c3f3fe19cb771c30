package calibrate

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"time"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/codes"
)

// MeasureSetup says what moments are measured of. It is not changed once handed
// over.
type MeasureSetup struct {
	Reference *candidate.Candidate
	Corpus    *corpus.Corpus
	Hessians  bool // not only second moments
	Set       kernels.Set
	Threads   int
	Mem       int64 // bytes; 0: 2 GiB
	Program   string
}

// MeasureJob is a MeasureSetup that was checked: all inputs of a model, measured
// in one walk through its own weights.
type MeasureJob struct {
	s      MeasureSetup
	units  []KeptUnit
	layers map[string]*model.Layer
	budget Budget
	notes  []string
}

// PrepareMeasure checks a setup: the text's ids and tokenizer, the layers' tensors,
// and memory, *MemoryError where it is not enough. MTP layers that lack a tensor are
// left out, and noted.
func PrepareMeasure(ctx context.Context, s MeasureSetup) (*MeasureJob, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.Set.Name == "" {
		s.Set = kernels.Best()
	}
	if s.Threads <= 0 {
		s.Threads = runtime.GOMAXPROCS(0)
	}
	if s.Mem == 0 {
		s.Mem = defaultMem
	}
	if s.Reference.Arch == nil {
		return nil, fmt.Errorf("calibrate: %s has no forward pass here: %w", s.Reference.Label, ErrSetup)
	}
	text := Setup{Reference: s.Reference, Corpus: s.Corpus}
	if err := text.text(); err != nil {
		return nil, err
	}
	src, err := s.Reference.Source()
	if err != nil {
		return nil, err
	}
	defer src.Release()
	j := &MeasureJob{s: s, layers: map[string]*model.Layer{}}
	spec := *s.Reference.Arch
	spec.MTP = j.whole(&spec, src)
	for _, list := range [][]model.Layer{spec.Layers, spec.MTP} {
		for i := range list {
			j.layers[UnitName(&list[i])] = &list[i]
		}
	}
	j.units = AllInputs(&spec, src, s.Hessians)
	load := Load{Rows: s.Corpus.Tokens(), Threads: s.Threads, Bits: bitsOf(s.Reference), Wants: func(l *model.Layer) []Want {
		if l == nil {
			return j.wants(headUnit, src)
		}
		return j.wants(UnitName(l), src)
	}}
	for _, c := range s.Corpus.Chunks {
		load.Chunk = max(load.Chunk, len(c))
	}
	j.budget, err = Predict(s.Reference.Arch, load, s.Mem)
	return j, err
}

// bitsOf are those of the widest weights.
func bitsOf(c *candidate.Candidate) float64 {
	for i := range c.Topology.Tensors {
		if c.Topology.Tensors[i].DType == "F32" {
			return 32
		}
	}
	return 16
}

// whole are the MTP layers up to the first that lacks a tensor: nothing gets
// beyond it.
func (j *MeasureJob) whole(s *model.Spec, src model.Source) []model.Layer {
	for i := range s.MTP {
		for _, n := range candidate.LayerNeeds(s, &s.MTP[i]) {
			if !src.Has(n.At, n.Param) {
				j.notes = append(j.notes, fmt.Sprintf("%s is left out, and what is behind it: the %s of %s is not there", UnitName(&s.MTP[i]), n.Param, n.At))
				return s.MTP[:i]
			}
		}
	}
	return s.MTP
}

// wants is what is asked for of a unit.
func (j *MeasureJob) wants(unit string, src model.Source) []Want {
	var list []Input
	if l := j.layers[unit]; l != nil {
		list = Inputs(j.s.Reference.Arch, l, OwnHead(src, l))
	} else {
		list = []Input{HeadInput(j.s.Reference.Arch, src)}
	}
	out := make([]Want, len(list))
	for i := range list {
		out[i] = Want{Input: list[i], Hessian: j.s.Hessians}
	}
	return out
}

// Units are what is measured, in this order.
func (j *MeasureJob) Units() []KeptUnit { return j.units }

// Budget says how memory is shared out.
func (j *MeasureJob) Budget() Budget { return j.budget }

// Notes are what a person should know, one a line.
func (j *MeasureJob) Notes() []string { return j.notes }

// Header is that of the file in which the moments are kept.
func (j *MeasureJob) Header() Header {
	return NewHeader(j.s.Reference, j.s.Corpus, ThroughReference, j.s.Hessians, j.s.Program)
}

// NewHeader is the header of a file that is to be measured.
func NewHeader(ref *candidate.Candidate, c *corpus.Corpus, through string, hessians bool, program string) Header {
	return Header{
		Format: fileFormat, Source: ref.Identity, Family: ref.Arch.Family, Through: through, Hessians: hessians, Numerics: numerics, Program: program,
		Corpus: codes.Corpus{Name: c.Name, Source: c.Source, SHA256: hex.EncodeToString(c.SHA256[:]), Tokenizer: c.Tokenizer, Chunks: len(c.Chunks), Tokens: c.Tokens()},
	}
}

// Run measures what the file does not have yet. ctx ends it; units that are done
// stay. Of sink, Progress, Counts and Unit are told; Counts of units that were there
// too.
func (j *MeasureJob) Run(ctx context.Context, w *FileWriter, sink Sink) (err error) {
	src, err := j.s.Reference.Source()
	if err != nil {
		return err
	}
	m := &measuring{MeasureJob: j, w: w, sink: sink, src: src, get: NewCollector(CollectOptions{Set: j.s.Set, Threads: j.s.Threads, Mem: j.budget.Moments})}
	last := -1
	for i, u := range j.units {
		if !w.Has(u.Name) {
			last = i
		}
	}
	if last >= 0 {
		m.walk, err = model.NewWalk(ctx, j.s.Reference.Arch, src, j.s.Corpus.Chunks, model.WalkOptions{
			Set: j.s.Set, Threads: j.s.Threads, Wave: j.budget.Wave, Tile: j.budget.Tile, Step: m.step,
		})
		if err != nil {
			src.Release()
			return m.about(ctx, err)
		}
		defer func() { err = errors.Join(err, m.walk.Close()) }()
	}
	for i, u := range j.units {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.unit(ctx, u, i, last); err != nil {
			return err
		}
		m.done++
	}
	return nil
}

type measuring struct {
	*MeasureJob
	w      *FileWriter
	sink   Sink
	src    model.Source
	walk   *model.Walk
	get    *Collector
	done   int
	tokens int64
	now    Progress // of what the text goes through
}

// unit measures a unit, or passes one that was measured.
func (m *measuring) unit(ctx context.Context, u KeptUnit, i, last int) error {
	began := time.Now()
	rows := int64(0)
	if i <= last {
		if rows = int64(m.walk.Rows()); u.Name == headUnit {
			rows = m.s.Corpus.Tokens()
		}
	}
	switch {
	case m.w.Has(u.Name):
		if i < last && u.Name != headUnit {
			m.tell(u.Name, "passing", 0, rows)
			if err := m.walk.Pass(ctx, m.src); err != nil {
				return m.about(ctx, err)
			}
		}
	default:
		m.tell(u.Name, "looking", 0, rows)
		if err := m.measure(ctx, u); err != nil {
			return m.about(ctx, err)
		}
	}
	m.tokens += rows
	m.tell(u.Name, "looking", rows, rows)
	if c := m.w.Counts(u.Name); c != nil && m.sink.Counts != nil {
		m.sink.Counts(*c)
	}
	if m.sink.Unit != nil {
		return m.sink.Unit(u.Name, time.Since(began).Seconds())
	}
	return nil
}

// measure measures a unit and keeps it.
func (m *measuring) measure(ctx context.Context, u KeptUnit) error {
	out, err := m.w.Begin(u.Name)
	if err != nil {
		return err
	}
	defer out.Abandon()
	var counts *Counts
	each := func(w Wave) error {
		counts = w.Counts
		for _, mo := range w.Moments {
			if err := out.Add(mo); err != nil {
				return err
			}
		}
		return nil
	}
	wants := m.wants(u.Name, m.src)
	if u.Name == headUnit {
		err = m.get.Head(ctx, m.walk, m.src, wants[0], each)
	} else {
		err = m.get.LayerPass(ctx, m.walk, m.src, wants, each)
	}
	if err != nil {
		return err
	}
	return out.Commit(counts)
}

func (m *measuring) tell(unit, step string, at, of int64) {
	m.now = Progress{Unit: unit, Units: len(m.units), Done: m.done, Step: step, At: at, Of: of, Tokens: m.tokens}
	if m.sink.Progress != nil {
		m.sink.Progress(m.now)
	}
}

// step tells how far the text is in a layer.
func (m *measuring) step(rows int) {
	if m.sink.Progress != nil {
		p := m.now
		p.At, p.Tokens = int64(rows), p.Tokens+int64(rows)
		m.sink.Progress(p)
	}
}

// about says what an error is about; the end of ctx stays what it is.
func (m *measuring) about(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("calibrate: %s: %w", m.s.Reference.Label, err)
}
