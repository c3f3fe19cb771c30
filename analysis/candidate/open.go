package candidate

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"quantscope/analysis/model"
	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/layout"
	"quantscope/quant/tokenizer"
	"quantscope/quant/topology"
)

// Open opens a model by its path: a folder or file of safetensors, a GGUF file
// (the first of a split one), or demo. A path that holds no model, a model without
// a forward pass here, a tensor that the pass needs and that is missing, of the
// wrong shape or stored in a way that is not known are errors that name it.
func Open(ctx context.Context, path string, o Options) (*Candidate, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if isGGUF(path) {
		c, err := openGGUF(ctx, path, o)
		if err != nil {
			return nil, err
		}
		return c.identified().read(ctx, path, o)
	}
	ck, err := openFiles(path)
	if err != nil {
		return nil, err
	}
	c, err := fromCheckpoint(ctx, path, ck, o)
	if err != nil {
		_ = ck.Close() // the error that ended it says more
		return nil, err
	}
	return c.read(ctx, path, o)
}

// read fills in what the bytes of the files say.
func (c *Candidate) read(ctx context.Context, path string, o Options) (*Candidate, error) {
	var err error
	if c.Content, err = c.contentOf(ctx, path, o); err != nil {
		_ = c.Close() // the error that ended it says more
		return nil, err
	}
	return c, nil
}

func openFiles(path string) (*checkpoint.Checkpoint, error) {
	if path == demo.Label {
		return demo.Open()
	}
	return checkpoint.Open(path)
}

