package main

import (
	"context"
	"fmt"
	"strings"

	"quantscope/quant/gguf"
	"quantscope/quant/inspect"
	"quantscope/views"
)

func inspectGGUF(ctx context.Context, std streams, path, blocks, tensor string, list, asJSON bool) error {
	b, err := gguf.ParseBlocks(blocks)
	if err != nil {
		return usage(fmt.Errorf("--gguf-blocks: %w", err))
	}
	if err := present(path); err != nil {
		return err
	}
	f, err := gguf.OpenWith(path, gguf.Options{Blocks: b})
	if err != nil {
		return err
	}
	defer f.Close()
	if tensor != "" {
		v, err := inspect.ReadGGUFValues(ctx, f, tensor)
		if err != nil {
			return err
		}
		return printValues(std, v, asJSON)
	}
	r, err := inspect.GGUF(ctx, f, list)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(std.out, r)
	}
	return printInspectGGUF(std, r)
}

func printInspectGGUF(std streams, r *inspect.GGUFReport) error {
	t := newReport(std.out)
	t.line("%s", views.Clean(r.Path))
	t.line("  GGUF, architecture %q, %s params, %s", views.Clean(r.Architecture), millions(r.Params), formatBytes(r.Bytes))
	if r.Summary != "" {
		t.line("  %s", r.Summary)
	}
	t.line("  identity %s", r.Identity)
	t.line("")
	var rows [][]string
	for _, x := range r.Types {
		size, bits := "unknown", "?"
		if x.Known {
			size, bits = formatBytes(x.Bytes), fmt.Sprintf("%.4g", x.BitsPerWeight)
		}
		rows = append(rows, []string{x.Name, fmt.Sprint(x.Tensors), millions(x.Params), fmt.Sprintf("%.2f %%", 100*x.ShareParams), bits, size})
	}
	t.table([]string{"type", ">tensors", ">params", ">share", ">b/w", ">size"}, rows)
	t.line("")
	if len(r.Kinds) > 0 {
		rows = nil
		for _, s := range r.Kinds {
			rows = append(rows, []string{s.Name, fmt.Sprint(s.Tensors), millions(s.Params), formatBytes(s.Bytes)})
		}
		t.table([]string{"part", ">tensors", ">params", ">size"}, rows)
		t.line("")
	}
	if g := r.Geometry; g != nil {
		t.line("heads    %d, %d of keys, %d wide; %d rotary channels, theta %g, scaling %s; context %d", g.Heads, g.KVHeads, g.HeadDim, g.RotaryDim, g.RopeTheta, g.Rope, g.Context)
		t.line("cache    %s a token in f16, at most %s for the whole context", formatBytes(g.KVPerToken), formatBytes(inspect.CacheBytes(r.Cache, int64(g.Context))))
		if len(r.Cache) > 1 {
			printCache(t, r.Cache)
		}
	}
	e, without, unknown := r.Estimate, "", 0
	for _, x := range r.Types {
		if !x.Known {
			unknown += x.Tensors
		}
	}
	if unknown > 0 {
		without = fmt.Sprintf("; without %s of unknown size", counted(unknown, "tensor", "tensors"))
	}
	t.line("memory   %s of weights (%.2f bits each); on 2, 4, 8 devices %s, %s, %s each%s", formatBytes(e.Bytes), e.BitsPerWeight, formatBytes(e.PerRank[0]), formatBytes(e.PerRank[1]), formatBytes(e.PerRank[2]), without)
	for _, f := range r.Files {
		order := ""
		if f.BigEndian {
			order = ", big-endian"
		}
		t.line("file     %s  %s  %s  version %d%s, alignment %d", views.Clean(f.Name), formatBytes(f.Size), counted(f.Tensors, "tensor", "tensors"), f.Version, order, f.Alignment)
	}
	t.line("")
	rows = nil
	for _, k := range r.Metadata {
		rows = append(rows, []string{views.Clean(k.Key), views.Clean(strings.ReplaceAll(k.Value, "\n", "↵"))})
	}
	t.table([]string{"key", "value"}, rows)
	for _, f := range r.Findings {
		t.line("finding  %s", views.Clean(strings.TrimSpace(strings.Join([]string{f.File, f.Tensor, f.Message}, " "))))
	}
	if len(r.List) > 0 {
		t.line("")
		rows = nil
		for _, x := range r.List {
			size := fmt.Sprint(x.Bytes)
			if x.Bytes < 0 {
				size = "unknown"
			}
			rows = append(rows, []string{views.Clean(x.Name), x.DType, fmt.Sprint(x.Shape), fmt.Sprint(x.Elements), size, views.Clean(x.File), x.Kind})
		}
		t.table([]string{"tensor", "type", "shape", ">elements", ">bytes", "file", "part"}, rows)
	}
	return t.err
}
