package landscape

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Bounds on the integers of a Solver: sums of errors stay below 2⁵⁹ and sizes
// below 2⁶⁰, so that differences of either fit an int64.
const (
	errorBits = 59
	maxBytes  = 1 << 60
	maxScale  = 1000 // exponent; 2^±maxScale is finite and not 0
)

// choose finds the arms of every unit.
func (s *Solver) choose() error {
	t := s.table
	fixed := make([]bool, len(t.Items))
	usable := func(i int) bool {
		return slices.ContainsFunc(s.arms, func(a int) bool { _, ok := s.figure(a, i); return ok && a != s.source })
	}
	for i := range t.Items {
		fixed[i] = !usable(i)
	}
	all := units(t, s.options.By, func(i int) bool { return !fixed[i] })
	s.setScale(all)
	for _, u := range all {
		c := choices{items: u.items}
		for _, a := range s.arms {
			if o, ok, err := s.optionOf(a, u.items); err != nil {
				return err
			} else if ok {
				c.option = append(c.option, o)
			}
		}
		if len(c.option) == 0 { // each item has an arm, and none is common
			for _, i := range u.items {
				fixed[i] = true
			}
			continue
		}
		c.prune()
		s.units = append(s.units, c)
	}
	for i, f := range fixed {
		if !f {
			continue
		}
		if s.source < 0 || t.Arms[s.source].Bytes[i] < 0 {
			return fmt.Errorf("tensor %q: %w under the given variants", t.Items[i].Name, ErrNoFigures)
		}
		s.fixed = append(s.fixed, i)
		if s.fixedBytes += t.Arms[s.source].Bytes[i]; s.fixedBytes < 0 || s.fixedBytes > maxBytes {
			return errTooLarge
		}
	}
	return nil
}

var errTooLarge = fmt.Errorf("the sizes of the tensors add up to more than %d bytes", int64(maxBytes))

// setScale makes the sum of the largest errors of all items fit errorBits.
func (s *Solver) setScale(all []unit) {
	sum, largest := 0.0, 0.0
	for _, u := range all {
		for _, i := range u.items {
			worst := 0.0
			for _, a := range s.arms {
				if v, ok := s.figure(a, i); ok {
					worst = max(worst, v)
				}
			}
			sum, largest = sum+worst, max(largest, worst)
		}
	}
	exponent := 0
	if _, e := math.Frexp(sum); sum > 0 && !math.IsInf(sum, 1) {
		exponent = errorBits - e
	} else if sum > 0 {
		_, e = math.Frexp(largest)
		exponent = errorBits - e - bits.Len(uint(len(s.table.Items)))
	}
	s.scale = math.Ldexp(1, min(max(exponent, -maxScale), maxScale))
}

// optionOf sums an arm up over the items of a unit; not ok where an item cannot
// use it.
func (s *Solver) optionOf(arm int, items []int) (o option, ok bool, err error) {
	o.arm = arm
	for _, i := range items {
		v, ok := s.figure(arm, i)
		if !ok {
			return o, false, nil
		}
		o.err += int64(math.RoundToEven(v * s.scale))
		b := s.table.Arms[arm].Bytes[i]
		if b > maxBytes || o.bytes+b > maxBytes {
			return o, false, errTooLarge
		}
		o.bytes += b
	}
	return o, true, nil
}

// prune keeps the options that no other beats, and finds those on the lower
// convex hull. Of equal ones the first of the solver's arms stays.
func (c *choices) prune() {
	slices.SortStableFunc(c.option, func(a, b option) int {
		return cmp.Or(cmp.Compare(a.bytes, b.bytes), cmp.Compare(a.err, b.err))
	})
	kept := c.option[:1]
	for _, o := range c.option[1:] {
		if o.err < kept[len(kept)-1].err {
			kept = append(kept, o)
		}
	}
	c.option = slices.Clip(kept)
	for i := range c.option {
		for n := len(c.hull); n > 1 && !steeper(c.stepTo(c.hull[n-2], c.hull[n-1]), c.stepTo(c.hull[n-1], int32(i))); n = len(c.hull) {
			c.hull = c.hull[:n-1]
		}
		c.hull = append(c.hull, int32(i))
	}
}

func (c *choices) stepTo(from, to int32) step {
	a, b := &c.option[from], &c.option[to]
	return step{bytes: b.bytes - a.bytes, err: a.err - b.err}
}

// steeper says whether a gains more per byte than b, exactly.
func steeper(a, b step) bool { return compareProducts(a.err, b.bytes, b.err, a.bytes) > 0 }

// compareProducts compares a·b with c·d, none negative.
func compareProducts(a, b, c, d int64) int {
	h1, l1 := bits.Mul64(uint64(a), uint64(b))
	h2, l2 := bits.Mul64(uint64(c), uint64(d))
	return cmp.Or(cmp.Compare(h1, h2), cmp.Compare(l1, l2))
}

// relax sorts the steps of all hulls and adds them up.
func (s *Solver) relax() error {
	s.base = s.fixedBytes
	n := 0
	for u := range s.units {
		c := &s.units[u]
		s.base += c.option[0].bytes
		s.baseError += c.option[0].err
		n += len(c.hull) - 1
		for _, o := range c.option[1:] {
			s.gcd = gcd(s.gcd, o.bytes-c.option[0].bytes)
		}
		if s.base > maxBytes {
			return errTooLarge
		}
	}
	s.steps = make([]step, 0, n)
	for u := range s.units {
		c := &s.units[u]
		for h := 1; h < len(c.hull); h++ {
			st := c.stepTo(c.hull[h-1], c.hull[h])
			st.unit, st.hull = int32(u), int32(h)
			s.steps = append(s.steps, st)
		}
	}
	slices.SortFunc(s.steps, func(a, b step) int {
		return cmp.Or(compareProducts(b.err, a.bytes, a.err, b.bytes), cmp.Compare(a.unit, b.unit), cmp.Compare(a.hull, b.hull))
	})
	s.bytesAt, s.errorAt = make([]int64, n+1), make([]int64, n+1)
	s.bytesAt[0], s.errorAt[0] = s.base, s.baseError
	for k, st := range s.steps {
		s.bytesAt[k+1], s.errorAt[k+1] = s.bytesAt[k]+st.bytes, s.errorAt[k]-st.err
		if s.bytesAt[k+1] > maxBytes {
			return errTooLarge
		}
	}
	s.most = s.bytesAt[n]
	return nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
