package report

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/analysis/landscape"
	"quantscope/sessions"
)

// Options say what of a session is reported.
type Options struct {
	Variants []int             // IDs, in the order of the report; nil: all
	Pricing  bool              // with the price of exemption lists
	Settings map[string]string // of the session, for the receipt
	Records  string            // SHA-256 of the canonical records; "" where it is not known
}

// Report is what a session says of its checkpoint.
type Report struct {
	Session  string // base name of its file
	Meta     sessions.Meta
	Progress sessions.Progress
	Settings map[string]string
	Records  string
	Variants []Variant
	Notes    []Note

	state       *sessions.State
	table       *landscape.Table
	predictions []predictions
}

// Variant is one variant with its landscape.
type Variant struct {
	ID        int
	Summary   sessions.Summary
	Bytes     int64 // of all tensors as stored under it, -1 where that is not known
	Landscape *landscape.Report
	Pricing   *landscape.Pricing // nil where it was not asked for, or NoPrice says why
	NoPrice   string
}

// Note is an event that a reader must know: a failure, a fallback, a finding.
type Note struct {
	Kind    sessions.EventKind `json:"kind"`
	Variant string             `json:"variant"` // "" where it is about none
	Tensor  string             `json:"tensor"`
	Message string             `json:"message"`
}

// Build analyzes a session. It changes nothing in st, which must not change
// while the report is in use. Errors are those of ctx, and of a variant that
// is not there.
func Build(ctx context.Context, st *sessions.State, o Options) (*Report, error) {
	ids := o.Variants
	if ids == nil {
		for v := range st.Variants {
			ids = append(ids, v)
		}
	}
	r := &Report{
		Session: filepath.Base(st.Meta.Path), Meta: st.Meta, Progress: st.Progress, Settings: o.Settings, Records: o.Records,
		Notes: notes(st, ids), state: st, table: st.Table(),
	}
	if st.Meta.Path == "" {
		r.Session = ""
	}
	var err error
	if r.predictions, err = measurements(ctx, st); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if id < 0 || id >= len(st.Variants) {
			return nil, fmt.Errorf("report: variant %d is not there: the session has %d", id, len(st.Variants))
		}
		v := Variant{ID: id, Summary: sessions.Summarize(st, id), Bytes: total(r.table.Arms[id].Bytes)}
		var err error
		if v.Landscape, err = landscape.Analyze(ctx, r.table, id); err != nil {
			return nil, fmt.Errorf("report: variant %s: %w", v.Summary.Variant, err)
		}
		if o.Pricing {
			if err := v.price(ctx, r.table); err != nil {
				return nil, err
			}
		}
		r.Variants = append(r.Variants, v)
	}
	return r, nil
}

// price says what protecting tensors would buy against storing them as the
// source has them. Only the end of ctx is an error: a price that does not
// exist has a reason.
func (v *Variant) price(ctx context.Context, t *landscape.Table) error {
	source := t.Arm(sessions.SourceArm)
	if source < 0 {
		v.NoPrice = "the session does not say what the source takes"
		return nil
	}
	p, err := landscape.Price(ctx, t, landscape.PriceOptions{Base: v.ID, Protect: source})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		v.NoPrice = strings.TrimPrefix(err.Error(), "landscape: ")
	default:
		v.Pricing = p
	}
	return nil
}

// total is the sum of sizes, -1 where one is not known.
func total(bytes []int64) int64 {
	var sum int64
	for _, b := range bytes {
		if b < 0 {
			return -1
		}
		sum += b
	}
	return sum
}

// notes are the failures, fallbacks and findings of some variants, in order.
func notes(st *sessions.State, ids []int) []Note {
	var out []Note
	for _, e := range st.Log {
		switch e.Kind {
		case sessions.EventFailed, sessions.EventFallback, sessions.EventFinding, sessions.EventStopped:
		default:
			continue
		}
		if e.Variant >= 0 && !slices.Contains(ids, e.Variant) {
			continue
		}
		n := Note{Kind: e.Kind, Message: e.Message}
		if e.Variant >= 0 && e.Variant < len(st.Variants) {
			n.Variant = st.Variants[e.Variant].Name
		}
		if e.Tensor >= 0 && e.Tensor < len(st.Tensors) {
			n.Tensor = st.Tensors[e.Tensor].Name
		}
		out = append(out, n)
	}
	return out
}
