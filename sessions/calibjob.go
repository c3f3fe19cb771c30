package sessions

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"quantscope/analysis/calibrate"
	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/quant/codes"
	"quantscope/quant/demo"
	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// jobCalibrator makes the calibrated variants of a checkpoint.
type jobCalibrator struct {
	o        Options // as they were given
	targets  string  // as the session says it
	matrices []topology.Matrix
}

// codesOf is the folder of a variant's codes beside a session.
func codesOf(session, variant string) string { return filepath.Join(session+".codes", variant) }

func (j *jobCalibrator) prepare(ctx context.Context, w calibWant) (_ preparedCalib, err error) {
	p := &readyCalib{want: w}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	o := &j.o.Calibration
	s := calibrate.Setup{
		Targets: j.targets, Matrices: j.matrices, Globals: j.o.globals(), Only: o.Only, Damp: o.Damp, Codes: j.folder(w),
		Set: j.o.KernelSet, Threads: j.o.Threads, Mem: j.o.MemBytes, Program: w.env.Program,
	}
	if s.Mem <= 0 {
		s.Mem = defaultCalibMem
	}
	if s.Variant, err = j.o.variant(w.variant); err != nil {
		return nil, err
	}
	if p.ref, err = candidate.Open(ctx, j.o.Checkpoint, candidate.Options{Set: j.o.KernelSet, Threads: j.o.Threads}); err != nil {
		return nil, err
	}
	s.Reference = p.ref
	var there *codes.Manifest
	if codes.IsStore(s.Codes) {
		if there, err = j.found(&s, p); err != nil {
			return nil, err
		}
	} else if o.FromCodes {
		return nil, &CodesError{s.Codes, "there are none to go on from"}
	}
	if w.prior != nil {
		if there == nil {
			s.Only, s.Damp = orList(s.Only, w.prior.Setup.Only), cmp.Or(s.Damp, w.prior.Setup.Damp)
		}
		if n := len(w.prior.Units); n > 0 && there == nil {
			p.said = append(p.said, calibNote{fmt.Sprintf("the codes of %s that were made before are not in %s: %s made again", w.variant, s.Codes, count(int64(n), "unit")), "codes-gone"})
		}
	}
	if err := j.inputs(ctx, &s, p, w); err != nil {
		return nil, err
	}
	if p.job, err = calibrate.Prepare(ctx, s); err != nil {
		return nil, err
	}
	now := p.job.Manifest()
	if there != nil {
		if d := there.Differs(s.Codes, &now); d != nil {
			return nil, d
		}
	}
	p.describe(&s, &now)
	return p, nil
}

// folder is where the codes of a variant are, or go.
func (j *jobCalibrator) folder(w calibWant) string {
	if dir := j.o.Calibration.Codes; dir != "" {
		return dir
	}
	beside := codesOf(w.session, w.variant)
	if w.prior != nil && w.prior.Setup.Codes != "" && !codes.IsStore(beside) && codes.IsStore(w.prior.Setup.Codes) {
		return w.prior.Setup.Codes
	}
	return beside
}

// found takes over what a folder of codes says of itself where the user says
// nothing, its text above all.
func (j *jobCalibrator) found(s *calibrate.Setup, p *readyCalib) (*codes.Manifest, error) {
	store, err := codes.Open(s.Codes)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	m := store.Manifest()
	if m.Source != p.ref.Identity {
		return nil, &CodesError{s.Codes, fmt.Sprintf("they are of another checkpoint (identity %.12s, not %.12s)", m.Source, p.ref.Identity)}
	}
	s.Only, s.Damp = orList(s.Only, m.Only), cmp.Or(s.Damp, m.Damp)
	if o := &j.o.Calibration; o.Corpus != "" || o.File != "" || m.Inputs != InputsSequential {
		return &m, nil
	} else if o.Chunk > 0 || o.Chunks > 0 { // the same text, which may now be cut otherwise
		p.text = textOf(m.Corpus.Name, m.Corpus.Source)
		return &m, nil
	}
	ids, err := store.Chunks()
	if err != nil {
		return nil, err
	}
	c := &corpus.Corpus{Name: m.Corpus.Name, Source: m.Corpus.Source, Chunks: ids, Tokenizer: m.Corpus.Tokenizer, Calib: true, Begin: -1}
	if n, err := hex.Decode(c.SHA256[:], []byte(m.Corpus.SHA256)); err != nil || n != len(c.SHA256) {
		return nil, &CodesError{s.Codes, fmt.Sprintf("they are of a text with the SHA-256 %q, which is none", m.Corpus.SHA256)}
	}
	s.Corpus = c
	return &m, nil
}