// isGGUF tells a GGUF file by its extension or its first bytes.
func isGGUF(path string) bool {
	if strings.HasSuffix(path, ".gguf") {
		return true
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	n, _ := f.ReadAt(magic, 0)
	return string(magic[:n]) == "GGUF"
}

// opened is a checkpoint of safetensors, shared by its sources.
type opened struct {
	set     kernels.Set
	ck      *checkpoint.Checkpoint
	top     *topology.Model
	spec    *model.Spec
	layout  *layout.Layout
	modules map[model.Place]modulePart
	fp4     *fp4Stock                  // its matrices of FP4 codes
	firsts  map[*layout.Module]float32 // of a fault: second-level scales that are taken for a module's own
}

// modulePart is a quantized module, or the rows of a fused one that are gate or
// up.
type modulePart struct {
	m                 *layout.Module
	rows, first, step int
}

func fromCheckpoint(ctx context.Context, path string, ck *checkpoint.Checkpoint, o Options) (*Candidate, error) {
	if mark := ck.Unfinished(); mark != "" {
		return nil, &checkpoint.FileError{File: path, Reason: "is an export that is not finished: " + mark + " marks it"}
	}
	top, err := topology.FromCheckpoint(ck)
	if err != nil {
		return nil, err
	}
	if !top.HeadStored && top.Config.TiedStated && !top.Config.Tied {
		return nil, &checkpoint.FileError{File: path, Tensor: "lm_head.weight", Reason: "is not stored, but tie_word_embeddings of config.json is false, so nothing can take its place"}
	}
	spec, err := model.NewSpec(top)
	if err != nil {
		return nil, &checkpoint.FileError{File: path, Reason: "has no forward pass here", Err: err}
	}
	lay, err := layout.OpenWith(ck, top, o.Layout)
	if err != nil {
		return nil, err
	}
	x := &opened{set: o.set(), ck: ck, top: top, spec: spec, layout: lay, fp4: &fp4Stock{}, modules: map[model.Place]modulePart{}}
	if err := x.readable(); err != nil {
		return nil, err
	}
	if err := x.addModules(); err != nil {
		return nil, err
	}
	if err := x.complete(); err != nil {
		return nil, err
	}
	c := &Candidate{
		Label: path, Spec: path, Path: path, Kind: Checkpoint, Topology: top, Arch: spec,
		Identity: ck.Identity().String(), files: x,
		source: func() (model.Source, error) { return newNative(x), nil },
		close:  ck.Close,
	}
	if lay.ZeroPoints != "" { // other weights than the same files present by their labels
		c.Identity = madeOf([]string{c.Identity}, func(w io.Writer) { fmt.Fprint(w, "zero points ", lay.ZeroPoints) })
	}
	if lay.Packing != "" {
		c.Identity = madeOf([]string{c.Identity}, func(w io.Writer) { fmt.Fprint(w, "packing ", lay.Packing) })
	}
	c.Findings = append(layoutFindings(lay.Findings), unasked(top, spec)...)
	c.readTokenizer(ck)
	c.setInventory(x.inventory())
	c.Effective = c.schemeNames()
	return c.identified(), ctx.Err()
}

// mostAlike bounds the findings of one ID; what a checkpoint of thousands of
// modules gets wrong, it gets wrong thousands of times.
const mostAlike = 10

// layoutFindings are the first findings of each ID, with the number of the others.
func layoutFindings(list []layout.Finding) []Finding {
	var out []Finding
	seen, last := map[string]int{}, map[string]int{}
	for _, f := range list {
		if seen[f.ID]++; seen[f.ID] <= mostAlike {
			last[f.ID] = len(out)
			out = append(out, Finding{ID: f.ID, Tensor: f.Tensor, Message: f.Message})
		}
	}
	for id, n := range seen {
		if n > mostAlike {
			out[last[id]].Message += fmt.Sprintf(" (and %d more like it)", n-mostAlike)
		}
	}
	return out
}

// readTokenizer reads tokenizer.json, where the folder has one.
func (c *Candidate) readTokenizer(ck *checkpoint.Checkpoint) {
	const name = "tokenizer.json"
	side, ok := ck.SideFile(name)
	if !ok {
		c.TokenizerErr = fmt.Errorf("%s: has no %s", c.Path, name)
		return
	}
	text, err := side.Read()
	var config []byte
	if side, ok := ck.SideFile("tokenizer_config.json"); ok && err == nil {
		config, err = side.Read()
	}
	if err == nil {
		c.Tokenizer, err = tokenizer.ParseWithConfig(text, config)
	}
	if err != nil {
		c.Tokenizer, c.TokenizerErr = nil, fmt.Errorf("%s: %w", c.Path, err)
		return
	}
	c.TokenizerID = c.Tokenizer.Identity()
	for _, n := range c.Tokenizer.Notes() {
		c.Findings = append(c.Findings, Finding{ID: "tokenizer-note", Message: n})
	}
}

// fail is an error about a stored tensor.
func (x *opened) fail(tensor, reason string, err error) error {
	file := x.ck.Path
	if t, ok := x.ck.Lookup(tensor); ok && len(x.ck.Files) > 1 {
		file += "/" + x.ck.Files[t.File].Name
	}
	return &checkpoint.FileError{File: file, Tensor: tensor, Reason: reason, Err: err}
}

// readable refuses tensors that the pass reads and that are quantized in a way
// that is not known, or not whole: their values would be guesses.
func (x *opened) readable() error {
	bad := func(f *layout.Finding) bool {
		return f.ID == layout.Incomplete || f.ID == layout.UnknownForm || f.ID == layout.Mislabelled && x.layout.Unread[f.Tensor]
	}
	for i := range x.ck.Tensors {
		t := &x.ck.Tensors[i]
		if !x.layout.Unread[t.Name] || !reads(x.top.Roles[i], x.spec) {
			continue
		}
		module, _ := layout.Split(t.Name)
		reason := "belongs to a module that is quantized in a way that is not known here"
		for k := range x.layout.Findings {
			f := &x.layout.Findings[k]
			if !bad(f) {
				continue
			}
			if of, _ := layout.Split(f.Tensor); of == module {
				return x.fail(f.Tensor, f.Message, checkpoint.ErrUnsupported)
			}
			switch f.ID {
			case layout.UnknownForm:
				reason = "like " + f.Tensor + ", which is " + f.Message
			case layout.Mislabelled:
				reason = "like " + f.Tensor + ", which " + f.Message
			}
		}
		return x.fail(t.Name, reason, checkpoint.ErrUnsupported)
	}
	for k := range x.layout.Findings {
		f := &x.layout.Findings[k]
		if i := slices.IndexFunc(x.ck.Tensors, func(t checkpoint.Tensor) bool { return t.Name == f.Tensor }); bad(f) && i >= 0 && reads(x.top.Roles[i], x.spec) {
			return x.fail(f.Tensor, f.Message, checkpoint.ErrUnsupported)
		}
	}
	return nil
}

// addModules finds the places of quantized modules.
func (x *opened) addModules() error {
	alternate := x.top.Config.AlternatesExperts()
	for i := range x.layout.Modules {
		m := &x.layout.Modules[i]
		if !reads(m.Role, x.spec) {
			continue
		}
		at := placeOf(m.Role)
		if m.Role.Projection != "gate_up" {
			x.modules[at] = modulePart{m, m.Rows, 0, 1}
			continue
		}
		if m.Rows%2 != 0 {
			return x.fail(m.CodeTensor().Name, fmt.Sprintf("%d outputs cannot be gate and up", m.Rows), nil)
		}
		half := m.Rows / 2
		for k, projection := range []string{"gate", "up"} {
			at.Projection = projection
			x.modules[at] = modulePart{m, half, k * half, 1}
			if alternate {
				x.modules[at] = modulePart{m, half, k, 2}
			}
		}
	}
	return nil
}

// complete wants every tensor that the architecture needs, of its shape.
func (x *opened) complete() error {
	src := newNative(x)
	list := needs(x.spec)
	if src.Has(headAt, "weight") {
		list = append(list, need{param{headAt, "weight"}, x.spec.Vocab, x.spec.Hidden})
	}
	tensors := map[param]int{}
	for i, r := range x.top.Roles {
		tensors[param{placeOf(r), r.Param}] = i
	}
	shapes := map[model.Place][2]int{}
	names := map[model.Place]string{}
	for i := range x.top.Matrices {
		m := &x.top.Matrices[i]
		shapes[placeOf(m.Role)], names[placeOf(m.Role)] = [2]int{m.Rows, m.Cols}, m.Name
	}
	for at, m := range x.modules {
		shapes[at], names[at] = [2]int{m.rows, m.m.Cols}, m.m.CodeTensor().Name
	}
	for _, n := range list {
		if !src.Has(n.Place, n.name) {
			return x.fail(x.likelyName(n.param), fmt.Sprintf("the %s of %s is needed", n.name, n.Place), model.ErrAbsent)
		}
		if n.rows == 0 {
			i, ok := tensors[n.param]
			if ok && x.ck.Tensors[i].Elements() != int64(n.cols) {
				return x.fail(x.ck.Tensors[i].Name, fmt.Sprintf("has %d values, the config asks for %d", x.ck.Tensors[i].Elements(), n.cols), nil)
			}
			continue
		}
		s, ok := shapes[n.Place]
		if ok && s != [2]int{n.rows, n.cols} {
			return x.fail(names[n.Place], fmt.Sprintf("is %d×%d, the config asks for %d×%d", s[0], s[1], n.rows, n.cols), nil)
		}
		if i, stored := tensors[n.param]; stored && !ok && len(x.ck.Tensors[i].Shape) != 2 {
			return x.fail(x.ck.Tensors[i].Name, fmt.Sprintf("is of shape %v, the config asks for %d×%d", x.ck.Tensors[i].Shape, n.rows, n.cols), nil)
		}
	}
	return nil
}

// likelyName is what a missing tensor would be called: the name of one like it
// with the layer and the expert changed. "" where there is none.
func (x *opened) likelyName(p param) string {
	for i, r := range x.top.Roles {
		if r.Kind != p.Kind || r.Projection != p.Projection || r.Param != p.name || r.MTP || (r.Layer < 0) != (p.Layer < 0) || (r.Expert < 0) != (p.Expert < 0) {
			continue
		}
		parts := strings.Split(x.ck.Tensors[i].Name, ".")
		wanted := []int{p.Layer, p.Expert}
		have := []int{r.Layer, r.Expert}
		k := 0
		for j := range parts {
			for k < 2 && have[k] < 0 {
				k++
			}
			if k < 2 && parts[j] == fmt.Sprint(have[k]) {
				parts[j] = fmt.Sprint(wanted[k])
				k++
			}
		}
		return strings.Join(parts, ".")
	}
	return ""
}

// set is the kernels that an option names, the best where it names none.
func (o *Options) set() kernels.Set {
	if o.Set.Name == "" {
		return kernels.Best()
	}
	return o.Set
}
