// Package logs reads what quantizers and servers wrote to a terminal, and finds in
// it what a person would want to have read: fallbacks, things that were not
// available or ignored, modules that were skipped, keys that were missing, experts
// that saw no text.
//
// Promises: a log is read once, in pieces, and memory does not grow with its
// length; progress bars and control sequences hide nothing, since what they write
// over is read as well; every event says its line. What no table knows is not
// guessed at.
package logs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"quantscope/quant/checkpoint"
)

// Report is what a log says.
type Report struct {
	Path   string   `json:"path"`
	Lines  int      `json:"lines"`
	Tools  []string `json:"tools"` // that were recognized, by their own lines
	Events []Event  `json:"events"`
	More   int      `json:"more"` // kinds of events beyond those that are kept
	// Types is what llama-quantize says that it asked for and wrote.
	Types  []TypeShare `json:"types"`
	Wanted string      `json:"wanted"` // the file type that llama-quantize was asked for
}

// Event is something that a log says, with how often.
type Event struct {
	ID     string `json:"id"` // of the finding, as log-fallback
	Tool   string `json:"tool"`
	Line   int    `json:"line"` // where it is first
	Hidden bool   `json:"hidden"`
	Mild   bool   `json:"mild"` // about a device, a kernel or a download, not about weights
	Text   string `json:"text"`
	Module string `json:"module"` // that it names, "" for none
	Count  int    `json:"count"`
	Last   int    `json:"last"` // line of the last one
}

// TypeShare is tensors that were to be one type and became another.
type TypeShare struct {
	Requested string `json:"requested"`
	Effective string `json:"effective"`
	Tensors   int    `json:"tensors"`
	Params    int64  `json:"params"`
	First     string `json:"first"`
}

// maxEvents bounds the kinds of events that are kept of a log.
const maxEvents = 500

// shownText bounds what is quoted of a line.
const shownText = 240

// Open reads a file.
func Open(ctx context.Context, path string) (*Report, error) {
	f, _, err := checkpoint.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := Read(ctx, path, io.NewSectionReader(f, 0, 1<<62))
	if err != nil && ctx.Err() == nil {
		err = checkpoint.SystemError(path, err)
	}
	return r, err
}

// Read reads a log. The error is the reader's or the context's.
func Read(ctx context.Context, path string, in io.Reader) (*Report, error) {
	p := &parser{rep: &Report{Path: path, Tools: []string{}, Events: []Event{}, Types: []TypeShare{}}, at: map[string]int{}, types: map[[2]string]int{}, fell: map[string]string{}}
	n := 0
	err := Clean(in, func(f Fragment) error {
		if n++; n%1024 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p.rep.Lines = max(p.rep.Lines, f.Line)
		p.fragment(f)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.rep, nil
}

type parser struct {
	rep    *Report
	at     map[string]int    // events by what they say
	types  map[[2]string]int // index in rep.Types
	fell   map[string]string // tensors that llama-quantize falls back for: the type that was asked for
	tensor string            // that llama-quantize is at
	open   string            // a tensor whose line is not whole yet
	params int64             // and its parameters
}

// fragment looks at one.
func (p *parser) fragment(f Fragment) {
	p.llama(f)
	low := strings.ToLower(f.Fresh)
	for i := range tools {
		if t := &tools[i]; !slices.Contains(p.rep.Tools, t.name) && strings.Contains(low, t.word) {
			p.rep.Tools = append(p.rep.Tools, t.name)
		}
	}
	if i, at := openings.first(low); i >= 0 { // what a line says first in the table is what it is about
		text := excerpt(f.Fresh, low, at)
		p.add(Event{ID: signs[i].id, Tool: signs[i].tool, Line: f.Line, Hidden: f.Hidden, Mild: mild(low), Text: text, Module: moduleIn(text)})
	}
}

// add adds an event, or counts it with one that says the same but for numbers and
// names.
func (p *parser) add(e Event) {
	key := e.ID + " " + shape(e.Text)
	if i, ok := p.at[key]; ok {
		old := &p.rep.Events[i]
		if old.Last != e.Line || old.Hidden == e.Hidden { // not the same line, seen before it was written over
			old.Count++
		}
		old.Last, old.Hidden = e.Line, old.Hidden && e.Hidden
		return
	}
	if len(p.rep.Events) == maxEvents {
		p.rep.More++
		return
	}
	e.Count, e.Last = 1, e.Line
	p.at[key] = len(p.rep.Events)
	p.rep.Events = append(p.rep.Events, e)
}

// shape is a text without what differs between repetitions: numbers, and words with
// dots in them, which are names of modules and files.
func shape(s string) string {
	var b strings.Builder
	for word := range strings.FieldsSeq(s) {
		switch {
		case strings.Count(strings.Trim(word, "."), ".") > 0 || strings.Contains(word, "/"):
			word = "@"
		case strings.ContainsFunc(word, unicode.IsDigit):
			word = "#"
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
	}
	return b.String()
}

// excerpt is the text around a place of its lower-case form, without the progress
// bar before it.
func excerpt(s, low string, at int) string {
	if len(s) != len(low) { // other lengths in lower case: places do not hold
		at = 0
	}
	start := 0
	for _, mark := range []string{"it/s]", "s/it]", "?it/s]", "<?]"} {
		if i := strings.LastIndex(s[:at], mark); i >= 0 {
			start = max(start, i+len(mark))
		}
	}
	if at-start > shownText/2 {
		start = at - shownText/2
	}
	end := min(len(s), start+shownText)
	out := strings.TrimSpace(strings.ToValidUTF8(s[start:end], ""))
	if end < len(s) {
		out += " …"
	}
	return out
}

// moduleIn is the first word that is the name of a module: dotted, with a layer's
// number in it.
func moduleIn(s string) string {
	for word := range strings.FieldsSeq(s) {
		word = strings.Trim(word, "`'\",;:()[]{}<>\uFFFD")
		if len(word) > 200 || strings.Count(word, ".") < 2 || strings.ContainsAny(word, "/\\=[*|?") || !strings.Contains(word, "layers.") && !strings.Contains(word, "blk.") && !strings.Contains(word, "mtp.") {
			continue
		}
		return strings.TrimSuffix(word, ".")
	}
	return ""
}

// String is the event in a line.
func (e *Event) String() string {
	if e.Count > 1 {
		return fmt.Sprintf("%s (%d times)", e.Text, e.Count)
	}
	return e.Text
}
