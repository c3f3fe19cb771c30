package views

import (
	"slices"

	"quantscope/analysis/landscape"
	"quantscope/sessions"
)

// landPiece is how many tensors are copied at once: at four variants that takes
// a few milliseconds of the loop, less than a frame.
const landPiece = 2048

// landPieces copies a session's figures out of the state, a few thousand tensors
// at a time, so that they can be analysed outside the loop while the state goes
// on changing. What did not change since is not copied again.
type landPieces struct {
	state    *sessions.State
	tensors  []sessions.Tensor
	variants int
	made     []*landscape.Table // by piece; nil where it is out of date
	stamp    uint64             // of the latest change
}

// fits says whether the pieces are of these tensors.
func (c *landPieces) fits(s *sessions.State) bool {
	return c.state == s && len(c.tensors) == len(s.Tensors) && (len(s.Tensors) == 0 || &c.tensors[0] == &s.Tensors[0])
}

// note marks what a batch has changed.
func (c *landPieces) note(s *sessions.State, b *sessions.Batch) {
	if b.Reset != nil || len(b.Variants) > 0 || !c.fits(s) || c.variants != len(s.Variants) {
		c.forget(s)
		return
	}
	for i := range b.Records {
		if k := b.Records[i].Tensor / landPiece; k >= 0 && k < len(c.made) {
			c.made[k] = nil
		}
	}
	if len(b.Records) > 0 {
		c.stamp++
	}
}

func (c *landPieces) forget(s *sessions.State) {
	c.state, c.tensors, c.variants = s, s.Tensors, len(s.Variants)
	c.made = make([]*landscape.Table, (len(s.Tensors)+landPiece-1)/landPiece)
	c.stamp++
}

// Stamp changes with the figures that an analysis would see.
func (p *Landscape) Stamp() uint64 {
	if !p.pieces.fits(p.scene.State) || p.pieces.variants != len(p.scene.State.Variants) {
		p.reset()
		p.pieces.forget(p.scene.State)
	}
	return p.pieces.stamp
}

// TakePiece copies the next part of the session that has changed since it was
// copied last, and says whether more are left.
func (p *Landscape) TakePiece() (more bool) {
	c := &p.pieces
	p.Stamp()
	k := slices.Index(c.made, nil)
	if k < 0 {
		return false
	}
	from, to := k*landPiece, min((k+1)*landPiece, len(c.tensors))
	part := sessions.State{Tensors: c.tensors[from:to], Variants: c.state.Variants, Records: make([][]sessions.Record, len(c.state.Records))}
	for v := range c.state.Records {
		part.Records[v] = c.state.Records[v][from:to]
	}
	c.made[k] = part.Table()
	return slices.Contains(c.made, nil)
}

// Table makes one table of all pieces. The function that it returns does the
// copying and may run anywhere; it is nil while pieces are missing.
func (p *Landscape) Table() func() *landscape.Table {
	pieces := slices.Clone(p.pieces.made)
	if slices.Contains(pieces, nil) {
		return nil
	}
	return func() *landscape.Table { return joinTables(pieces) }
}

// joinTables sets tables of the same arms behind each other.
func joinTables(pieces []*landscape.Table) *landscape.Table {
	if len(pieces) == 1 {
		return pieces[0]
	}
	t := &landscape.Table{}
	items := 0
	for _, part := range pieces {
		items += len(part.Items)
	}
	t.Items = make([]landscape.Item, 0, items)
	for k, part := range pieces {
		t.Items = append(t.Items, part.Items...)
		for a := range part.Arms {
			if k == 0 {
				t.Arms = append(t.Arms, landscape.Arm{
					Name: part.Arms[a].Name, BitsPerWeight: part.Arms[a].BitsPerWeight,
					Bytes: make([]int64, 0, items), Samples: make([]landscape.Sample, 0, items),
				})
			}
			t.Arms[a].Bytes = append(t.Arms[a].Bytes, part.Arms[a].Bytes...)
			t.Arms[a].Samples = append(t.Arms[a].Samples, part.Arms[a].Samples...)
		}
	}
	if n := len(t.Arms); n > 0 { // what the source takes is a mean over all
		t.Arms[n-1].BitsPerWeight = landscape.SourceBits(t.Items)
	}
	return t
}
