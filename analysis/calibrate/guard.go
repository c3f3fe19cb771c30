package calibrate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/analysis/candidate"
	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/topology"
)

// Errors that Prepare answers with, and callers tell apart.
var (
	ErrSetup     = errors.New("cannot be calibrated so")
	ErrTokenizer = errors.New("was made by another tokenizer")
)

// target is one matrix of a setup, and what was found out about it.
type target struct {
	index  int // into Setup.Matrices
	name   string
	at     model.Place
	input  model.Place // whose moments it wants; only where it is reached
	expert bool        // a routed expert's down: its input is what is routed to it
	params int64

	reached bool   // the pass multiplies something by it
	chosen  bool   // stays at the baseline because the person said so
	kept    bool   // stays as it is stored
	why     string // why it is not what was asked for; "" where it is, as far as is known
	as      string // what it is where why or chosen says that it is not what was asked for
}

// calibrated says whether the matrix wants moments.
func (t *target) calibrated() bool { return t.why == "" && !t.chosen }

// unit is what is made, written and synced together.
type unit struct {
	name    string
	layer   *model.Layer // nil of the head and of what is outside layers
	targets []int        // into Job.targets, in the order of Setup.Matrices
}

// The units that are no layers.
const (
	unitHead    = "head"
	unitOutside = "outside layers" // embeddings, and what the pass does not reach
)

func unitOf(l *model.Layer) string {
	if l.MTP {
		return fmt.Sprintf("mtp %d", l.Index)
	}
	return fmt.Sprintf("layer %d", l.Index)
}

// guards finds out for every matrix whether it can be calibrated, by the tensors
// that are there for that matrix.
type guards struct {
	*Job
	src    model.Source
	spec   *model.Spec
	dtypes map[string]string            // of tensors
	layers map[int]*model.Layer         // by index
	reads  map[int]map[model.Place]bool // by layer: places whose weight the pass multiplies by
	lack   map[int][]candidate.Need     // by layer: what the pass reads and is not there
	broken string                       // why nothing gets beyond the MTP layers so far; "" where it does
	brk    map[int]string               // the same, as it is when a layer begins
}

func newGuards(j *Job, src model.Source) *guards {
	g := &guards{
		Job: j, src: src, spec: j.s.Reference.Arch, dtypes: map[string]string{},
		layers: map[int]*model.Layer{}, reads: map[int]map[model.Place]bool{}, lack: map[int][]candidate.Need{}, brk: map[int]string{},
	}
	for i := range j.s.Reference.Topology.Tensors {
		t := &j.s.Reference.Topology.Tensors[i]
		g.dtypes[t.Name] = t.DType
	}
	return g
}

// check fills in targets and units.
func (g *guards) check() error {
	for i := range g.spec.Layers {
		if err := g.layer(&g.spec.Layers[i]); err != nil {
			return err
		}
	}
	for i := range g.spec.MTP {
		if err := g.layer(&g.spec.MTP[i]); err != nil {
			return err
		}
	}
	units := map[string]*unit{}
	for i := range g.s.Matrices {
		m := &g.s.Matrices[i]
		t := target{index: i, name: m.Name, at: placeOf(m.Role), params: int64(m.Rows) * int64(m.Cols)}
		name, layer := g.one(&t, m)
		u := units[name]
		if u == nil {
			u = &unit{name: name, layer: layer}
			units[name] = u
		}
		u.targets = append(u.targets, i)
		g.targets = append(g.targets, t)
	}
	add := func(name string) {
		if u := units[name]; u != nil {
			g.units = append(g.units, *u)
		}
	}
	add(unitOutside)
	for _, list := range [][]model.Layer{g.spec.Layers, g.spec.MTP} {
		for i := range list {
			add(unitOf(&list[i]))
		}
	}
	add(unitHead)
	return nil
}

