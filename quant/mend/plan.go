package mend

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// IDs of the steps, in the order in which they are done. Findings of lint name
// them.
const (
	GraftMTP     = "graft-mtp"
	IgnoreMTP    = "ignore-mtp"
	Processors   = "processors"
	Tokenizer    = "tokenizer"
	ChatTemplate = "chat-template"
)

// StepHelp says what a step does.
type StepHelp struct{ ID, Help string }

// Steps lists the steps in their order.
func Steps() []StepHelp {
	return []StepHelp{
		{GraftMTP, "copy MTP tensors that the source has and the checkpoint lacks, register them in the index, declare their layers in config.json"},
		{IgnoreMTP, "name the MTP modules that are not quantized among the exceptions of the quantization config"},
		{Processors, "restore preprocessor and processor configs, or make preprocessor_config.json of processor_config.json's image_processor"},
		{Tokenizer, "restore the files of the tokenizer, with truncation and padding off"},
		{ChatTemplate, "restore the chat template"},
	}
}

// ErrStep is wrapped by the error about a step that is not known.
var ErrStep = errors.New("unknown step")

// ErrSource is wrapped by errors about a source that the checkpoint cannot have been
// made of.
var ErrSource = errors.New("not the source")

// Change is one file that a step writes.
type Change struct {
	File   string `json:"file"`
	What   string `json:"what"` // of the file: the key, the tensors
	Before string `json:"before"`
	After  string `json:"after"`
}

// Step is what one step finds.
type Step struct {
	ID      string   `json:"id"`
	Needed  bool     `json:"needed"`
	Says    string   `json:"says"`    // why it is needed, or why not
	Refused string   `json:"refused"` // why it is needed and cannot be done, "" otherwise
	Changes []Change `json:"changes"`
}

// Plan is what mending a checkpoint would do. It is not changed once made.
type Plan struct {
	Out, From string // as given
	Steps     []Step

	out, src *side
	files    []file         // written anew, in the order in which they may appear
	shards   []shard        // of grafted tensors
	moved    string         // new name of the only file of weights, "" where it keeps its own
	second   string         // name in the folder that is to go, "" for none
	index    *indexEdit     // nil where the index stays
	config   []byte         // nil where config.json stays
	grafted  map[string]int // by name: index of the source's tensor
	joined   []joined
}

// file is a small file of the result.
type file struct {
	name string
	data []byte
}

// shard is a new file of grafted tensors.
type shard struct {
	name    string
	tensors []int // of the source
	bytes   int64
}

// side is an opened checkpoint.
type side struct {
	ck  *checkpoint.Checkpoint
	top *topology.Model
	lay *layout.Layout
}

func openSide(ck *checkpoint.Checkpoint) (*side, error) {
	if mark := ck.Unfinished(); mark != "" {
		return nil, &checkpoint.FileError{File: ck.Path, Reason: "is an export that is not finished: " + mark + " marks it"}
	}
	top, err := topology.FromCheckpoint(ck)
	if err != nil {
		return nil, err
	}
	lay, err := layout.Open(ck, top)
	if err != nil {
		return nil, err
	}
	return &side{ck, top, lay}, nil
}

// NewPlan looks at a checkpoint and at what it was made of. steps are IDs, none for
// all. The error is of files that cannot be read, of an unknown step, or of a source
// that is not one.
func NewPlan(out, src *checkpoint.Checkpoint, steps []string) (*Plan, error) {
	wanted := map[string]bool{}
	for _, id := range steps {
		if !slices.ContainsFunc(Steps(), func(s StepHelp) bool { return s.ID == id }) {
			return nil, fmt.Errorf("step %q: %w (known: %s)", id, ErrStep, knownSteps())
		}
		wanted[id] = true
	}
	p := &Plan{Out: out.Path, From: src.Path, grafted: map[string]int{}}
	var err error
	if p.out, err = openSide(out); err != nil {
		return nil, err
	}
	if p.src, err = openSide(src); err != nil {
		return nil, err
	}
	if err := p.related(); err != nil {
		return nil, err
	}
	w := &work{Plan: p, config: out.Config}
	for _, s := range []struct {
		id  string
		run func(*Step) error
	}{
		{GraftMTP, w.graft}, {IgnoreMTP, w.ignore}, {Processors, w.processors}, {Tokenizer, w.tokenizer}, {ChatTemplate, w.template},
	} {
		if len(steps) > 0 && !wanted[s.id] {
			continue
		}
		step := Step{ID: s.id, Changes: []Change{}}
		if err := s.run(&step); err != nil {
			return nil, err
		}
		p.Steps = append(p.Steps, step)
	}
	if string(w.config) != string(out.Config) {
		p.config = w.config
	}
	return p, nil
}

