package local

import (
	"slices"

	"quantscope/analysis/model"
)

// prefixes are texts whose caches stay for the next ones that begin alike, the
// latest used last.
type prefixes struct {
	kept []*prefix
	held int64
}

type prefix struct {
	ids   []int32
	text  *model.Text
	bytes int64
}

// mostPrefixes bounds how many are looked through.
const mostPrefixes = 256

// find is a text of its own with as much of a prompt as a kept one has, nil where
// none has anything. The last token is always left, since what follows it is asked.
// With an MTP module so is the last common one: the module has to see it with the token
// after it, which is another.
func (p *prefixes) find(prompt []int32, module bool, limit int) *model.Text {
	best, most := -1, 0
	for i, k := range p.kept {
		n := common(k.ids, prompt)
		if module {
			n = min(n-1, k.text.Seen())
		} else {
			n = min(n, len(prompt)-1)
		}
		if n > most {
			best, most = i, n
		}
	}
	if best < 0 {
		return nil
	}
	k := p.kept[best]
	p.kept = append(slices.Delete(p.kept, best, best+1), k)
	if text := k.text.Copy(most, limit); text.Len() > 0 {
		return text
	}
	return nil
}

func common(a, b []int32) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// keep keeps the caches of an answer that is done, within so many bytes of all. A
// kept text that begins it makes way.
func (p *prefixes) keep(a *answer, perToken, perText, allowed int64) {
	ids := append(slices.Clone(a.prompt), a.made...)[:a.text.Len()]
	p.kept = slices.DeleteFunc(p.kept, func(k *prefix) bool {
		covered := common(k.ids, ids) == len(k.ids)
		if covered {
			p.held -= k.bytes
		}
		return covered
	})
	bytes := int64(len(ids))*perToken + perText
	p.shrink(allowed - bytes)
	if len(p.kept) == mostPrefixes {
		p.drop()
	}
	if p.held+bytes <= allowed { // without the room that the answer had
		p.kept, p.held = append(p.kept, &prefix{ids, a.text.Copy(len(ids), len(ids)), bytes}), p.held+bytes
	}
}

// shrink drops those that were not used for the longest time until all fit.
func (p *prefixes) shrink(allowed int64) {
	for len(p.kept) > 0 && p.held > allowed {
		p.drop()
	}
}

func (p *prefixes) drop() {
	p.held -= p.kept[0].bytes
	p.kept = slices.Delete(p.kept, 0, 1)
}
