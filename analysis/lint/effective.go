package lint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"

	"quantscope/quant/topology"
)

// Share is how much of a checkpoint was asked to be one thing and is another.
type Share struct {
	By        string  `json:"by"`        // what asks: recipe, config, general.file_type, or the name of a log
	Requested string  `json:"requested"` // scheme or type; "" where nothing was asked for, kept for what was to stay
	Effective string  `json:"effective"` // format, type or dtype
	Tensors   int     `json:"tensors"`   // matrices
	Params    int64   `json:"params"`
	Share     float64 `json:"share_params"` // of the parameters of all rows with the same By
	Differs   bool    `json:"differs"`
	First     string  `json:"first"` // the first matrix of the row
}

// kept is what is asked for matrices that no group takes.
const kept = "kept"

// shares gathers rows.
type shares struct {
	rows  []Share
	total map[string]int64
	at    map[Share]int
}

func (s *shares) add(by, requested, effective, name string, params int64, differs bool) {
	s.addMany(by, requested, effective, name, 1, params, differs)
}

func (s *shares) addMany(by, requested, effective, name string, tensors int, params int64, differs bool) {
	if s.at == nil {
		s.at, s.total = map[Share]int{}, map[string]int64{}
	}
	key := Share{By: by, Requested: requested, Effective: effective, Differs: differs}
	i, ok := s.at[key]
	if !ok {
		i = len(s.rows)
		s.at[key] = i
		s.rows = append(s.rows, key)
		s.rows[i].First = name
	}
	s.rows[i].Tensors += tensors
	s.rows[i].Params += params
	s.total[by] += params
}

