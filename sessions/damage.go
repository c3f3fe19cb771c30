package sessions

import (
	"fmt"
	"slices"
	"strings"
)

// damage is what of a file could not be read. What is read is right: every
// event has a checksum.
type damage struct {
	missing    string  // what the size says
	gone       int64   // events that are not there at all: they are numbered without gaps
	bad        int64   // events whose checksum or content is wrong
	badSeqs    []int64 // the first of them
	unreadable []int64 // events from which on SQLite found the file broken
}

func (d *damage) any() bool {
	return d.missing != "" || d.gone > 0 || d.bad > 0 || len(d.unreadable) > 0
}

// add counts an event that cannot be used.
func (d *damage) add(seq int64) {
	d.bad++
	if len(d.badSeqs) < 8 {
		d.badSeqs = append(d.badSeqs, seq)
	}
}

func (d *damage) merge(o damage) {
	d.bad += o.bad
	d.badSeqs = append(d.badSeqs, o.badSeqs...)
	d.badSeqs = d.badSeqs[:min(len(d.badSeqs), 8)]
	d.unreadable = append(d.unreadable, o.unreadable...)
}

// String says in a line what was lost.
func (d *damage) String() string {
	var parts []string
	if d.missing != "" {
		parts = append(parts, d.missing)
	}
	if d.bad > 0 {
		seqs := strings.Trim(fmt.Sprint(d.badSeqs), "[]")
		if int64(len(d.badSeqs)) < d.bad {
			seqs += " …"
		}
		parts = append(parts, fmt.Sprintf("events left out: %d (seq %s)", d.bad, seqs))
	}
	if d.gone > 0 {
		parts = append(parts, fmt.Sprintf("events gone: %d", d.gone))
	}
	if len(d.unreadable) > 0 {
		parts = append(parts, fmt.Sprintf("unreadable from event %d on", slices.Min(d.unreadable)))
	}
	return strings.Join(parts, "; ")
}

// damageEvent says in the log, at its end, what could not be read. It is not in
// the file, so it has no number.
func (l *loaded) damageEvent() Event {
	return Event{
		Kind: EventFinding, Variant: -1, Tensor: -1, AtUS: l.st.LastUS,
		Message: "session file " + l.st.Meta.Path + " is damaged: " + l.damage.String(),
	}
}
