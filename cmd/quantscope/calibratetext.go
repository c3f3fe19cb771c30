package main

import (
	"fmt"
	"io"
	"math"

	"quantscope/views"
)

// printCalibration writes what a file of moments holds.
func printCalibration(w io.Writer, d calibrationDocument) error {
	t := newReport(w)
	if d.File != "" {
		t.line("%s  %s %.16s", views.Clean(d.File), d.Kind, d.Identity)
	}
	if d.Source != "" {
		t.line("source     %.16s  %s, through %s", d.Source, d.Family, views.Clean(d.Through))
	}
	text := fmt.Sprintf("text       %s: %s tokens in %s", views.Clean(d.Corpus.Name), thousands(d.Corpus.Tokens), counted(d.Corpus.Chunks, "chunk", "chunks"))
	if d.Corpus.SHA256 != "" {
		text += "  " + d.Corpus.SHA256[:min(16, len(d.Corpus.SHA256))]
	}
	t.line("%s", text)
	what := "second moments"
	if d.Hessians {
		what = "Hessians and second moments"
	}
	t.line("inputs     %d, %d of them measured, at most %d columns: %s", d.Inputs, d.Measured, d.Columns, what)
	if d.Imatrix != "" {
		t.line("imatrix    %s", views.Clean(d.Imatrix))
	}
	for _, u := range d.Unnamed {
		where := ""
		if u.Layers > 0 {
			where = fmt.Sprintf(" of %s", counted(u.Layers, "layer", "layers"))
		}
		t.line("not in it  %s%s: %s", u.Map, where, u.Reason)
	}
	if len(d.Layers) > 0 {
		t.line("")
		if d.Rank.Need > 0 && d.Rank.Tokens > 0 {
			t.line("%s", d.Rank.Text())
		}
		printExperts(t, d)
	}
	for _, n := range d.Notes {
		t.line("note: %s", views.Clean(n))
	}
	return t.err
}

// mapColumns is how many experts stand in a line of the map.
const mapColumns = 64

// printExperts draws how many tokens each expert was given: a row a layer, a glyph
// an expert.
func printExperts(t *textReport, d calibrationDocument) {
	s := d.Experts
	t.line("%s: tokens of each %s to %s, median %s; %d inactive, %d with fewer tokens than columns",
		counted(s.Experts, "expert", "experts"), thousands(s.Min), thousands(s.Max), thousands(int64(math.Round(s.Median))), s.Inactive, s.Deficient)
	t.line("")
	for _, l := range d.Layers {
		name := fmt.Sprintf("L%d", l.Layer)
		if l.MTP {
			name = fmt.Sprintf("M%d", l.Layer)
		}
		glyphs := expertGlyphs(l)
		for at := 0; at < len(glyphs); at += mapColumns {
			t.line("%5s  %s", name, string(glyphs[at:min(at+mapColumns, len(glyphs))]))
			name = ""
		}
	}
	t.line("")
	t.line("       %s tokens against an even share: below ¼, ½, 1, 2, 4, and above;  ! fewer tokens than columns;  × none", string(shareGlyphs))
}

// shareGlyphs are tokens against an even share, from below a quarter on, doubling.
var shareGlyphs = []rune("▁▂▄▅▆█")

func expertGlyphs(l calibrationLayer) []rune {
	out := make([]rune, len(l.Expert))
	even := float64(l.Tokens) * float64(l.TopK) / float64(max(len(l.Expert), 1))
	for e, n := range l.Expert {
		switch {
		case n == 0:
			out[e] = '×'
		case n < int64(l.Columns):
			out[e] = '!'
		default:
			k := int(math.Floor(math.Log2(float64(n)/even))) + 3
			out[e] = shareGlyphs[min(max(k, 0), len(shareGlyphs)-1)]
		}
	}
	return out
}
