package align

import (
	"context"
	"fmt"
	"os"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/gguf"
	"quantscope/quant/layout"
	"quantscope/quant/topology"
)

// Side is one of the two checkpoints that are compared.
type Side struct {
	Path     string
	Identity string // of its files, in hex
	Config   topology.Config
	Tensors  []Tensor // whatever can be compared, in the order of the files
	Findings []Finding
	Left     []string // what cannot, by name

	why   string // of the first that is left, where that is known
	close func() error
}

// Tensor is a matrix, an expert's matrix, or a vector, which has one row.
type Tensor struct {
	Name       string
	Role       topology.Role
	Scheme     string // how it is stored: bf16, nvfp4, Q4_K, …
	Rows, Cols int
	Matrix     bool
	Note       string // what was undone in reading it; "" for nothing

	rows rowSource
}

// rowSource reads consecutive rows of a tensor in f32. Many goroutines may use it at
// once, each with memory of its own.
type rowSource interface {
	read(ctx context.Context, w *scratch, first int, dst []float32) error
}

// Finding is something odd about the two.
type Finding struct {
	ID      string `json:"id"`
	Tensor  string `json:"tensor"`
	Message string `json:"message"`
}

// IDs of findings, beside those of package layout.
const (
	SmoothingDisagrees = "smoothing-disagrees" // matrices behind one norm are not scaled alike
	ScaledColumns      = "columns-scaled"      // columns are scaled by what nothing before them was divided by
	Unexplained        = "unexplained"         // far off, and nothing that is known explains it
	ShapesDiffer       = "shapes-differ"
	NotWhole           = "metadata-not-whole" // a GGUF file that is no model by itself
	TypeUnknown        = "gguf-type-unknown"  // a GGUF tensor whose type is not known
)

// Open opens a checkpoint to compare: a folder or file of safetensors, a GGUF file,
// or demo.
func Open(ctx context.Context, path string, o layout.Options) (*Side, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if isGGUF(path) {
		return openGGUF(path, o.GGUFBlocks)
	}
	open := checkpoint.Open
	if path == demo.Label {
		open = func(string) (*checkpoint.Checkpoint, error) { return demo.Open() }
	}
	ck, err := open(path)
	if err != nil {
		return nil, err
	}
	fail := func(err error) (*Side, error) {
		_ = ck.Close() // the error that ended it says more
		return nil, err
	}
	top, err := topology.FromCheckpoint(ck)
	if err != nil {
		return fail(err)
	}
	lay, err := layout.OpenWith(ck, top, o)
	if err != nil {
		return fail(err)
	}
	s := New(path, ck, top, lay)
	s.close = ck.Close
	return s, nil
}

// New is a side of a checkpoint that is open; closing the side leaves it so.
func New(path string, ck *checkpoint.Checkpoint, top *topology.Model, lay *layout.Layout) *Side {
	s := &Side{Path: path, Identity: ck.Identity().String(), Config: top.Config}
	for _, f := range lay.Findings {
		s.Findings = append(s.Findings, Finding{f.ID, f.Tensor, f.Message})
		if s.why == "" && lay.Unread[f.Tensor] {
			s.why = strings.TrimSpace(f.File + " " + f.Tensor + " " + f.Message)
		}
	}
	taken := map[string]bool{}
	alternate := top.Config.AlternatesExperts()
	for i := range lay.Modules {
		m := &lay.Modules[i]
		for _, f := range m.Fields {
			taken[f.Tensor.Name] = true
		}
		s.addModule(m, alternate)
	}
	k := 0
	for i := range ck.Tensors {
		t, role := &ck.Tensors[i], top.Roles[i]
		from := k
		for k < len(top.Matrices) && top.MatrixTensor[k] == i {
			k++
		}
		switch {
		case taken[t.Name] || layout.IsCacheScale(t.Name):
		case lay.Unread[t.Name] || t.DType.Bits() < 8:
			s.Left = append(s.Left, t.Name)
		case k > from:
			for _, m := range top.Matrices[from:k] {
				s.Tensors = append(s.Tensors, Tensor{Name: strings.TrimSuffix(m.Name, ".weight"), Role: m.Role, Scheme: schemeOf(t), Rows: m.Rows, Cols: m.Cols, Matrix: true, rows: &floats{ck: ck, t: t, m: m}})
			}
		default:
			rows, cols := 1, t.Elements()
			if len(t.Shape) > 1 && t.Shape[0] > 0 {
				rows, cols = int(t.Shape[0]), t.Elements()/t.Shape[0]
			}
			if cols > maxCols || int64(rows)*cols == 0 {
				s.Left = append(s.Left, t.Name)
				continue
			}
			m := topology.Matrix{Rows: rows, Cols: int(cols), RowStride: cols, ColStride: 1}
			s.Tensors = append(s.Tensors, Tensor{Name: t.Name, Role: role, Scheme: schemeOf(t), Rows: rows, Cols: int(cols), rows: &floats{ck: ck, t: t, m: m}})
		}
	}
	return s
}

