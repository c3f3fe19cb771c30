package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"quantscope/analysis/align"
	"quantscope/sessions"
	"quantscope/views"
)

// compareFilesFlags are the flags of compare that are about two checkpoints.
type compareFilesFlags struct {
	most     float64
	asStored bool
	threads  int
	reading  readingFlags
}

// compareTakes says what the command's arguments are.
const compareTakes = "compare takes a session and two of its variants, twice a session and a variant, or two checkpoints"

// filesDocument is what compare --json prints of two checkpoints.
type filesDocument struct {
	*align.Report
	AsStored bool          `json:"as_stored"`
	Most     *align.Number `json:"max_rel_l2,omitempty"` // that was allowed
	Over     []string      `json:"over"`                 // matrices beyond it
	OK       bool          `json:"ok"`
	Program  string        `json:"program"`
}

// compareFiles compares two checkpoints, matrix by matrix.
func compareFiles(ctx context.Context, std streams, paths [2]string, f compareFlags) error {
	switch {
	case f.worst < 0:
		return usage(fmt.Errorf("--worst %d: 0 or more", f.worst))
	case !(f.files.most >= 0):
		return usage(fmt.Errorf("--max-rel-l2 %g: want 0 or more", f.files.most))
	case f.files.threads < 1:
		return usage(fmt.Errorf("--threads %d: at least one is needed", f.files.threads))
	}
	reading, err := f.files.reading.options()
	if err != nil {
		return err
	}
	var sides [2]*align.Side
	for i, path := range paths {
		if path != "demo" {
			if err := present(path); err != nil {
				return err
			}
			if saved, err := sessions.IsSession(path); err == nil && saved {
				return usage(fmt.Errorf("%s: is a session: %s", path, compareTakes))
			}
		}
		if sides[i], err = align.Open(ctx, path, reading); err != nil {
			return filesError(err)
		}
		defer sides[i].Close()
	}
	p := newProgress(std)
	began := time.Now()
	rep, err := align.Compare(ctx, sides[0], sides[1], align.Options{Threads: f.files.threads, AsStored: f.files.asStored, Progress: func(now align.Progress) {
		if time.Since(p.last) >= p.every {
			p.last = time.Now()
			p.print(fmt.Sprintf("comparing  %.3g %% of %.3g Mweights  %.3g Mweights/s  %s", 100*float64(now.Done)/float64(max(now.Total, 1)), float64(now.Total)/1e6, float64(now.Done)/1e6/time.Since(began).Seconds(), now.Tensor))
		}
	}})
	if p.drawn {
		fmt.Fprintln(p.w)
	}
	if err != nil {
		return filesError(err)
	}
	doc := filesDocument{Report: rep, AsStored: f.files.asStored, Over: []string{}, OK: true, Program: version}
	if f.limited {
		most := align.Number(f.files.most)
		doc.Most = &most
		for _, x := range rep.Tensors {
			if !(float64(x.RelL2) <= f.files.most) || x.NonFinite > 0 && x.Different > 0 {
				doc.Over = append(doc.Over, x.Tensor)
			}
		}
		doc.OK = len(doc.Over) == 0
	}
	if f.json {
		err = printJSON(std.out, doc)
	} else {
		err = printFiles(std, &doc, f.worst)
	}
	if err == nil && !doc.OK {
		return checkFailed(errSaid)
	}
	return err
}

// filesError gives an error about a checkpoint its exit code.
func filesError(err error) error {
	if errors.Is(err, align.ErrNothing) || exitCode(err) == exitUsage {
		return badInput(err)
	}
	return err
}

// mostListed bounds names that are listed without figures.
const mostListed = 5

