package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"quantscope/analysis/landscape"
	"quantscope/sessions"
)

// table is a table of the page. It is sorted by a column where a script runs.
type table struct {
	Caption string
	Note    string // what is not in it, or how to read it
	Fixed   bool   // its order says something: it does not sort
	Cols    []column
	Rows    []row
}

type column struct {
	Name string
	Sub  string // unit or gloss
	Num  bool
}

type row struct {
	Part  string // a heading before this row
	Cells []td
}

// td is one cell. The first of a row names it.
type td struct {
	Text string
	Sub  string // interval or reason
	Key  string // what it sorts by, where that is not its text
	Code bool   // a name out of the checkpoint
	Mark string // sign of a variant
	V    int    // colour of the sign
}

// numeric is a cell that sorts by a number.
func numeric(text string, key float64) td {
	if math.IsNaN(key) {
		return td{Text: text, Key: "-Infinity"}
	}
	return td{Text: text, Key: strconv.FormatFloat(key, 'g', 9, 64)}
}

// of is a cell of a Value.
func of(v landscape.Value, write func(float64) string) td {
	figure, interval, why := written(v, write)
	c := numeric(figure, v.V)
	c.Sub = cmp.Or(interval, why)
	return c
}

// marks are the signs of variants, as on screen.
var marks = []string{"■", "▲", "●", "◆"}

func sign(variant int) string { return marks[variant%len(marks)] }

// named is the cell of a variant's name.
func (r *Report) named(v *Variant) td {
	return td{Text: v.Summary.Variant, Mark: sign(v.ID), V: v.ID % 8}
}

// glance is a line on each variant.
func (r *Report) glance() table {
	t := table{Caption: "Variants at a glance", Cols: []column{
		{Name: "variant"}, {Name: "bits", Sub: "per weight", Num: true}, {Name: "size", Num: true}, {Name: "measured", Sub: "tensors", Num: true},
		{Name: "rel2", Sub: "mean", Num: true}, {Name: "rel_l2", Sub: "mean", Num: true}, {Name: "worst", Sub: "over mean", Num: true},
		{Name: "cosine", Sub: "lowest", Num: true}, {Name: "cosine", Sub: "highest", Num: true},
		{Name: "deep clips", Sub: "of blocks", Num: true}, {Name: "clamped", Sub: "block scales", Num: true},
	}}
	for i := range r.Variants {
		v := &r.Variants[i]
		s := &v.Summary
		name := r.named(v)
		if s.Effective != s.Variant {
			name.Sub = "ran as " + s.Effective
		}
		figure := func(f sessions.Figure, write func(float64) string) td {
			if math.IsNaN(float64(f)) {
				return numeric(none, math.NaN())
			}
			return numeric(write(float64(f)), float64(f))
		}
		done := numeric(thousands(s.Tensors), float64(s.Tensors))
		if s.Pending+s.Failed+s.LeftOut > 0 {
			var without []string
			for _, n := range []struct {
				count int64
				word  string
			}{{s.Pending, "pending"}, {s.Failed, "failed"}, {s.LeftOut, "not finite"}} {
				if n.count > 0 {
					without = append(without, thousands(n.count)+" "+n.word)
				}
			}
			done.Sub = strings.Join(without, ", ")
		}
		t.Rows = append(t.Rows, row{Cells: []td{
			name, numeric(fixed(s.BitsPerWeight, 2), s.BitsPerWeight), numeric(size(v.Bytes), float64(v.Bytes)), done,
			figure(s.MeanRel2, digits(4)), figure(s.MeanRelL2, digits(4)), figure(s.WorstOverMean, Places(3)),
			figure(s.CosMin, Places(5)), figure(s.CosMax, Places(5)), figure(s.DeepBlocks, Share), numeric(thousands(s.ScalesClamped), float64(s.ScalesClamped)),
		}})
	}
	return t
}

// group finds a variant's group of a role, nil where it has none.
func (v *Variant) group(role string) *landscape.Group {
	if v.Landscape == nil {
		return nil
	}
	i := slices.IndexFunc(v.Landscape.Groups, func(g landscape.Group) bool { return g.Role == role })
	if i < 0 {
		return nil
	}
	return &v.Landscape.Groups[i]
}

// roles are the groups of all variants, in order.
func (r *Report) roles() []string {
	var out []string
	for i := range r.Variants {
		for _, g := range r.Variants[i].Landscape.Groups {
			if !slices.Contains(out, g.Role) {
				out = append(out, g.Role)
			}
		}
	}
	return out
}

