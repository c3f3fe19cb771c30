package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"quantscope/analysis/census"
	"quantscope/analysis/lint"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/export"
	"quantscope/quant/topology"
	"quantscope/sessions"
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
	fl.StringVar(&f.session, "session", "", "session that is there, to add the census to, so that a replay of it shows it")
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
	if f.session != "" {
		if err := present(f.session); err != nil {
			return fmt.Errorf("%w: --session adds the census to a session that is there", err)
		}
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