// maxCols bounds what is read as one row.
const maxCols = 1 << 26

func schemeOf(t *checkpoint.Tensor) string { return strings.ToLower(t.DType.String()) }

// addModule adds a quantized module, of a fused one gate and up by themselves.
func (s *Side) addModule(m *layout.Module, alternate bool) {
	t := Tensor{Name: m.Name, Role: m.Role, Scheme: m.Spec.Format, Rows: m.Rows, Cols: m.Cols, Matrix: true, rows: &coded{m, 0, 1}}
	t.Role.Param = "weight"
	if m.Role.Projection != "gate_up" || m.Rows%2 != 0 {
		s.Tensors = append(s.Tensors, t)
		return
	}
	half := m.Rows / 2
	for k, projection := range []string{"gate", "up"} {
		part := t
		part.Name, part.Role.Projection, part.Rows, part.rows = m.Name+"."+projection, projection, half, &coded{m, k * half, 1}
		if alternate {
			part.rows = &coded{m, k, 2}
		}
		s.Tensors = append(s.Tensors, part)
	}
}

// Close gives back the files.
func (s *Side) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
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

// openGGUF opens a GGUF file as a model, in the order of rows that checkpoints have.
// A file whose metadata make no model is opened for its linear maps alone, as they
// are stored.
func openGGUF(path, order string) (*Side, error) {
	how, err := gguf.ParseBlocks(order)
	if err != nil {
		return nil, err
	}
	f, err := gguf.OpenWith(path, gguf.Options{Blocks: how})
	if err != nil {
		return nil, err
	}
	id, err := f.Identity()
	if err != nil {
		_ = f.Close() // the error that ended it says more
		return nil, err
	}
	s := &Side{Path: path, Identity: id, close: f.Close}
	m, err := gguf.NewModel(f)
	if err != nil {
		s.Findings = append(s.Findings, Finding{NotWhole, "", fmt.Sprintf("only linear maps are compared, their rows as they are stored: %v", err)})
		s.storedMaps(f)
		return s, nil
	}
	s.Config = m.Topology.Config
	for i := range m.Weights {
		w := &m.Weights[i]
		t := Tensor{Name: strings.TrimSuffix(w.Name, ".weight"), Role: m.Topology.Roles[i], Rows: w.Rows, Cols: w.Cols, Matrix: !w.Vector, rows: &blocks{m: m, w: w}}
		if w.Vector {
			t.Name = w.Name
			if w.Lines > 1 {
				t.Rows, t.Cols = w.Lines, w.Cols/w.Lines
			}
		}
		for _, ty := range m.Types(w) {
			t.Scheme = strings.TrimPrefix(t.Scheme+"+"+ty.String(), "+")
		}
		t.Note = w.OrderText()
		s.Tensors = append(s.Tensors, t)
	}
	return s, nil
}

// storedMaps adds the linear maps of a file that is no model.
func (s *Side) storedMaps(f *gguf.File) {
	for i := range f.Tensors {
		t := &f.Tensors[i]
		role, stacked, ok := gguf.LinearRole(t.Name)
		n := len(t.Shape)
		if ok && !t.Type.Decodes() {
			x := Finding{TypeUnknown, t.Name, fmt.Sprintf("is of %v, whose values cannot be read", t.Type)}
			s.Findings = append(s.Findings, x)
			if s.why == "" {
				s.why = x.Tensor + " " + x.Message
			}
		}
		if !ok || !t.Type.Decodes() || n != 2 && !(stacked && n == 3) || t.Elements() == 0 || t.Shape[n-1] > maxCols || t.Shape[0] > 1<<24 {
			s.Left = append(s.Left, t.Name)
			continue
		}
		experts := int64(1)
		if n == 3 {
			experts = t.Shape[0]
		}
		rows := int(t.Shape[n-2])
		for e := range int(experts) {
			x := Tensor{Name: t.Name, Role: role, Scheme: t.Type.String(), Rows: rows, Cols: int(t.Shape[n-1]), Matrix: true, rows: &rawBlocks{f, t, e * rows}}
			if n == 3 {
				x.Name, x.Role.Expert = fmt.Sprintf("%s[%d]", t.Name, e), e
			}
			s.Tensors = append(s.Tensors, x)
		}
	}
}

// set is what weights are expanded with.
var set = kernels.Best()