// statistics are the figures of a role, a column a variant.
func (r *Report) statistics(role string) table {
	t := table{Caption: "Figures of " + role, Fixed: true, Cols: []column{{Name: "figure"}},
		Note: fmt.Sprintf("In brackets: intervals at the level of %g %%.", 100*landscape.Confidence)}
	var all [][]Figure
	for i := range r.Variants {
		g := r.Variants[i].group(role)
		if g == nil {
			continue
		}
		t.Cols = append(t.Cols, column{Name: r.Variants[i].Summary.Variant, Num: true})
		all = append(all, Figures(g))
	}
	if len(all) == 0 {
		return t
	}
	part := ""
	for f, first := range all[0] {
		rw := row{Cells: []td{{Text: first.Name, Sub: first.Gloss}}}
		if first.Part != part {
			part = first.Part
			rw.Part = part
		}
		for _, figures := range all {
			rw.Cells = append(rw.Cells, td{Text: figures[f].Value, Sub: cmp.Or(figures[f].Interval, figures[f].Why)})
		}
		t.Rows = append(t.Rows, rw)
	}
	return t
}

// standouts are the levels of a role that are not as the others.
func (r *Report) standouts(role string) table {
	t := table{Caption: "What stands out", Cols: []column{
		{Name: "variant"}, {Name: "what"}, {Name: "tensors", Num: true}, {Name: "rel2", Sub: "mean", Num: true},
		{Name: "to the others", Sub: "ratio of rel2", Num: true}, {Name: "p", Sub: "of all looked at", Num: true}, {Name: "how"},
	}}
	looked := 0
	for i := range r.Variants {
		v := &r.Variants[i]
		g := v.group(role)
		if g == nil {
			continue
		}
		looked += len(g.Layers) + len(g.Experts) + len(g.Projections)
		for _, s := range Standouts(g) {
			_, _, _, _, kind := s.Written()
			t.Rows = append(t.Rows, row{Cells: []td{
				r.named(v), {Text: s.Level.Name, Sub: s.Axis}, numeric(thousands(int64(s.Level.N)), float64(s.Level.N)),
				of(s.Level.Mean, digits(4)), of(s.Level.Ratio, ratio), of(s.Level.P, Chance), {Text: kind},
			}})
		}
	}
	t.Note = fmt.Sprintf("Of %s that were looked at.", counted(looked, "layer, expert index or projection", "layers, expert indices and projections"))
	if len(t.Rows) == 0 {
		t.Note = fmt.Sprintf("Nothing: %s were looked at.", counted(looked, "layer, expert index or projection", "layers, expert indices and projections"))
	}
	return t
}

// selectors say whether a cheap figure of the source finds the worst tensors.
func (r *Report) selectors(role string) table {
	t := table{Caption: "Can a cheap figure of the source find the worst tensors?", Cols: []column{
		{Name: "variant"}, {Name: "selector"}, {Name: "list", Sub: "tensors", Num: true}, {Name: "hits", Num: true}, {Name: "overlap", Num: true},
		{Name: "by chance", Num: true}, {Name: "p", Num: true}, {Name: "ρ", Sub: "with rel2", Num: true},
	}}
	for i := range r.Variants {
		v := &r.Variants[i]
		g := v.group(role)
		if g == nil {
			continue
		}
		for _, s := range g.Selectors {
			cells := []td{
				r.named(v), {Text: s.Name}, numeric(thousands(int64(s.K)), float64(s.K)), numeric(thousands(int64(s.Hits)), float64(s.Hits)),
				of(s.Overlap, Share), of(s.Expected, Share), of(s.P, Chance), of(s.Rho, Places(3)),
			}
			if why := s.Overlap.Why; why != "" {
				cells[1].Sub = why // once is enough
				cells[2], cells[3] = numeric(none, math.NaN()), numeric(none, math.NaN())
				for i := 4; i < len(cells); i++ {
					if cells[i].Sub == why {
						cells[i].Sub = ""
					}
				}
			}
			t.Rows = append(t.Rows, row{Cells: cells})
		}
	}
	return t
}