// inputs finds what is calibrated on: saved moments, or a text.
func (j *jobCalibrator) inputs(ctx context.Context, s *calibrate.Setup, p *readyCalib, w calibWant) (err error) {
	o := &j.o.Calibration
	if o.File != "" {
		if p.saved, err = calibrate.OpenFile(ctx, o.File); err != nil {
			return err
		}
		for _, n := range p.saved.Notes() {
			p.said = append(p.said, calibNote{o.File + ": " + n, "calibration"})
		}
		s.Saved, s.Corpus = p.saved, nil
		return p.saved.Check(p.ref)
	}
	if s.Corpus != nil {
		return nil
	}
	co := corpus.Options{Tokenizer: p.ref.Tokenizer, Chunk: o.Chunk, Chunks: o.Chunks, Calib: true}
	if p.ref.Arch != nil {
		co.Vocab = p.ref.Arch.Vocab
	}
	name := cmp.Or(o.Corpus, p.text)
	if name == "" && w.prior != nil {
		name = textOf(w.prior.Setup.Corpus, w.prior.Setup.CorpusSource)
	}
	name = cmp.Or(name, demo.Calibration)
	list, err := corpus.Load(ctx, name, co)
	switch {
	case errors.Is(err, corpus.ErrNotDemo) && o.Corpus == "":
		return fmt.Errorf("variant %s %w: none is named (--calib FILE), and the embedded one is of the demo's tokenizer, which %s does not have", w.variant, calibrate.ErrNoText, p.ref.Label)
	case err != nil && p.ref.Tokenizer == nil && p.ref.TokenizerErr != nil:
		return fmt.Errorf("%w (the checkpoint's tokenizer: %w)", err, p.ref.TokenizerErr)
	case err != nil:
		return err
	case len(list) != 1:
		return fmt.Errorf("%w: %s holds %d texts, and a variant is calibrated on one: corpus build makes one of several", ErrCorpus, name, len(list))
	}
	s.Corpus = list[0]
	return nil
}

// textOf is what loads a text again that is called so and comes from there; "" where
// nothing is known of it.
func textOf(name, source string) string {
	if corpus.Embedded(source) {
		return name
	}
	file, _, _ := strings.Cut(source, "#") // one of several in a file
	return file
}

// calibNote is something that a person should know of a calibration.
type calibNote struct{ message, code string }

// readyCalib is a calibrated run over a checkpoint.
type readyCalib struct {
	want  calibWant
	ref   *candidate.Candidate
	saved *calibrate.File // nil without one
	text  string          // that codes were made by, where it is to be read again
	job   *calibrate.Job
	of    CalibrationSetup
	said  []calibNote
}

// describe makes the setup that a session keeps.
func (p *readyCalib) describe(s *calibrate.Setup, m *codes.Manifest) {
	p.of = CalibrationSetup{
		Variant: p.want.id, Damp: m.Damp, Only: m.Only, Inputs: m.Inputs, Codes: s.Codes, Units: p.job.Units(), Rank: p.job.Rank(),
		Program: p.want.env.Program, KernelSet: p.want.env.KernelSet,
	}
	c := m.Corpus
	if p.saved != nil {
		c = p.saved.Header.Corpus
	}
	p.of.Corpus, p.of.CorpusSource, p.of.CorpusSHA, p.of.Chunks, p.of.Tokens = c.Name, c.Source, c.SHA256, c.Chunks, c.Tokens
	for i := range s.Matrices {
		p.of.ParamsOfAll += int64(s.Matrices[i].Rows) * int64(s.Matrices[i].Cols)
	}
}

func (p *readyCalib) setup() CalibrationSetup { return p.of }
func (p *readyCalib) notes() []calibNote      { return p.said }

func (p *readyCalib) run(ctx context.Context, sink calibrate.Sink) (*calibrate.Outcome, error) {
	return p.job.Run(ctx, sink)
}

func (p *readyCalib) close() error {
	var errs []error
	if p.saved != nil {
		errs = append(errs, p.saved.Close())
	}
	if p.ref != nil {
		errs = append(errs, p.ref.Close())
	}
	p.saved, p.ref = nil, nil
	return errors.Join(errs...)
}

// orList is a list, or another where there is none.
func orList(list, other []string) []string {
	if list == nil {
		return other
	}
	return list
}

// CodesOrigin says what a folder of codes is of, for a run that goes on from it.
type CodesOrigin struct {
	Variant, Targets, GlobalScale, Convention string // as Options has them; Targets "" for the default
	Whole                                     bool
	Missing                                   []string // units
}

// TakeCodes sets what of the options decides the arithmetic to what codes were made
// with, where nothing else is asked for.
func (o *Options) TakeCodes(from CodesOrigin) error {
	if o.GlobalScale == "" {
		o.GlobalScale = from.GlobalScale
	}
	v, err := o.variant(from.Variant)
	if err != nil || o.Compat != "" || v.Spec.Convention.String() == from.Convention {
		return err
	}
	o.Compat = from.Convention
	_, err = o.variant(from.Variant)
	return err
}

// ReadCodes looks at a folder of codes.
func ReadCodes(dir string) (CodesOrigin, error) {
	if !codes.IsStore(dir) {
		return CodesOrigin{}, &CodesError{dir, "it " + codes.NoStore(dir)}
	}
	s, err := codes.Open(dir)
	if err != nil {
		return CodesOrigin{}, err
	}
	defer s.Close()
	m := s.Manifest()
	o := CodesOrigin{Variant: m.Variant, Targets: m.Targets, GlobalScale: m.GlobalScale, Convention: m.Convention, Whole: s.Whole(), Missing: s.Missing()}
	switch m.Targets {
	case "default", recipe.DefaultExperts, recipe.DefaultDense:
		o.Targets = ""
	}
	return o, nil
}