// printFiles prints the comparison of two checkpoints as plain text.
func printFiles(std streams, doc *filesDocument, worst int) error {
	r, t := doc.Report, newReport(std.out)
	t.line("%s against %s", r.Candidate, r.Master)
	if doc.AsStored {
		t.line("as stored: nothing is undone")
	}
	t.line("")
	var rows [][]string
	for _, k := range append(append([]align.Total{}, r.Kinds...), r.Matrices) {
		if k.Tensors == 0 {
			continue
		}
		rows = append(rows, []string{k.Kind, fmt.Sprint(k.Tensors), fmt.Sprint(k.Equal), fmt.Sprint(k.Undone), fmt.Sprintf("%d of %d", k.Different, k.Elements), numberText(k.RelL2), numberText(k.WorstRel), numberText(k.MaxAbs)})
	}
	t.table([]string{"", ">tensors", ">equal", ">undone", ">values that differ", ">rel L2", ">worst", ">max |diff|"}, rows)
	if n := r.Matrices.NonFinite + r.Others.NonFinite; n > 0 {
		t.line("%s are not finite on one side or both, and in no figure but those that differ", counted(int(n), "value", "values"))
	}
	list := r.Worst(worst)
	if len(list) > 0 {
		rows = rows[:0]
		for _, x := range list {
			stored := "-"
			if x.AsStored != nil {
				stored = numberText(x.AsStored.RelL2)
			}
			rows = append(rows, []string{views.Clean(x.Tensor), x.MasterIs, x.IsA, numberText(x.RelL2), stored, numberText(x.Cos), numberText(x.MaxAbs)})
		}
		t.line("")
		t.table([]string{"farthest", "master", "candidate", ">rel L2", ">as stored", ">cos", ">max |diff|"}, rows)
	} else if worst > 0 {
		t.line("")
		t.line("all values are equal")
	}
	printUndone(t, r)
	listed := func(what string, names []string) {
		if len(names) == 0 {
			return
		}
		more := ""
		if len(names) > mostListed {
			more = fmt.Sprintf(" and %d more", len(names)-mostListed)
		}
		t.line("%-18s%s%s", what, views.Clean(strings.Join(names[:min(len(names), mostListed)], ", ")), more)
	}
	t.line("")
	listed("only in master", r.OnlyMaster)
	listed("only in candidate", r.OnlyCandidate)
	listed("cannot be read", r.Unread)
	for i, f := range r.Findings {
		if i == maxPrinted {
			t.line("and %d more findings (--json has all)", len(r.Findings)-i)
			break
		}
		where := ""
		if f.Tensor != "" {
			where = views.Clean(f.Tensor) + ": "
		}
		t.line("%s  %s%s", f.ID, where, f.Message)
	}
	if doc.Most != nil {
		if doc.OK {
			t.line("ok: no tensor is farther than %s", numberText(*doc.Most))
		} else {
			t.line("%s farther than %s: %s", counted(len(doc.Over), "tensor is", "tensors are"), numberText(*doc.Most), views.Clean(strings.Join(doc.Over[:min(len(doc.Over), mostListed)], ", ")))
		}
	}
	return t.err
}

// printUndone says what was undone, what is the same for many tensors once.
func printUndone(t *textReport, r *align.Report) {
	type done struct {
		first string
		n     int
	}
	var order []string
	what := map[string]*done{}
	for _, x := range r.Tensors {
		for _, u := range x.Undone {
			if what[u] == nil {
				what[u] = &done{first: x.Tensor}
				order = append(order, u)
			}
			what[u].n++
		}
	}
	if len(order) == 0 {
		return
	}
	t.line("")
	t.line("undone before measuring:")
	for i, u := range order {
		if i == maxPrinted {
			t.line("  and %d more (--json has all)", len(order)-i)
			break
		}
		d := what[u]
		more := ""
		if d.n > 1 {
			more = fmt.Sprintf(" and %d more", d.n-1)
		}
		t.line("  %s%s: %s", views.Clean(d.first), more, u)
	}
}

// numberText writes a figure.
func numberText(n align.Number) string {
	v := float64(n)
	switch {
	case v == 0:
		return "0"
	case math.IsNaN(v):
		return "NaN"
	}
	return fmt.Sprintf("%.4g", v)
}
