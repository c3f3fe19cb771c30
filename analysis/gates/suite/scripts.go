package suite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
)

// Script is one script that text can be in.
type Script struct {
	Name string
	in   []*unicode.RangeTable
	must []*unicode.RangeTable // at least one letter of these; nil: any
	not  []*unicode.RangeTable // none of these
}

// Names that are no Unicode script. Emoji are the blocks of pictographs that
// Unicode's emoji data covers, flags and signs that are shown as such.
var named = map[string]Script{
	"Korean":   {in: []*unicode.RangeTable{unicode.Hangul}},
	"Japanese": {in: []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, prolonged}, must: []*unicode.RangeTable{unicode.Hiragana, unicode.Katakana}},
	"Chinese":  {in: []*unicode.RangeTable{unicode.Han}, not: []*unicode.RangeTable{unicode.Hiragana, unicode.Katakana, unicode.Hangul}},
	"Emoji":    {in: []*unicode.RangeTable{emoji}},
}

var prolonged = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x30fc, Hi: 0x30fc, Stride: 1}}}

var emoji = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x2600, Hi: 0x27bf, Stride: 1}, {Lo: 0x2b50, Hi: 0x2b55, Stride: 5}},
	R32: []unicode.Range32{{Lo: 0x1f1e6, Hi: 0x1f1ff, Stride: 1}, {Lo: 0x1f300, Hi: 0x1f64f, Stride: 1}, {Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1faff, Stride: 1}},
}

// ParseScript reads a name, or names with + between them, all of which a text must
// show.
func ParseScript(name string) ([]Script, error) {
	var out []Script
	for _, one := range strings.Split(name, "+") {
		s, ok := named[one]
		if t := unicode.Scripts[one]; t != nil {
			s, ok = Script{in: []*unicode.RangeTable{t}}, true
		}
		if !ok {
			return nil, fmt.Errorf("unknown script %q; known are %s and Unicode's, such as Latin, Cyrillic, Arabic, Devanagari, Tamil", one, list(slices.Sorted(maps.Keys(named))))
		}
		s.Name = one
		out = append(out, s)
	}
	return out, nil
}

// Count is how many letters of a text are of the script, and how many letters
// there are: letters, marks that belong to them, and emoji.
func (s *Script) Count(text string) (of, all int) {
	must, not := s.must == nil, false
	for _, r := range text {
		in := unicode.IsOneOf(s.in, r)
		if in {
			of++
		}
		if in || unicode.IsLetter(r) || unicode.Is(unicode.Mn, r) && r != 0xfe0f || unicode.Is(unicode.Mc, r) || unicode.Is(emoji, r) {
			all++
		}
		must = must || unicode.IsOneOf(s.must, r)
		not = not || s.not != nil && unicode.IsOneOf(s.not, r)
	}
	if !must || not {
		return 0, all
	}
	return of, all
}
