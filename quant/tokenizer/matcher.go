package tokenizer

import "unicode/utf8"

// matcher runs programs with backtracking: what is to be tried later lies on a
// stack. Patterns have no references to groups, so a state is an instruction and
// a place, and one that failed fails again: a match that takes many steps remembers states,
// and its time is then linear in pattern times text.
type matcher struct{ stack []frame }

// frame is a state to go on with. A repetition that may give back goes on at at,
// then one rune earlier, down to low.
type frame struct{ pc, at, low int }

// patience is how many steps a match takes before it remembers states.
const patience = 1 << 12

type state struct{ pc, at int }

func (m *matcher) run(prog []inst, s string, at int) (int, bool) {
	base := len(m.stack)
	end, ok, done := m.try(prog, s, at, nil)
	m.stack = m.stack[:base]
	if !done {
		end, ok, _ = m.try(prog, s, at, map[state]bool{})
		m.stack = m.stack[:base]
	}
	return end, ok
}

// try runs a program; done is false where patience ran out.
func (m *matcher) try(prog []inst, s string, at int, seen map[state]bool) (end int, ok, done bool) {
	base := len(m.stack)
	pc := 0
	for steps := 0; ; steps++ {
		if seen == nil && steps > patience {
			return 0, false, false
		}
		fail := false
		if seen != nil && prog[pc].op != opMatch {
			k := state{pc, at}
			fail = seen[k]
			seen[k] = true
		}
		if !fail {
			i := &prog[pc]
			switch i.op {
			case opMatch:
				return at, true, true
			case opJump:
				pc = i.x
				continue
			case opSplit:
				m.stack = append(m.stack, frame{i.y, at, at})
				pc = i.x
				continue
			case opRepeat:
				low, to, good := i.repeat(s, at)
				if good {
					if to > low && !i.possess {
						m.stack = append(m.stack, frame{pc + 1, before(s, to), low})
					}
					at = to
					pc++
					continue
				}
			default:
				if to, good := m.step(i, s, at); good {
					at = to
					pc++
					continue
				}
			}
		}
		if len(m.stack) == base {
			return 0, false, true
		}
		top := &m.stack[len(m.stack)-1]
		pc, at = top.pc, top.at
		if at > top.low {
			top.at = before(s, at)
		} else {
			m.stack = m.stack[:len(m.stack)-1]
		}
	}
}

func before(s string, at int) int {
	_, size := utf8.DecodeLastRuneInString(s[:at])
	return at - size
}

// repeat is how far a set reaches; low is as far as it must.
func (i *inst) repeat(s string, at int) (low, to int, ok bool) {
	n, end := 0, at
	low = at
	for (i.max < 0 || n < i.max) && end < len(s) {
		size := 1
		if b := s[end]; b < utf8.RuneSelf {
			if !i.set.ascii[b] {
				break
			}
		} else {
			var r rune
			if r, size = utf8.DecodeRuneInString(s[end:]); !i.set.slow(r) {
				break
			}
		}
		end += size
		if n++; n == i.min {
			low = end
		}
	}
	return low, end, n >= i.min
}

// step does what takes one rune or none.
func (m *matcher) step(i *inst, s string, at int) (int, bool) {
	switch i.op {
	case opSet:
		if at == len(s) {
			return 0, false
		}
		r, size := utf8.DecodeRuneInString(s[at:])
		return at + size, i.set.has(r)
	case opAtomic:
		return m.run(i.sub, s, at)
	case opLook:
		_, found := m.run(i.sub, s, at)
		return at, found != i.not
	}
	return at, holds(i.assert, s, at)
}

// holds says whether an assertion is true at a place. Lines end at \n.
func holds(assert byte, s string, at int) bool {
	switch assert {
	case 'b':
		return wordSet.inBefore(s, at) != wordSet.inAfter(s, at)
	case 'B':
		return wordSet.inBefore(s, at) == wordSet.inAfter(s, at)
	case '^':
		return at == 0 || s[at-1] == '\n' && at < len(s)
	case '$':
		return at == len(s) || s[at] == '\n'
	case 'A':
		return at == 0
	}
	return at == len(s) // \z
}
