package recipe

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// template is a name with its numbers taken out: text[0] number text[1] number
// … text[n].
type template struct {
	text []string
}

// key differs between templates: lengths tell where a text ends, whatever is in
// it.
func (t template) key() string {
	var b strings.Builder
	for _, s := range t.text {
		b.WriteString(strconv.Itoa(len(s)) + ":" + s)
	}
	return b.String()
}

// maxDigits keeps numbers within an int of any machine.
const maxDigits = 9

// takeApart finds the numbers of a name that stand by themselves, between dots,
// brackets or the ends, and are written without leading zeros.
func takeApart(name string) (template, []int) {
	var t template
	var numbers []int
	start := 0
	for i := 0; i < len(name); {
		k := i
		for k < len(name) && name[k] >= '0' && name[k] <= '9' {
			k++
		}
		if k == i {
			i++
			continue
		}
		alone := (i == 0 || strings.IndexByte(".[", name[i-1]) >= 0) && (k == len(name) || strings.IndexByte(".]", name[k]) >= 0)
		if n, err := strconv.Atoi(name[i:k]); alone && err == nil && k-i <= maxDigits && (name[i] != '0' || k == i+1) {
			t.text = append(t.text, name[start:i])
			numbers = append(numbers, n)
			start = k
		}
		i = k
	}
	t.text = append(t.text, name[start:])
	return t, numbers
}

// box is a product of sets of numbers, one a place.
type box [][]int

func (b box) key() string {
	var s strings.Builder
	for _, set := range b {
		for _, n := range set {
			s.WriteString(strconv.Itoa(n))
			s.WriteByte(' ')
		}
		s.WriteByte('/')
	}
	return s.String()
}

// cover finds boxes that hold the tuples, each in one, and nothing else: numbers
// of the first place that have the same rest share boxes.
func cover(tuples [][]int) []box {
	if len(tuples) == 0 {
		return nil
	}
	if len(tuples[0]) == 0 {
		return []box{{}}
	}
	rests := map[int][][]int{}
	for _, t := range tuples {
		rests[t[0]] = append(rests[t[0]], t[1:])
	}
	type shared struct {
		firsts []int
		boxes  []box
	}
	byRest := map[string]*shared{}
	var order []*shared
	firsts := make([]int, 0, len(rests))
	for n := range rests {
		firsts = append(firsts, n)
	}
	slices.Sort(firsts)
	for _, n := range firsts {
		boxes := cover(rests[n])
		var key strings.Builder
		for _, b := range boxes {
			key.WriteString(b.key() + "\n")
		}
		s, ok := byRest[key.String()]
		if !ok {
			s = &shared{boxes: boxes}
			byRest[key.String()] = s
			order = append(order, s)
		}
		s.firsts = append(s.firsts, n)
	}
	var out []box
	for _, s := range order {
		for _, b := range s.boxes {
			out = append(out, append(box{s.firsts}, b...))
		}
	}
	return out
}

// shape is a box of names. Where it has variants, text[at] is head, one of them,
// and tail.
type shape struct {
	template
	box
	at       int
	variants []string
	head     string
	tail     string
}

// patterns are expressions for names, each matching some of them and no others,
// every name by one.
func patterns(names []string) []string {
	type rows struct {
		template
		tuples [][]int
	}
	byTemplate := map[string]*rows{}
	var order []*rows
	for _, n := range names {
		t, numbers := takeApart(n)
		r, ok := byTemplate[t.key()]
		if !ok {
			r = &rows{template: t}
			byTemplate[t.key()] = r
			order = append(order, r)
		}
		r.tuples = append(r.tuples, numbers)
	}
	var shapes []shape
	for _, r := range order {
		for _, b := range cover(r.tuples) {
			shapes = append(shapes, shape{template: r.template, box: b, at: -1})
		}
	}
	var out []string
	for _, s := range merge(shapes) {
		out = append(out, s.pattern())
	}
	return out
}

// merge joins shapes of the same numbers whose names differ in one part between
// dots: (?:gate_proj|up_proj).
func merge(shapes []shape) []shape {
	done := make([]bool, len(shapes))
	type bucket struct {
		at         int
		head, tail string
		members    []int
		parts      []string
	}
	buckets := map[string]*bucket{}
	var order []*bucket
	for i, s := range shapes {
		for at, text := range s.text {
			parts := strings.Split(text, ".")
			for k, part := range parts {
				if part == "" || k == len(parts)-1 && at < len(s.text)-1 || k == 0 && at > 0 {
					continue // a number or a bracket belongs to it
				}
				head, tail := strings.Join(parts[:k], "."), strings.Join(parts[k+1:], ".")
				if k > 0 {
					head += "."
				}
				if k < len(parts)-1 {
					tail = "." + tail
				}
				others := slices.Concat(s.text[:at], []string{head, tail}, s.text[at+1:])
				key := strconv.Itoa(at) + " " + template{others}.key() + " " + s.box.key()
				b, ok := buckets[key]
				if !ok {
					b = &bucket{at: at, head: head, tail: tail}
					buckets[key] = b
					order = append(order, b)
				}
				b.members, b.parts = append(b.members, i), append(b.parts, part)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b *bucket) int { return len(b.members) - len(a.members) })
	joined := map[int]shape{} // at the place of its first member
	for _, b := range order {
		var free []int
		var parts []string
		for k, i := range b.members {
			if !done[i] {
				free, parts = append(free, i), append(parts, b.parts[k])
			}
		}
		if len(free) < 2 {
			continue
		}
		for _, i := range free {
			done[i] = true
		}
		s := shapes[free[0]]
		s.at, s.variants, s.head, s.tail = b.at, parts, b.head, b.tail
		joined[free[0]] = s
	}
	var out []shape
	for i, s := range shapes {
		if j, ok := joined[i]; ok {
			out = append(out, j)
		} else if !done[i] {
			out = append(out, s)
		}
	}
	return out
}

// pattern is a name, escaped as a glob takes it, or a regular expression.
func (s *shape) pattern() string {
	single := s.variants == nil
	for _, set := range s.box {
		single = single && len(set) == 1
	}
	var b strings.Builder
	for at, text := range s.text {
		switch {
		case single:
			b.WriteString(escapeGlob(text))
		case at == s.at:
			quoted := make([]string, len(s.variants))
			for i, v := range s.variants {
				quoted[i] = regexp.QuoteMeta(v)
			}
			b.WriteString(regexp.QuoteMeta(s.head) + "(?:" + strings.Join(quoted, "|") + ")" + regexp.QuoteMeta(s.tail))
		default:
			b.WriteString(regexp.QuoteMeta(text))
		}
		if at < len(s.box) {
			b.WriteString(numbersRegex(s.box[at]))
		}
	}
	switch p := b.String(); {
	case !single:
		return regexPrefix + p + "$"
	case strings.HasPrefix(p, regexPrefix):
		return `\` + p // a glob, not an expression
	default:
		return p
	}
}

// escapeGlob is a glob that matches a text and nothing else.
func escapeGlob(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune(`*?[\`, r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