// layers has a line a layer and two columns a variant.
func (r *Report) layers(role string) table {
	t := table{Caption: "Layers of " + role, Cols: []column{{Name: "layer"}, {Name: "tensors", Num: true}}}
	type of2 struct{ mean, ratio td }
	lines := map[string][]of2{}
	counts := map[string]int{}
	var names []string
	n := 0
	for i := range r.Variants {
		g := r.Variants[i].group(role)
		if g == nil {
			continue
		}
		t.Cols = append(t.Cols, column{r.Variants[i].Summary.Variant, "mean rel2", true}, column{"to the others", r.Variants[i].Summary.Variant, true})
		for _, l := range inOrder(g.Layers) {
			if _, ok := lines[l.Name]; !ok {
				names = append(names, l.Name)
			}
			for len(lines[l.Name]) < n {
				lines[l.Name] = append(lines[l.Name], of2{td{Text: none}, td{Text: none}})
			}
			against := of(l.Ratio, ratio)
			if l.Kind != landscape.LevelEven && l.Kind != "" {
				against.Text = "▲ " + against.Text
			}
			mean := of(l.Mean, digits(4))
			lines[l.Name] = append(lines[l.Name], of2{mean, against})
			counts[l.Name] = max(counts[l.Name], l.N)
		}
		n++
	}
	for at, name := range names {
		first := numeric(name, float64(at))
		rw := row{Cells: []td{first, numeric(thousands(int64(counts[name])), float64(counts[name]))}}
		for v := range n {
			c := of2{td{Text: none}, td{Text: none}}
			if v < len(lines[name]) {
				c = lines[name][v]
			}
			rw.Cells = append(rw.Cells, c.mean, c.ratio)
		}
		t.Rows = append(t.Rows, rw)
	}
	t.Note = "▲ stands out. Ratios are to the other layers, with expert and projection taken out."
	return t
}

// worstTensors is how many tensors the table of the worst has.
const worstTensors = 100

// worst is the tensors with the largest error, measured by the mean of their
// variant, under any of them.
func (r *Report) worst() table {
	t := table{Caption: "Worst tensors", Cols: []column{{Name: "tensor"}, {Name: "shape"}}}
	score := make([]float64, len(r.table.Items))
	for i := range score {
		score[i] = math.Inf(-1)
	}
	for k := range r.Variants {
		v := &r.Variants[k]
		t.Cols = append(t.Cols, column{v.Summary.Variant, "rel_l2", true}, column{"rank", v.Summary.Variant, true})
		for i := range score {
			if s := &r.table.Arms[v.ID].Samples[i]; s.State == landscape.Measured && isFinite(s.RelL2) {
				score[i] = max(score[i], s.RelL2/float64(v.Summary.MeanRelL2))
			}
		}
	}
	order := make([]int, 0, len(score))
	for i, s := range score {
		if isFinite(s) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(score[b], score[a]) })
	shown := order[:min(worstTensors, len(order))]
	rank := map[int]map[int]int{}
	for k := range r.Variants {
		rank[k] = r.ranks(&r.Variants[k], shown)
	}
	for _, i := range shown {
		it := &r.table.Items[i]
		rw := row{Cells: []td{{Text: it.Name, Code: true}, {Text: fmt.Sprintf("%d×%d", it.Rows, it.Cols), Key: strconv.FormatInt(it.Elements(), 10)}}}
		for k := range r.Variants {
			s := &r.table.Arms[r.Variants[k].ID].Samples[i]
			if s.State != landscape.Measured || !isFinite(s.RelL2) {
				rw.Cells = append(rw.Cells, numeric(none, math.NaN()), numeric(none, math.NaN()))
				continue
			}
			rw.Cells = append(rw.Cells, numeric(sig(s.RelL2, 4), s.RelL2), numeric(thousands(int64(rank[k][i])), float64(rank[k][i])))
		}
		t.Rows = append(t.Rows, rw)
	}
	t.Note = fmt.Sprintf("%s of %s with figures, the worst by rel_l2 over the mean of a variant. All: quantscope sessions export.", thousands(int64(len(shown))), counted(len(order), "tensor", "tensors"))
	if len(shown) == 0 {
		t.Note = "No tensor has a finite error."
	}
	return t
}

// ranks are the places of some tensors by rel_l2 under a variant, 1 for the worst.
func (r *Report) ranks(v *Variant, of []int) map[int]int {
	samples := r.table.Arms[v.ID].Samples
	sorted := values(&r.table.Arms[v.ID], func(s *landscape.Sample) float64 { return s.RelL2 })
	slices.Sort(sorted)
	out := map[int]int{}
	for _, i := range of {
		at, _ := slices.BinarySearchFunc(sorted, samples[i].RelL2, func(a, b float64) int { // the first above it
			if a <= b {
				return -1
			}
			return 1
		})
		out[i] = len(sorted) - at + 1
	}
	return out
}

func isFinite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