// layer notes what the pass reads of a layer and what of that is missing. Decoder
// layers must be complete: nothing gets through the model otherwise.
func (g *guards) layer(l *model.Layer) error {
	reads := map[model.Place]bool{}
	for _, n := range candidate.LayerNeeds(g.spec, l) {
		if n.Param == "weight" {
			reads[n.At] = true
		}
		if !g.src.Has(n.At, n.Param) {
			g.lack[l.Index] = append(g.lack[l.Index], n)
		}
	}
	if head := l.OwnHead(); l.MTP && g.src.Has(head, "weight") {
		reads[head] = true
	}
	g.layers[l.Index], g.reads[l.Index], g.brk[l.Index] = l, reads, g.broken
	lack := g.lack[l.Index]
	switch {
	case len(lack) == 0:
	case !l.MTP && g.s.Saved == nil:
		return fmt.Errorf("calibrate: %s: %s of %s is not there, and without it nothing goes through the model: %w", g.s.Reference.Label, lack[0].Param, lack[0].At, ErrSetup)
	case g.broken == "":
		g.broken = fmt.Sprintf("what goes into it comes out of %s, whose %s of %s is not there", unitOf(l), lack[0].Param, lack[0].At)
	}
	return nil
}

func placeOf(r topology.Role) model.Place {
	return model.Place{Kind: r.Kind, Layer: r.Layer, Expert: r.Expert, Projection: r.Projection}
}

// one finds out about one matrix, and in which unit it is.
func (g *guards) one(t *target, m *topology.Matrix) (string, *model.Layer) {
	name, layer := g.place(t, m.Role)
	if d := g.dtypes[m.Tensor]; !readable(d) {
		t.keep(strings.ToLower(d), fmt.Sprintf("is stored as %s; BF16, F16 and F32 can be quantized", d))
		return name, layer
	}
	if !g.src.Has(t.at, "weight") {
		t.keep(strings.ToLower(g.dtypes[m.Tensor]), "is not one of the matrices that can be read as a part of the model")
		return name, layer
	}
	f, err := kernels.FormatByName(g.s.Variant.Scheme)
	if err == nil {
		_, err = f.Bytes(m.Rows, m.Cols)
	}
	if err != nil {
		t.keep(strings.ToLower(g.dtypes[m.Tensor]), err.Error())
		return name, layer
	}
	if t.why == "" && t.reached {
		g.inputs(t, layer)
	}
	if t.why != "" {
		t.as = g.base.Name
		return name, layer
	}
	if len(g.s.Only) > 0 && !slices.Contains(g.s.Only, m.Role.Projection) {
		t.chosen, t.as = true, g.base.Name
		return name, layer
	}
	g.saved(t)
	return name, layer
}

// keep leaves a matrix as it is stored.
func (t *target) keep(as, why string) { t.kept, t.as, t.why = true, as, why }

// readable says whether matrices of a type can be quantized.
func readable(dtype string) bool { return dtype == "BF16" || dtype == "F16" || dtype == "F32" }

// place says where in the pass a matrix stands, and whether it does.
func (g *guards) place(t *target, r topology.Role) (string, *model.Layer) {
	switch {
	case r.Kind == topology.Embedding:
		t.why = "an embedding is looked up, not multiplied: nothing goes into it that could be measured"
		if g.spec.Tied {
			t.why += "; the head is the same matrix, so this changes both"
		}
		return unitOutside, nil
	case r.Kind == topology.Head && !r.MTP:
		t.reached, t.input = true, t.at
		return unitHead, nil
	}
	if r.Layer < 0 && model.Embeds(t.at) {
		t.why = "it stands before the layers, where nothing is measured here"
		return unitOutside, nil
	}
	l := g.layers[r.Layer]
	if l == nil || l.MTP != r.MTP || !g.reads[r.Layer][t.at] {
		t.why = "the forward pass here does not read it, so what goes into it is not known"
		return unitOutside, nil
	}
	t.reached = true
	t.input = model.InputOf(t.at, l.Behind())
	t.expert = t.at.Kind == topology.Expert && t.input.Expert >= 0
	return unitOf(l), l
}

// inputs says why the inputs of a matrix cannot be measured, where they cannot.
func (g *guards) inputs(t *target, l *model.Layer) {
	if l == nil || g.s.Saved != nil {
		return
	}
	if why := g.brk[l.Index]; why != "" {
		t.why = why
		return
	}
	for _, n := range g.lack[l.Index] {
		// What other experts lack is no concern of this one.
		if n.At.Expert >= 0 && (n.At.Expert != t.at.Expert || !t.expert) {
			continue
		}
		t.why = fmt.Sprintf("%s of %s is not there, which what goes into it comes through", n.Param, n.At)
		return
	}
}

