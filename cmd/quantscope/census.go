package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/analysis/census"
	"quantscope/analysis/lint"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/topology"
	"quantscope/sessions"
	"quantscope/views"
)

// censusFlags are the flags of census.
type censusFlags struct {
	against, fix   string
	session        string
	worst, threads int
	json           bool
}

func newCensus(std streams) *cobra.Command {
	var f censusFlags
	cmd := &cobra.Command{
		Use:   "census CHECKPOINT",
		Short: "Compare the second-level scales of what servers fuse; prove and mend what differs",
		Long: `census reads the second-level scales of matrices that servers fuse into one (gate
and up; q, k and v) and says which differ, by what ratio. With --against it
proves on the weights what a server does that uses the first scale for all.
With --fix it writes a copy in which they share one. It reports and does not
judge: the exit code is 0 whatever it finds; lint is the gate.`,
		Example: `  quantscope census ./Model-NVFP4
  quantscope census ./Model-NVFP4 --against ./Model --fix ./Model-NVFP4-fixed`,
		Args: exactly(1, "census takes one checkpoint: a folder or a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return censusOf(cmd.Context(), std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.against, "against", "", "checkpoint that it was made of: prove on its weights what differing scales do; may be demo")
	fl.StringVar(&f.fix, "fix", "", "folder to write a copy to in which what servers fuse shares one scale")
	fl.StringVar(&f.session, "session", "", "session to keep the census in, so that a replay of it shows it")
	fl.IntVar(&f.worst, "worst", 10, "how many of what differs to list")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	return cmd
}

// censusDocument is what census --json prints.
type censusDocument struct {
	*census.Report
	Fixed *census.Fixed  `json:"fixed,omitempty"`
	After *census.Totals `json:"after,omitempty"` // of the copy
}

func censusOf(ctx context.Context, std streams, path string, f censusFlags) error {
	switch {
	case f.threads < 1:
		return usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	case f.worst < 0:
		return usage(fmt.Errorf("--worst %d: want 0 or more", f.worst))
	}
	ck, model, err := openModel(path)
	if err != nil {
		return err
	}
	defer ck.Close()
	var master *census.Master
	if f.against != "" {
		from, m, err := openModel(f.against)
		if err != nil {
			return err
		}
		defer from.Close()
		master = census.NewMaster(from, m)
	}
	doc := censusDocument{}
	if doc.Report, err = census.Run(ctx, ck, model); err != nil {
		return censusError(path, err)
	}
	if f.session != "" {
		if err := present(f.session); err != nil {
			return err
		}
	}
	if f.fix != "" { // before the long work
		if err := export.Vacant(ck, f.fix); err != nil {
			return censusError(path, err)
		}
	}
	p := &censusProgress{progress: newProgress(std)}
	o := census.Options{Threads: f.threads, Fix: f.fix != "", Progress: p.show}
	if master != nil && doc.Differing > 0 {
		p.begin("weighing")
		doc.Report, err = census.Prove(ctx, doc.Report, ck, model, master, o)
		p.end()
		if err == nil && doc.Proof == nil {
			err = unproven(f.against, doc.Report)
		}
		if err != nil {
			return censusError(path, err)
		}
	}
	if f.session != "" {
		if err := recordCensus(ctx, f, path, ck, model, doc.Report); err != nil {
			return err
		}
	}
	if f.fix != "" {
		p.begin("writing")
		doc.Report, doc.Fixed, err = census.Fix(ctx, doc.Report, ck, model, master, f.fix, o)
		p.end()
		if err != nil {
			return censusError(path, err)
		}
		if doc.After, err = censusAfter(ctx, f.fix); err != nil {
			return err
		}
	}
	if f.json {
		return printJSON(std.out, doc)
	}
	return printCensus(std, doc, f.worst)
}

// recordCensus keeps a census, with what lint finds, in a session.
func recordCensus(ctx context.Context, f censusFlags, path string, ck *checkpoint.Checkpoint, model *topology.Model, rep *census.Report) error {
	found, err := lint.Run(ctx, ck, model)
	if err != nil {
		return err
	}
	a := sessions.Audit{Path: path, Master: f.against, Census: rep, Findings: found}
	for _, name := range []*string{&a.Path, &a.Master} {
		if *name == "" || *name == demo.Label {
			continue
		}
		if *name, err = filepath.Abs(*name); err != nil {
			return environment(err)
		}
	}
	return sessions.RecordAudit(f.session, a)
}

// unproven says why nothing could be held against the master.
func unproven(master string, rep *census.Report) error {
	last := rep.Left[len(rep.Left)-1]
	return badInput(fmt.Errorf("%s: nothing that differs in %s can be held against it: %s: %s", master, rep.Path, last.Name, last.Reason))
}

// censusAfter counts in the copy.
func censusAfter(ctx context.Context, dir string) (*census.Totals, error) {
	ck, err := checkpoint.Open(dir)
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	model, err := topology.FromCheckpoint(ck)
	if err != nil {
		return nil, badInput(err)
	}
	rep, err := census.Run(ctx, ck, model)
	if err != nil {
		return nil, censusError(dir, err)
	}
	return &rep.Totals, nil
}

func censusError(path string, err error) error {
	switch {
	case errors.Is(err, census.ErrConfig), errors.Is(err, census.ErrMaster), errors.Is(err, census.ErrNothing):
		return badInput(fmt.Errorf("%s: %w", path, err))
	case errors.Is(err, export.ErrOutput):
		return usage(err)
	}
	return err
}

// censusProgress prints how far a census is.
type censusProgress struct {
	*progress
	what  string
	began time.Time
	now   census.Progress
}

func (p *censusProgress) begin(what string) {
	p.what, p.began, p.now = what, time.Now(), census.Progress{}
}

func (p *censusProgress) show(now census.Progress) {
	p.now = now
	if time.Since(p.last) < p.every {
		return
	}
	p.last = time.Now()
	p.print(p.line())
}

func (p *censusProgress) line() string {
	line := fmt.Sprintf("%s  %s of %s", p.what, formatBytes(p.now.Done), formatBytes(p.now.Total))
	if rate := float64(p.now.Done) / time.Since(p.began).Seconds(); rate > 0 && !math.IsInf(rate, 0) {
		line += fmt.Sprintf("  %s/s", formatBytes(int64(rate)))
		if left := float64(p.now.Total-p.now.Done) / rate; left > 0 {
			line += "  ETA " + clock(left)
		}
	}
	return line
}

// end leaves the last line on a terminal.
func (p *censusProgress) end() {
	if p.now.Total == 0 {
		return
	}
	p.print(p.line())
	if p.live {
		fmt.Fprintln(p.w)
	}
}

func printCensus(std streams, doc censusDocument, worst int) error {
	t := newReport(std.out)
	rep := doc.Report
	head := rep.Path
	if rep.Layout != "" {
		head += "  " + rep.Layout
	}
	if rep.Convention != "" {
		head += ", second-level scales are " + plural(rep.Convention)
	}
	t.line("%s", views.Clean(head))
	if rep.Note != "" {
		t.line("%s", rep.Note)
	}
	if rep.Pairs > 0 {
		t.line("%s", countLine(rep.Totals, rep.Noun(rep.Pairs)))
		t.line("")
		censusLayers(t, rep)
	}
	if rep.Differing > 0 && worst > 0 {
		t.line("")
		censusWorst(t, rep, worst)
	}
	if said := rep.Sentence(); said != "" {
		t.line("")
		t.line("%s", said)
		if rep.Proof != nil && rep.Proof.Stored > farFromMaster {
			t.line("note    as stored it is far from %s, which may not be what it was made of", views.Clean(rep.Master))
		}
	}
	censusLeft(t, rep.Left)
	if doc.Fixed != nil {
		t.line("")
		censusFixed(t, doc)
	}
	return t.err
}

// farFromMaster is a relative error that quantization to four bits stays below.
const farFromMaster = 0.3

func plural(conventions string) string {
	list := strings.Split(conventions, ", ")
	for i := range list {
		list[i] += "s"
	}
	return strings.Join(list, " and ")
}

// countLine is the totals in a line.
func countLine(c census.Totals, noun string) string {
	line := fmt.Sprintf("%d of %d %s that servers fuse differ", c.Differing, c.Pairs, noun)
	if c.Differing == 0 {
		return line
	}
	return line + fmt.Sprintf("; ratio to the first's scale %.4g to %.4g, geometric mean %.4g", c.RatioMin, c.RatioMax, c.RatioMean)
}

// censusLayers is a row a layer and set.
func censusLayers(t *textReport, rep *census.Report) {
	header := []string{">layer", "of", "fused", ">" + rep.Noun(2), ">differ", ">ratio min", ">mean", ">max"}
	if rep.Proof != nil { // rel_l2
		header = append(header, ">served", ">stored", ">comp.", ">clamped")
	}
	var rows [][]string
	for i := range rep.Layers {
		l := &rep.Layers[i]
		layer := fmt.Sprint(l.Layer)
		if l.MTP {
			layer += " (MTP)"
		}
		row := []string{layer, l.Kind, l.Set, fmt.Sprint(l.Pairs), fmt.Sprint(l.Differing), "", "", ""}
		if l.Differing > 0 {
			row[5], row[6], row[7] = fmt.Sprintf("%.4g", l.RatioMin), fmt.Sprintf("%.4g", l.RatioMean), fmt.Sprintf("%.4g", l.RatioMax)
		}
		if p := l.Proof; p != nil {
			row = append(row, fmt.Sprintf("%.4g", p.Served), fmt.Sprintf("%.4g", p.Stored), fmt.Sprintf("%.4g", p.Compensated), fmt.Sprint(p.Clamped))
		} else if rep.Proof != nil {
			row = append(row, "", "", "", "")
		}
		rows = append(rows, row)
	}
	t.table(header, rows)
}

// differingMember is a member whose scale is not the first's.
type differingMember struct {
	census.Member
	first census.Member
	proof *census.Proof
}

// censusWorst lists members whose scale is furthest from the first's; where there
// is a proof, those that a server damages most.
func censusWorst(t *textReport, rep *census.Report, n int) {
	var all []differingMember
	for i := range rep.Layers {
		for k := range rep.Layers[i].Groups {
			g := &rep.Layers[i].Groups[k]
			for _, m := range g.Members[1:] {
				if m.Ratio == 1 {
					continue
				}
				d := differingMember{Member: m, first: g.Members[0]}
				if at := slices.IndexFunc(g.Proof, func(p census.Proof) bool { return p.Member == m.Name }); at >= 0 {
					d.proof = &g.Proof[at]
				}
				all = append(all, d)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b differingMember) int {
		if a.proof != nil && b.proof != nil {
			return cmp.Compare(b.proof.Served, a.proof.Served)
		}
		return cmp.Compare(math.Abs(math.Log(b.Ratio)), math.Abs(math.Log(a.Ratio)))
	})
	header := []string{">scale", ">first's", ">ratio"}
	if rep.Proof != nil { // rel_l2
		header = append(header, ">served", ">stored", ">comp.", ">clamped", ">to 0")
	}
	header = append(header, "worst")
	var rows [][]string
	for _, d := range all[:min(n, len(all))] {
		row := []string{fmt.Sprintf("%.6g", d.Scale), fmt.Sprintf("%.6g", d.first.Scale), fmt.Sprintf("%.6g", d.Ratio)}
		if p := d.proof; p != nil {
			row = append(row, fmt.Sprintf("%.4g", p.Served), fmt.Sprintf("%.4g", p.Stored), fmt.Sprintf("%.4g", p.Compensated), fmt.Sprint(p.Clamped), fmt.Sprint(p.Underflowed))
		} else if rep.Proof != nil {
			row = append(row, "", "", "", "", "")
		}
		rows = append(rows, append(row, views.Clean(d.Name)))
	}
	t.table(header, rows)
	if more := len(all) - len(rows); more > 0 {
		t.line("%d more; --worst and --json have all", more)
	}
}

func censusLeft(t *textReport, left []census.LeftOut) {
	for i, l := range left {
		if i == maxPrinted {
			t.line("%d more left out; --json has all", len(left)-i)
			return
		}
		t.line("left out  %s: %s", views.Clean(l.Name), views.Clean(l.Reason))
	}
}

// censusFixed says what was written and what it lost.
func censusFixed(t *textReport, doc censusDocument) {
	f := doc.Fixed
	noun, with := doc.Noun(f.Groups), ""
	if f.Requantized > 0 {
		with = f.Method
	}
	t.line("fixed   %s: %d %s, %d by compensation, %d by requantization%s; %s, %s", views.Clean(f.Out), f.Groups, noun, f.Compensated, f.Requantized,
		after(" with ", with), counted(f.Files, "file", "files"), formatBytes(f.Bytes))
	if f.ByComp != nil {
		line := fmt.Sprintf("rel_l2  over those %s: ", noun)
		if f.Stored > 0 {
			line += fmt.Sprintf("%.4g as stored, ", f.Stored)
		}
		line += fmt.Sprintf("%.4g by compensation", *f.ByComp)
		if f.ByRequant != nil {
			line += fmt.Sprintf(", %.4g by requantization", *f.ByRequant)
		}
		t.line("%s; %.4g as written (against %s)", line, f.Written, f.Against)
	}
	for _, n := range f.Notes {
		t.line("note    %s", views.Clean(n))
	}
	t.line("after   %s", countLine(*doc.After, doc.Noun(doc.After.Pairs)))
}

// after is a word with what stands before it, "" without one.
func after(lead, word string) string {
	if word == "" {
		return ""
	}
	return lead + word
}