// list is the rows by who asks, then what differs, then by size.
func (s *shares) list() []Share {
	order := map[string]int{}
	for i := range s.rows {
		row := &s.rows[i]
		if _, ok := order[row.By]; !ok {
			order[row.By] = len(order)
		}
		if t := s.total[row.By]; t > 0 {
			row.Share = float64(row.Params) / float64(t)
		}
	}
	slices.SortStableFunc(s.rows, func(a, b Share) int {
		if a.Differs != b.Differs && a.By == b.By {
			if a.Differs {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(order[a.By], order[b.By]), cmp.Compare(b.Params, a.Params))
	})
	return s.rows
}

// matrix is one linear map, plain or packed, as it is stored.
type matrix struct {
	topology.Matrix
	effective string // a format's name, or a dtype
	requested string // by the config
	plain     bool
	file      string
}

// effective holds what is stored against what the recipe asks for, and without a
// recipe against what the config does; it reads nothing.
func (r *run) effective() error {
	if r.lay == nil {
		return nil
	}
	var s shares
	list := r.matrices()
	if r.Recipe != nil {
		if err := r.followed(&s, "recipe", list, sameScheme); err != nil {
			return err
		}
	} else if r.quant.File != "" {
		for i := range list {
			m := &list[i]
			differs := m.plain != (m.requested == kept) && m.requested != ""
			s.add("config", m.requested, m.effective, m.Name, int64(m.Rows)*int64(m.Cols), differs)
		}
	}
	r.rep.Effective = append(r.rep.Effective, s.list()...)
	return nil
}

// matrices lists linear maps, packed and plain, in the order of the files.
func (r *run) matrices() []matrix {
	out := make([]matrix, 0, len(r.lay.Modules)+len(r.Model.Matrices))
	packed := map[string]bool{}
	for i := range r.lay.Modules {
		m := &r.lay.Modules[i]
		t := m.CodeTensor()
		if t == nil {
			continue
		}
		packed[t.Name] = true
		base, expert, _ := strings.Cut(m.Name, "[")
		name := base + ".weight"
		if expert != "" {
			name = base + "[" + expert
		}
		out = append(out, matrix{
			Matrix:    topology.Matrix{Name: name, Tensor: base + ".weight", Role: m.Role, Rows: m.Rows, Cols: m.Cols},
			effective: m.Spec.Format, requested: r.requestedOf(m.Declared, m.Name, m.Spec.Format), file: r.Checkpoint.Files[t.File].Name,
		})
	}
	declared := map[string]bool{} // plain, and the config says otherwise
	for _, f := range r.lay.Findings {
		if f.ID == "declared-not-quantized" {
			declared[f.Tensor] = true
		}
	}
	for i := range r.Model.Matrices {
		m := &r.Model.Matrices[i]
		t, ok := r.Checkpoint.Lookup(m.Tensor)
		if !ok || packed[m.Tensor] || !plainDType(t.DType) {
			continue
		}
		x := matrix{Matrix: *m, effective: t.DType.String(), requested: kept, plain: true, file: r.Checkpoint.Files[t.File].Name}
		if declared[m.Tensor] {
			x.requested = "quantized"
		}
		out = append(out, x)
	}
	return out
}

// requestedOf is what a config asks of a packed module, as a scheme where its words
// are one.
func (r *run) requestedOf(declared, module, format string) string {
	if g, ok := r.quant.Groups[declared]; ok && g.Weights != nil && g.Weights.Bits > 0 {
		return g.Weights.scheme(format)
	}
	if a := r.quant.algo(module); a != "" {
		return a
	}
	if declared == "" {
		return kept
	}
	return declared
}

// scheme is the arguments in a word.
func (a *quantArgs) scheme(format string) string {
	group := ""
	if a.Group != nil && *a.Group > 0 {
		group = fmt.Sprintf("-g%d", *a.Group)
	}
	switch {
	case a.Type == "float" && a.Bits == 4 && (group == "-g16" || group == "" && format == "nvfp4"):
		return "nvfp4"
	case a.Type == "float" && a.Bits == 4:
		return "mxfp4"
	case a.Type == "float" && a.Bits == 8:
		switch a.Strategy {
		case "channel":
			return "fp8-channel"
		case "block":
			return "fp8-block128"
		case "group":
			return "mxfp8"
		}
		return "fp8"
	case a.Strategy == "channel":
		group = "-channel"
	}
	sym := ""
	if a.Symmetric != nil && *a.Symmetric {
		sym = "-sym"
	}
	return fmt.Sprintf("int%d%s%s", a.Bits, group, sym)
}

// followed resolves the recipe over the matrices and adds rows and findings. same
// says whether an effective format is what a scheme asks for.
func (r *run) followed(s *shares, by string, list []matrix, same func(scheme, effective string) bool) error {
	plain := make([]topology.Matrix, len(list))
	for i := range list {
		plain[i] = list[i].Matrix
	}
	res, err := r.Recipe.Resolve(plain)
	if err != nil {
		return err
	}
	type key struct{ requested, effective string }
	first, count := map[key]*matrix{}, map[key]int{}
	params := map[key]int64{}
	var total int64
	var order []key
	for i := range list {
		m := &list[i]
		requested, differs := kept, !m.plain
		if g := res.Group[i]; g >= 0 {
			requested = r.Recipe.Groups[g].Scheme
			differs = m.plain || !same(requested, m.effective)
		}
		n := int64(m.Rows) * int64(m.Cols)
		total += n
		s.add(by, requested, m.effective, m.Name, n, differs)
		if !differs {
			continue
		}
		k := key{requested, m.effective}
		if first[k] == nil {
			first[k] = m
			order = append(order, k)
		}
		count[k]++
		params[k] += n
	}
	for _, k := range order {
		m := first[k]
		r.add("recipe-not-followed", Finding{
			File: m.file, Tensor: m.Tensor,
			Message:  fmt.Sprintf("%d matrices, %s of the parameters, were asked to be %s and are %s, the first %s", count[k], percent(params[k], total), k.requested, k.effective, m.Name),
			Evidence: []Evidence{{"requested", k.requested}, {"effective", k.effective}, {"matrices", fmt.Sprint(count[k])}, {"share", percent(params[k], total)}},
		})
	}
	for _, o := range res.Overlaps {
		r.add("recipe-overlap", Finding{Tensor: o.Matrix, Message: fmt.Sprintf("groups %d and %d both match it", o.First+1, o.Second+1)})
	}
	for _, n := range res.NoMatch {
		r.add("recipe-pattern-unmatched", Finding{Message: fmt.Sprintf("%q of %s matches nothing", n.Pattern, n.Where)})
	}
	return nil
}

// sameScheme says whether a format is what a scheme asks for. GPTQ and AWQ name
// theirs with the method before.
func sameScheme(scheme, effective string) bool {
	for _, prefix := range []string{"gptq-", "awq-", "mlx-", "quark-"} {
		effective = strings.TrimPrefix(effective, prefix)
	}
	return scheme == effective || scheme == effective+"-sym" || scheme+"-sym" == effective
}

// ggufEffective holds types against the recipe.
func (r *run) ggufEffective() error {
	if r.Recipe == nil {
		return nil
	}
	m, err := gguf.NewModel(r.GGUF)
	if err != nil { // names of an architecture that is not known cannot be held against a recipe
		return err
	}
	var list []matrix
	for i := range m.Weights {
		w := &m.Weights[i]
		types := m.Types(w)
		if w.Vector || len(types) == 0 {
			continue
		}
		x := matrix{
			Matrix:    topology.Matrix{Name: w.Name, Tensor: w.Name, Role: m.Topology.Roles[i], Rows: w.Rows, Cols: w.Cols},
			effective: strings.ToLower(types[0].String()), file: r.GGUF.Path,
		}
		_, x.plain = checkpoint.ParseDType(types[0].String())
		list = append(list, x)
	}
	var s shares
	if err := r.followed(&s, "recipe", list, func(scheme, effective string) bool { return strings.EqualFold(scheme, effective) }); err != nil {
		return err
	}
	r.rep.Effective = append(r.rep.Effective, s.list()...)
	return nil
}