func knownSteps() string {
	var ids []string
	for _, s := range Steps() {
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, ", ")
}

// work is the making of one plan.
type work struct {
	*Plan
	config []byte                    // as it will be
	roles  map[string]*topology.Role // of the source, by name
	plain  map[string]bool           // parts of names of the source below which not all is MTP
	mixed  map[string]bool           // parts of names below which not all is plain and MTP
}

// put adds a small file and says so.
func (w *work) put(s *Step, name, what, before, after string, data []byte) {
	w.files = slices.DeleteFunc(w.files, func(f file) bool { return f.name == name })
	w.files = append(w.files, file{name, data})
	s.Needed = true
	s.Changes = append(s.Changes, Change{name, what, before, after})
}

// text is a side file as it will be: what a step before made of it, else the
// checkpoint's own.
func (w *work) text(name string) (data []byte, ok bool, err error) {
	for _, f := range w.files {
		if f.name == name {
			return f.data, true, nil
		}
	}
	return sideText(w.out.ck, name)
}

// sideText is a file beside the weights; ok is false where there is none.
func sideText(ck *checkpoint.Checkpoint, name string) (data []byte, ok bool, err error) {
	f, ok := ck.SideFile(name)
	if !ok {
		return nil, false, nil
	}
	data, err = f.Read()
	return data, err == nil, err
}

// related refuses a source that shares no module with the checkpoint under its name,
// or is another model by its sizes.
func (p *Plan) related() error {
	if p.src.lay.Method != "" && len(p.src.lay.Modules) > 0 && p.out.lay.Method == "" {
		return fmt.Errorf("%w: %s is quantized (%s) and %s is not: are they the wrong way round?", ErrSource, p.From, p.src.lay.Method, p.Out)
	}
	a, b := &p.out.top.Config, &p.src.top.Config
	for _, c := range []struct {
		key      string
		out, src int
	}{{"hidden_size", a.Hidden, b.Hidden}, {"num_hidden_layers", a.Layers, b.Layers}, {"number of experts", a.Experts, b.Experts}} {
		if c.out != c.src && c.out > 0 && c.src > 0 {
			return fmt.Errorf("%w: %s of %s is %d and of %s %d", ErrSource, c.key, p.Out, c.out, p.From, c.src)
		}
	}
	have := map[string]bool{}
	for i := range p.out.ck.Tensors {
		m, _ := layout.Split(p.out.ck.Tensors[i].Name)
		have[m] = true
	}
	for i := range p.src.ck.Tensors {
		if m, _ := layout.Split(p.src.ck.Tensors[i].Name); have[m] {
			return nil
		}
	}
	return fmt.Errorf("%w: no tensor of %s has a name that %s has (%s there, %s here)", ErrSource, p.From, p.Out, firstName(p.src.ck), firstName(p.out.ck))
}

func firstName(ck *checkpoint.Checkpoint) string {
	if len(ck.Tensors) == 0 {
		return "no tensor"
	}
	return ck.Tensors[0].Name
}

// Needed says whether a step has something to do.
func (p *Plan) Needed() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Needed })
}

// Refused is the first step that is needed and cannot be done.
func (p *Plan) Refused() error {
	for _, s := range p.Steps {
		if s.Refused != "" {
			return &checkpoint.FileError{File: p.Out, Reason: s.ID + ": " + s.Refused}
		}
	}
	return nil
}
