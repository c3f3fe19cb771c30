package tokenizer

import (
	"fmt"
	"slices"
	"unicode/utf8"
)

// pattern is a compiled pattern: alternatives in order, of which the first that
// matches counts. Repetition is greedy and gives back what a later part needs.
type pattern struct {
	alts []alternative
	skip *[utf8.RuneSelf]bool // ASCII bytes that no match begins with; nil: it may be empty
}

// settle learns what a search can skip.
func (p *pattern) settle() *pattern {
	var skip [utf8.RuneSelf]bool
	for b := range skip {
		skip[b] = !slices.ContainsFunc(p.alts, func(a alternative) bool { return a.first == nil || a.first[b] })
	}
	if !p.mayBeEmpty() {
		p.skip = &skip
	}
	return p
}

type alternative struct {
	prog  []inst
	first *[utf8.RuneSelf]bool // ASCII bytes that a match can begin with; nil: it may be empty
}

// inst is an instruction. The next one follows, but for jump and split.
type inst struct {
	op       op
	set      *runeSet
	min, max int
	possess  bool
	x, y     int    // jump to x; split: try x, then y
	sub      []inst // of look and atomic
	not      bool
	assert   byte
}

type op uint8

const (
	opMatch  op = iota
	opSet       // one rune of set
	opRepeat    // min to max runes of set
	opJump
	opSplit
	opLook
	opAtomic
	opAssert
)

// program compiles a sequence.
func program(seq []item) ([]inst, error) {
	e := &emitter{}
	if err := e.sequence(seq); err != nil {
		return nil, err
	}
	e.add(inst{op: opMatch})
	return e.prog, nil
}

type emitter struct{ prog []inst }

func (e *emitter) add(i inst) int {
	e.prog = append(e.prog, i)
	return len(e.prog) - 1
}

func (e *emitter) sequence(seq []item) error {
	for i := range seq {
		if err := e.item(&seq[i]); err != nil {
			return err
		}
		if len(e.prog) > maxProgram {
			return fmt.Errorf("it is too large")
		}
	}
	return nil
}

func (e *emitter) item(it *item) error {
	switch {
	case it.assert != 0:
		e.add(inst{op: opAssert, assert: it.assert})
		return nil
	case it.set != nil && it.min == 1 && it.max == 1:
		e.add(inst{op: opSet, set: it.set})
		return nil
	case it.set != nil:
		e.add(inst{op: opRepeat, set: it.set, min: it.min, max: it.max, possess: it.possess})
		return nil
	case it.look, it.atomic, it.possess:
		inner := *it
		inner.look, inner.atomic, inner.possess = false, false, false
		if it.atomic { // the repetition is outside of it
			inner.min, inner.max = 1, 1
		}
		sub, err := program([]item{inner})
		if err != nil {
			return err
		}
		one := inst{op: opAtomic, sub: sub}
		if it.look {
			one = inst{op: opLook, sub: sub, not: it.not}
		}
		if it.atomic && (it.min != 1 || it.max != 1) {
			return fmt.Errorf("repetition of an atomic group is %w", ErrUnknown)
		}
		e.add(one)
		return nil
	}
	return e.repeated(it)
}

// repeated unrolls the repetition of a group.
func (e *emitter) repeated(it *item) error {
	for range it.min {
		if err := e.alternatives(it.group); err != nil {
			return err
		}
	}
	if it.max < 0 {
		split := e.add(inst{op: opSplit})
		e.prog[split].x = len(e.prog)
		if err := e.alternatives(it.group); err != nil {
			return err
		}
		e.add(inst{op: opJump, x: split})
		e.prog[split].y = len(e.prog)
		return nil
	}
	var splits []int
	for range it.max - it.min {
		split := e.add(inst{op: opSplit})
		splits = append(splits, split)
		e.prog[split].x = len(e.prog)
		if err := e.alternatives(it.group); err != nil {
			return err
		}
	}
	for _, s := range splits {
		e.prog[s].y = len(e.prog)
	}
	return nil
}

func (e *emitter) alternatives(alts [][]item) error {
	var jumps []int
	for i, a := range alts {
		split := -1
		if i < len(alts)-1 {
			split = e.add(inst{op: opSplit})
			e.prog[split].x = len(e.prog)
		}
		if err := e.sequence(a); err != nil {
			return err
		}
		if split >= 0 {
			jumps = append(jumps, e.add(inst{op: opJump}))
			e.prog[split].y = len(e.prog)
		}
	}
	for _, j := range jumps {
		e.prog[j].x = len(e.prog)
	}
	return nil
}

// firstBytes are the ASCII bytes that a match of a sequence can begin with; nil
// where it may be empty.
func firstBytes(seq []item) *[utf8.RuneSelf]bool {
	var first [utf8.RuneSelf]bool
	if empty := addFirst(&first, seq); empty {
		return nil
	}
	return &first
}

func addFirst(first *[utf8.RuneSelf]bool, seq []item) (empty bool) {
	for i := range seq {
		it := &seq[i]
		switch {
		case it.look, it.assert != 0:
			continue
		case it.set != nil:
			for r, in := range it.set.ascii {
				first[r] = first[r] || in
			}
			if it.min > 0 {
				return false
			}
			continue
		}
		may := it.min == 0
		for _, a := range it.group {
			may = addFirst(first, a) || may
		}
		if !may {
			return false
		}
	}
	return true
}

// mayBeEmpty says whether some alternative may match nothing.
func (p *pattern) mayBeEmpty() bool {
	return slices.ContainsFunc(p.alts, func(a alternative) bool { return a.first == nil })
}

// match is the end of the match that begins at a place; ok is false for none.
func (p *pattern) match(m *matcher, s string, at int) (end int, ok bool) {
	for i := range p.alts {
		a := &p.alts[i]
		if a.first != nil {
			if at == len(s) || s[at] < utf8.RuneSelf && !a.first[s[at]] {
				continue
			}
		}
		if end, ok = m.run(a.prog, s, at); ok {
			return end, true
		}
	}
	return 0, false
}

// find is the first match that begins at a place or later.
func (p *pattern) find(m *matcher, s string, at int) (start, end int, ok bool) {
	for {
		for p.skip != nil && at < len(s) && s[at] < utf8.RuneSelf && p.skip[s[at]] {
			at++
		}
		if end, ok = p.match(m, s, at); ok {
			return at, end, true
		}
		if at >= len(s) {
			return 0, 0, false
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		at += size
	}
}
