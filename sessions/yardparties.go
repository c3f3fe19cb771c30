package sessions

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"quantscope/analysis/candidate"
	"quantscope/analysis/corpus"
	"quantscope/analysis/yardstick"
	"quantscope/analysis/yardstick/kld"
	"quantscope/quant/demo"
)

// parties are all that a measurement reads, opened.
type parties struct {
	ref        *candidate.Candidate
	candidates []*candidate.Candidate
	opened     []*candidate.Candidate // to be closed; what is derived of others is not
	corpora    []*corpus.Corpus
	base       *kld.Reader       // nil without one
	options    yardstick.Options // of the request
	setup      *yardstick.Setup
}

// ErrNoCorpus is wrapped where a measurement has nothing to be over, ErrCorpus where
// what it is over is said twice, ErrLabel where two candidates have one name.
var (
	ErrNoCorpus = errors.New("no corpus is named")
	ErrCorpus   = errors.New("no other corpus can be named")
	ErrLabel    = errors.New("two candidates are called")
)

// open opens the reference at path, and everything else that the request names.
// Nothing is computed but the codes of calibrated variants that were not made
// before. identity is that which the reference must have; "" for any.
func (r *MeasureRequest) open(ctx context.Context, path, identity string) (p *parties, err error) {
	p = &parties{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	o := p.candidateOptions(r)
	if err := p.openReference(ctx, path, identity, o); err != nil {
		return p, err
	}
	if len(r.Candidates) == 0 {
		return p, errors.New("no candidate is named")
	}
	if err := p.read(ctx, r); err != nil {
		return p, err
	}
	for _, spec := range r.Candidates {
		c, err := p.parse(ctx, spec, o)
		if err != nil {
			return p, err
		}
		if err := p.add(c); err != nil {
			return p, err
		}
	}
	if err := p.derive(ctx, r, o); err != nil {
		return p, err
	}
	if err := p.addBaselines(o); err != nil {
		return p, err
	}
	p.options = yardstick.Options{
		Set: r.KernelSet, Threads: r.Threads, Mem: r.MemBytes, BF16: r.BF16, Half: r.Half, NoFloor: r.NoFloor, Probe: r.Probe,
		Cache: r.Cache, Seed: r.Seed, Program: r.Program, Ceiling: r.Ceiling, Keep: r.Keep, Targets: r.Targets,
		Derived: p.options.Derived, Calib: p.options.Calib, Warn: r.Warn, Base: p.base, BaseOut: r.BaseOut,
	}
	p.setup, err = yardstick.NewSetup(p.ref, p.candidates, p.corpora, p.options)
	return p, err
}

// candidateOptions are how candidates are opened.
func (p *parties) candidateOptions(r *MeasureRequest) candidate.Options {
	o := candidate.Options{Set: r.KernelSet, Threads: r.Threads, Targets: r.Targets, Mem: r.MemBytes / 4, Recover: !r.AsStored, Layout: r.Layout, Export: newestExport}
	o.Calibrate = p.calibrate(r)
	o.Digest = func(ctx context.Context, path string) (string, error) { return yardstick.Digest(ctx, r.Cache, path) }
	o.Recipe, o.Tier = r.held.recipe, r.held.tier
	return o
}

// openReference opens the reference, which must have an identity; "" for any.
func (p *parties) openReference(ctx context.Context, path, identity string, o candidate.Options) (err error) {
	ref, err := candidate.Open(ctx, path, o)
	if err != nil {
		return err
	}
	if identity != "" && ref.Identity != identity {
		err := fmt.Errorf("%s is another checkpoint than the session's (identity %.12s, not %.12s)", path, ref.Identity, identity)
		return errors.Join(err, ref.Close())
	}
	p.ref, p.opened = ref, append(p.opened, ref)
	return nil
}

// read loads the texts, and refuses ones that share too much before anything is
// calibrated on them.
func (p *parties) read(ctx context.Context, r *MeasureRequest) (err error) {
	if r.Base != "" {
		err = p.openBase(r)
	} else {
		p.corpora, err = p.texts(ctx, r.Corpora, r, false)
	}
	if err != nil || len(r.Calib) == 0 {
		return err
	}
	if p.options.Calib, err = p.texts(ctx, r.Calib, r, true); err != nil {
		return err
	}
	return p.disjoint(p.options.Calib)
}

// disjoint refuses texts to be measured on that share too much with those that are
// calibrated on.
func (p *parties) disjoint(calib []*corpus.Corpus) error {
	for _, c := range p.corpora {
		for _, k := range calib {
			shared, err := corpus.Overlap(c, k)
			if err == nil {
				err = shared.Err()
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *parties) parse(ctx context.Context, spec string, o candidate.Options) (*candidate.Candidate, error) {
	c, err := candidate.Parse(ctx, p.ref, spec, o)
	if err != nil {
		return nil, err
	}
	if c != p.ref {
		p.opened = append(p.opened, c)
	}
	return c, nil
}

// add appends a candidate. Tables and documents name candidates by their labels,
// so that two of one label are refused.
func (p *parties) add(c *candidate.Candidate) error {
	if slices.ContainsFunc(p.candidates, func(o *candidate.Candidate) bool { return o.Label == c.Label }) {
		return fmt.Errorf("%w %q; LABEL=%s gives one another name", ErrLabel, c.Label, c.Spec)
	}
	p.candidates = append(p.candidates, c)
	return nil
}

// derive adds the rows of attribution to each candidate.
func (p *parties) derive(ctx context.Context, r *MeasureRequest, o candidate.Options) error {
	asked := slices.Clone(p.candidates)
	row := func(of int, how, part string, c *candidate.Candidate, err error) error {
		if err != nil {
			return err
		}
		p.options.Derived = append(p.options.Derived, yardstick.Derived{Row: len(p.candidates), Of: of, How: how, Part: part})
		return p.add(c)
	}
	var head, body *candidate.Candidate
	var err error
	if r.HeadFrom != "" {
		if head, err = p.parse(ctx, r.HeadFrom, o); err != nil {
			return err
		}
	}
	if r.BodyFrom != "" {
		if body, err = p.parse(ctx, r.BodyFrom, o); err != nil {
			return err
		}
	}
	idle := map[string][]string{} // what changes nothing: in which candidates
	mix := func(i int, how string, k *candidate.Candidate, err error) error {
		if err != nil {
			return err
		}
		same, err := candidate.Same(k, asked[i])
		if err != nil {
			return err
		}
		if same {
			idle[how] = append(idle[how], asked[i].Label)
			return nil
		}
		return row(i, how, "", k, nil)
	}
	for i, c := range asked {
		if r.Keep != "" {
			k, err := candidate.Keep(p.ref, c, r.Keep)
			if err := mix(i, "keep "+r.Keep, k, err); err != nil {
				return err
			}
		}
		if head != nil {
			k, err := candidate.WithHead(c, head)
			if err := mix(i, "head from "+head.Label, k, err); err != nil {
				return err
			}
		}
		if body != nil {
			k, err := candidate.WithBody(c, body)
			if err := mix(i, "body from "+body.Label, k, err); err != nil {
				return err
			}
		}
		if !r.Attribute {
			continue
		}
		parts, err := candidate.Parts(p.ref, c)
		if err != nil {
			return err
		}
		for _, part := range parts {
			k, err := candidate.Only(p.ref, c, part.Name)
			if err := row(i, "only "+part.Name, part.Name, k, err); err != nil {
				return err
			}
		}
	}
	for _, how := range slices.Sorted(maps.Keys(idle)) {
		if r.Warn != nil {
			r.Warn(how + " changes nothing in " + strings.Join(idle[how], ", ") + ": no row is added")
		}
	}
	return nil
}

// newestExport is where the newest whole export of a session lies.
func newestExport(ctx context.Context, session string) (string, error) {
	l, err := loadFile(ctx, session)
	if err != nil {
		return "", err
	}
	for _, x := range slices.Backward(l.st.Exports) {
		if x.State == ExportWhole {
			return x.Place(), nil
		}
	}
	return "", &FileError{Path: session, Reason: "holds no whole export: quantize with --out makes one"}
}

// openBase opens the file that is the reference.
func (p *parties) openBase(r *MeasureRequest) (err error) {
	if len(r.Corpora) > 0 {
		return fmt.Errorf("%w beside %s: its texts are the corpus", ErrCorpus, r.Base)
	}
	if p.base, err = kld.Open(r.Base); err != nil {
		return err
	}
	bos := int32(-1)
	if p.ref.Tokenizer != nil {
		if id, adds := p.ref.Tokenizer.Begin(); adds {
			bos = id
		}
	}
	p.corpora = []*corpus.Corpus{yardstick.BaseCorpus(p.base, bos)}
	return nil
}

// texts loads corpora; for evaluation, with none named, the embedded ones.
func (p *parties) texts(ctx context.Context, names []string, r *MeasureRequest, calib bool) ([]*corpus.Corpus, error) {
	o := corpus.Options{Tokenizer: p.ref.Tokenizer, Chunk: r.Chunk, Chunks: r.Chunks, Calib: calib}
	if calib {
		o.Chunks = r.CalibMost
	}
	if p.ref.Arch != nil {
		o.Vocab = p.ref.Arch.Vocab
	}
	if len(names) == 0 {
		out, err := corpus.Load(ctx, demo.Label, o)
		if err != nil {
			return nil, fmt.Errorf("%w, and the embedded ones are of the demo's tokenizer: name a text, a file of ids or what corpus build wrote", ErrNoCorpus)
		}
		return out, nil
	}
	var out []*corpus.Corpus
	seen := map[string]int{}
	for _, name := range names {
		some, err := corpus.Load(ctx, name, o)
		if err != nil {
			if p.ref.Tokenizer == nil && p.ref.TokenizerErr != nil {
				err = fmt.Errorf("%w (the reference's tokenizer: %w)", err, p.ref.TokenizerErr)
			}
			return nil, err
		}
		for _, c := range some {
			if seen[c.Name]++; seen[c.Name] > 1 { // two files of one name
				named := *c
				named.Name = fmt.Sprintf("%s (%d)", c.Name, seen[c.Name])
				c = &named
			}
			out = append(out, c)
		}
	}
	return out, nil
}

func (p *parties) close() error {
	var errs []error
	for _, c := range slices.Backward(p.opened) {
		errs = append(errs, c.Close())
	}
	p.opened = nil
	if p.base != nil {
		errs = append(errs, p.base.Close())
		p.base = nil
	}
	return errors.Join(errs...)
}
