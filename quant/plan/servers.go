package plan

import (
	"fmt"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// checkFused reports matrices that servers fuse into one and that a recipe tears
// apart: q, k and v, gate and up, q_a and kv_a.
func (p *planner) checkFused() {
	m := p.model
	type torn struct {
		count      int
		tensor     string
		one, other string
	}
	var split, part torn
	for _, group := range export.SharedGroups(m.Matrices) {
		first := -1 // a member with a scheme
		kept, other := -1, -1
		for _, k := range group {
			switch g := p.state[k]; {
			case g == noSource:
			case g < 0:
				kept = k
			case first < 0:
				first = k
			case p.variants[g].Scheme != p.variants[p.state[first]].Scheme:
				other = k
			}
		}
		note := func(t *torn, k int, scheme string) {
			if t.count++; t.count == 1 {
				t.tensor, t.one, t.other = m.Matrices[k].Name, m.Matrices[first].Name+" is "+p.variants[p.state[first]].Scheme, scheme
			}
		}
		switch {
		case first < 0:
		case other >= 0:
			note(&split, other, p.variants[p.state[other]].Scheme)
		case kept >= 0:
			note(&part, kept, "kept as it is")
		}
	}
	say := func(id string, t torn, fix string) {
		if t.count > 0 {
			p.find(Finding{ID: id, Tensor: t.tensor, Message: fmt.Sprintf("%s and %s is %s, and servers fuse them into one matrix (%s like this)", t.one, t.tensor, t.other, counted(t.count, "group")), Fix: fix})
		}
	}
	say(ServerSplit, split, "give all of them one scheme")
	say(ServerKept, part, "target all of them or none: servers refuse a fused matrix of which a part is quantized")
}

// checkShapes reports schemes that the layout cannot say, and rows that are no whole
// number of a scheme's blocks.
func (p *planner) checkShapes() {
	var schemes []string // that the layout can say by themselves
	for g := range p.Groups {
		if p.Groups[g].Matrices == 0 {
			continue
		}
		if p.o.Layout != "" && !slices.Contains(export.Formats(p.o.Layout), p.formats[g].Name) {
			p.find(Finding{ID: LayoutScheme, Where: fmt.Sprintf("groups[%d]", g),
				Message: fmt.Sprintf("layout %s cannot say %s (it has %s)", p.o.Layout, p.formats[g].Name, strings.Join(export.Formats(p.o.Layout), ", ")),
				Fix:     "another layout, or another scheme"})
			continue
		}
		if s := p.formats[g].Name; !slices.Contains(schemes, s) {
			schemes = append(schemes, s)
		}
		p.checkBlocks(g)
	}
	if p.o.Layout == "" {
		return
	}
	if err := export.Together(p.o.Layout, schemes); err != nil {
		p.find(Finding{ID: LayoutMixed, Message: strings.TrimSpace(err.Error()), Fix: "another layout, or schemes that this one can say in one checkpoint"})
	}
}

// checkBlocks looks for matrices of a group that its scheme cannot block.
func (p *planner) checkBlocks(g int) {
	f := &p.formats[g]
	report := func(severity Severity, count int, x *topology.Matrix, message string) {
		if count > 1 {
			message += fmt.Sprintf(" (%d like it)", count)
		}
		p.find(Finding{ID: RowBlocks, Severity: severity, Where: fmt.Sprintf("groups[%d]", g), Tensor: x.Name, Message: fmt.Sprintf("%s, %d×%d: %s", x.Name, x.Rows, x.Cols, message),
			Fix: "name it in ignore, or give it a scheme that divides its rows"})
	}
	refused, short := 0, 0
	var firstRefused, firstShort *topology.Matrix
	why := ""
	fits := map[shaped]error{}
	for i := range p.Selection {
		x := &p.Selection[i]
		if p.Of[i] != g {
			continue
		}
		if p.o.Layout != "" {
			err, ok := fits[shaped{g, x.Rows, x.Cols}]
			if !ok {
				err = export.Fits(p.o.Layout, f.Name, x.Rows, x.Cols)
				fits[shaped{g, x.Rows, x.Cols}] = err
			}
			if err != nil {
				if refused++; refused == 1 {
					firstRefused, why = x, strings.TrimSuffix(err.Error(), ": "+export.ErrMatrix.Error())
				}
				continue
			}
		}
		if f.Scope == kernels.ScopeGroup && x.Cols%f.Group != 0 {
			if short++; short == 1 {
				firstShort = x
			}
		}
	}
	if refused > 0 {
		report(Error, refused, firstRefused, why)
	}
	if short > 0 {
		report(Warning, short, firstShort, fmt.Sprintf("%d inputs are no multiple of %d: the last block of each row is short, and few layouts and servers take that", firstShort.Cols, f.Group))
	}
}

// checkSource reports what is to be known of the checkpoint itself.
func (p *planner) checkSource() {
	m := p.model
	if q := m.Config.QuantMethod; q != "" {
		p.find(Finding{ID: AlreadyQuant, Message: fmt.Sprintf("the config says that the checkpoint is quantized already, by %s, and it can name one tool", q),
			Fix: "begin with the checkpoint that it was made from"})
	}
	if s := p.file.Source; s != "" && p.Identity != "" && s != p.Identity {
		p.find(Finding{ID: OtherSource, Message: fmt.Sprintf("the recipe was made for the checkpoint of identity %s, and this one is %s", short(s), short(p.Identity)),
			Fix: "look at what each pattern matches; then take the source out of the recipe"})
	}
	for _, list := range [][]topology.Finding{m.Findings, m.Unresolved} {
		for _, f := range list {
			message := f.Message
			if !strings.Contains(message, f.Tensor) {
				message = f.Tensor + ": " + message
			}
			p.find(Finding{ID: OfCheckpoint, Tensor: f.Tensor, Message: message, Fix: "lint says more"})
		}
	}
	p.checkRanks()
}

func short(identity string) string {
	if len(identity) > 12 {
		return identity[:12] + "…"
	}
	return identity
}

// checkRanks reports what tensor parallelism cannot divide.
func (p *planner) checkRanks() {
	ranks := p.o.Ranks
	if ranks == 1 {
		return
	}
	c := &p.model.Config
	switch {
	case c.Heads > 0 && c.Heads%ranks != 0:
		p.find(Finding{ID: RankHeads, Message: fmt.Sprintf("%d heads cannot be divided by %d ranks: servers refuse it", c.Heads, ranks), Fix: "a number of ranks that divides the heads"})
	case c.KVLoRA == 0 && c.KVHeads > 0 && c.KVHeads%ranks != 0 && ranks%c.KVHeads != 0:
		p.find(Finding{ID: RankHeads, Message: fmt.Sprintf("%d heads of keys and values cannot be divided by %d ranks, nor held by a whole number of them each", c.KVHeads, ranks), Fix: "a number of ranks that divides them, or a multiple of them"})
	}
	for g := range p.Groups {
		f := &p.formats[g]
		count := 0
		var first *topology.Matrix
		for i := range p.Selection {
			x := &p.Selection[i]
			if p.Of[i] == g && badCut(f, cutOf(&x.Role), x, ranks) {
				if count++; count == 1 {
					first = x
				}
			}
		}
		if count > 0 {
			p.find(Finding{ID: RankBlocks, Where: fmt.Sprintf("groups[%d]", g), Tensor: first.Name,
				Message: fmt.Sprintf("%s, %d×%d, over %d ranks is no whole number of %s's blocks of %d a rank (%s like it): servers pad it or refuse", first.Name, first.Rows, first.Cols, ranks, f.Name, f.Group, countedMatrices(count)),
				Fix:     "fewer ranks, expert parallelism, or a scheme with smaller blocks"})
		}
	}
}

// badCut says whether a rank's part of a matrix has blocks that are cut.
func badCut(f *kernels.Format, c cut, x *topology.Matrix, ranks int) bool {
	if f.Group == 0 {
		return false
	}
	switch {
	case c == byCols:
		return x.Cols%ranks != 0 || x.Cols/ranks%f.Group != 0
	case c == byRows && f.Scope == kernels.ScopeTile:
		return x.Rows%ranks != 0 || x.Rows/ranks%f.Group != 0
	}
	return false
}