// saved says why saved moments do not serve a matrix, where they do not.
func (g *guards) saved(t *target) {
	f := g.s.Saved
	switch {
	case f == nil || f.Has(t.input, g.s.Variant.NeedsHessian()):
		return
	case f.Has(t.input, false):
		t.why = fmt.Sprintf("%s has second moments of %s and no Hessian, which %s needs", f.path, t.input, g.s.Variant.Name)
	default:
		t.why = fmt.Sprintf("%s has nothing of %s", f.path, t.input)
	}
	t.as = g.base.Name
}

// only wants the projections that are calibrated to be those of some matrix.
func (s *Setup) only() error {
	var known []string
	for i := range s.Matrices {
		if p := s.Matrices[i].Role.Projection; p != "" && !slices.Contains(known, p) {
			known = append(known, p)
		}
	}
	for _, p := range s.Only {
		if !slices.Contains(known, p) {
			return fmt.Errorf("calibrate: projection %q: no matrix is one: %w (known: %s)", p, ErrSetup, strings.Join(known, ", "))
		}
	}
	return nil
}

// check refuses a setup that no run can come of, before anything is read.
func (s *Setup) check() error {
	v := &s.Variant
	switch {
	case s.Reference == nil || s.Reference.Topology == nil || s.Reference.Arch == nil:
		return fmt.Errorf("calibrate: %s: there is no forward pass to measure inputs with: %w", v.Name, ErrSetup)
	case !v.Calibrated():
		return fmt.Errorf("calibrate: variant %q reads no inputs, so there is nothing to calibrate: %w", v.Name, ErrSetup)
	case len(s.Matrices) == 0:
		return fmt.Errorf("calibrate: %s: no matrices to quantize: %w", v.Name, ErrSetup)
	case s.Damp < 0 || math.IsNaN(s.Damp) || math.IsInf(s.Damp, 0):
		return fmt.Errorf("calibrate: damping of %v is none: %w", s.Damp, ErrSetup)
	case s.Corpus == nil && s.Saved == nil:
		return fmt.Errorf("calibrate: %s: %w, or moments that were saved", v.Name, ErrNoText)
	}
	if _, err := v.Baseline().WithConvention(v.Spec.Convention); err != nil {
		return fmt.Errorf("calibrate: %w", err)
	}
	if err := s.only(); err != nil {
		return err
	}
	if s.Saved != nil {
		if id := s.Saved.Header.Source; id != "" && id != s.Reference.Identity {
			return fmt.Errorf("calibrate: %s is of checkpoint %.12s, %s is %.12s: %w", s.Saved.path, id, s.Reference.Label, s.Reference.Identity, ErrSetup)
		}
		return nil
	}
	return s.text()
}

// text holds the text against the model's vocabulary and tokenizer.
func (s *Setup) text() error {
	c, ref := s.Corpus, s.Reference
	if c.Tokens() == 0 {
		return fmt.Errorf("calibrate: corpus %s has no tokens: %w", c.Name, ErrSetup)
	}
	for k, chunk := range c.Chunks {
		for i, id := range chunk {
			if id < 0 || int(id) >= ref.Arch.Vocab {
				return fmt.Errorf("calibrate: corpus %s: token id %d at chunk %d, position %d, is outside the vocabulary of %d of %s: %w", c.Name, id, k, i, ref.Arch.Vocab, ref.Label, ErrSetup)
			}
		}
	}
	if c.Tokenizer == "" || ref.TokenizerID == "" || c.Tokenizer == ref.TokenizerID {
		return nil
	}
	if c.Behaviour != "" && ref.Tokenizer != nil && c.Behaviour == ref.Tokenizer.Behaviour() {
		return nil // written otherwise, with the same tokens and ids
	}
	return fmt.Errorf("calibrate: corpus %s %w: %.12s, that of %s is %.12s", c.Name, ErrTokenizer, c.Tokenizer, ref.Label, ref.TokenizerID)
}
