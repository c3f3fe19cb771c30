package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"quantscope/analysis/lint"
	"quantscope/analysis/lint/logs"
	"quantscope/quant/checkpoint"
)

// lintJSON is what lint --json prints.
type lintJSON struct {
	Path      string         `json:"path"`
	Rules     int            `json:"rules"`
	Tensors   int            `json:"tensors"`
	FailOn    string         `json:"fail_on"`
	Failed    bool           `json:"failed"`
	Counts    map[string]int `json:"counts"`
	Findings  []lint.Finding `json:"findings"`
	Effective []lint.Share   `json:"requested_effective"`
	Logs      []logs.Report  `json:"logs"`
}

func lintDocument(path string, f lintFlags, in lint.Input, rep *lint.Report, failed bool) lintJSON {
	d := lintJSON{
		Path: path, Rules: rep.Rules, Tensors: rep.Tensors, FailOn: f.failOn, Failed: failed, Findings: rep.Findings, Effective: rep.Effective,
		Counts: map[string]int{}, Logs: []logs.Report{},
	}
	for _, s := range lint.Severities() {
		d.Counts[string(s)] = 0
	}
	for i := range rep.Findings {
		d.Counts[string(rep.Findings[i].Severity)] += 1 + rep.Findings[i].More
	}
	for _, l := range in.Logs {
		d.Logs = append(d.Logs, *l)
	}
	return d
}

// printKinds lists the kinds of findings.
func printKinds(std streams, asJSON bool) error {
	kinds := lint.Kinds()
	if asJSON {
		return printJSON(std.out, struct {
			Kinds []lint.Kind `json:"kinds"`
		}{kinds})
	}
	t := newReport(std.out)
	rule := ""
	for _, k := range kinds {
		if k.Rule != rule {
			rule = k.Rule
			t.line("%s", rule)
		}
		t.line("  %-26s %-8s %s", k.ID, k.Severity, k.Title)
	}
	return t.err
}

// writeWhole writes a file beside and renames it, so that what was there stays
// until the new one is whole.
func writeWhole(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644)
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// sarifPlace refuses to write a report over anything but an earlier one: a shard of
// the checkpoint whose name was put at the wrong place, or a device that would make way
// for a file.
func sarifPlace(path string) error {
	if path == "" || path == "-" {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case err != nil: // not there, or writing says it
		return nil
	case !info.Mode().IsRegular():
		return usage(fmt.Errorf("--sarif %s is no file; - writes to standard output", path))
	case info.Size() == 0:
		return nil
	}
	f, _, err := checkpoint.OpenRegular(path)
	if err != nil {
		return err
	}
	defer f.Close()
	start := make([]byte, 512)
	n, err := io.ReadFull(f, start)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return environment(checkpoint.SystemError(path, err))
	}
	if start = start[:n]; start[0] != '{' || !bytes.Contains(start, []byte(`"version": "2.1.0"`)) || !bytes.Contains(start, []byte("sarif")) {
		return usage(fmt.Errorf("--sarif %s is there already, and no SARIF report", path))
	}
	return nil
}
