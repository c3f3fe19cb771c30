package mend

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"quantscope/quant/checkpoint"
)

// Checked is what was found of a result that was opened again.
type Checked struct {
	OK       bool     `json:"ok"`
	Grafted  int      `json:"grafted"` // tensors that came from the source, equal to its byte for byte
	Joined   int      `json:"joined"`  // tensors that came into the index; those that are the source's are equal to its
	Kept     int      `json:"kept"`    // tensors that were there before, equal to what they were
	Steps    []string `json:"steps"`   // that have nothing left to do
	Problems []string `json:"problems"`
}

// Check opens the result of a plan: the steps must have nothing left to do, and all
// tensors must be those that there were, with the grafted ones. Of those that were
// there before names, types and shapes are compared, and their bytes where the result
// is a copy.
func (p *Plan) Check(ctx context.Context, r Result) (Checked, error) {
	c := Checked{Steps: []string{}, Problems: []string{}}
	got, err := checkpoint.Open(r.Dir)
	if err != nil {
		return c, err
	}
	defer got.Close()
	var ids []string
	for _, s := range p.Steps {
		ids = append(ids, s.ID)
	}
	again, err := NewPlan(got, p.src.ck, ids)
	if err != nil {
		return c, err
	}
	for _, s := range again.Steps {
		if s.Needed {
			c.problem("%s: still to be done: %s", s.ID, s.Says)
			continue
		}
		c.Steps = append(c.Steps, s.ID)
	}
	dir, _ := p.out.ck.Folder()
	copied := dir != r.Dir
	for i := range p.out.ck.Tensors {
		t := &p.out.ck.Tensors[i]
		same, err := equal(ctx, p.out.ck, t, got, copied)
		if err != nil {
			return c, err
		}
		if c.Kept++; same != "" {
			c.problem("%s: %s", t.Name, same)
		}
	}
	for _, j := range p.joined {
		same := ""
		if j.source >= 0 {
			if same, err = equal(ctx, p.src.ck, &p.src.ck.Tensors[j.source], got, true); err != nil {
				return c, err
			}
		} else if _, ok := got.Lookup(j.name); !ok {
			same = "is not there"
		}
		if c.Joined++; same != "" {
			c.problem("%s: %s", j.name, same)
		}
	}
	for _, i := range p.grafted {
		t := &p.src.ck.Tensors[i]
		same, err := equal(ctx, p.src.ck, t, got, true)
		if err != nil {
			return c, err
		}
		if c.Grafted++; same != "" {
			c.problem("%s: %s", t.Name, same)
		}
	}
	slices.Sort(c.Problems)
	c.OK = len(c.Problems) == 0
	return c, nil
}

func (c *Checked) problem(format string, args ...any) {
	c.Problems = append(c.Problems, fmt.Sprintf(format, args...))
}

// equal says how a tensor of one checkpoint differs from that of the same name in
// another; "" where it does not.
func equal(ctx context.Context, a *checkpoint.Checkpoint, t *checkpoint.Tensor, b *checkpoint.Checkpoint, read bool) (string, error) {
	u, ok := b.Lookup(t.Name)
	switch {
	case !ok:
		return "is not there", nil
	case u.DType != t.DType || !slices.Equal(u.Shape, t.Shape):
		return fmt.Sprintf("is %s %v, not %s %v", u.DType, u.Shape, t.DType, t.Shape), nil
	case !read:
		return "", nil
	}
	x, y := make([]byte, min(t.Size, 4<<20)), make([]byte, min(t.Size, 4<<20))
	for off := int64(0); off < t.Size; {
		n := min(int64(len(x)), t.Size-off)
		if err := a.ReadAt(ctx, t, off, x[:n]); err != nil {
			return "", err
		}
		if err := b.ReadAt(ctx, u, off, y[:n]); err != nil {
			return "", err
		}
		if !bytes.Equal(x[:n], y[:n]) {
			return "has other bytes", nil
		}
		off += n
	}
	return "", nil
}
