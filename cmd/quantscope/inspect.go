package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/quant/demo"
	"quantscope/quant/ggufmake"
	"quantscope/quant/inspect"
	"quantscope/quant/layout"
	"quantscope/quant/recipe"
	"quantscope/views"
)

func newInspect(std streams) *cobra.Command {
	var asJSON, list bool
	var reading readingFlags
	var tensor string
	cmd := &cobra.Command{
		Use:   "inspect CHECKPOINT",
		Short: "Structure, sizes, memory and findings, from headers only",
		Long: `inspect reads the headers of a checkpoint and says what it is: layers, experts,
dtypes, what would be quantized, what it needs in memory as it is and in other
formats, and what is odd about it. --tensors lists every tensor. --tensor NAME
reads that one tensor and says what it holds. Of a GGUF file, or any part of a split
one, it also says the metadata, what types the weights have, and what a token takes
in the cache of keys and values.`,
		Example: `  quantscope inspect ./Qwen3-30B-A3B
  quantscope inspect model-Q4_K_M.gguf --json
  quantscope inspect demo --tensor lm_head.weight`,
		Args: exactly(1, "inspect takes one checkpoint: a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] != demo.Label && ggufmake.IsGGUF(args[0]) {
				return inspectGGUF(cmd.Context(), std, args[0], reading.blocks, tensor, list, asJSON)
			}
			if reading.blocks != "" {
				return usage(fmt.Errorf("--gguf-blocks is for GGUF files, and %s is none", args[0]))
			}
			if tensor != "" {
				return inspectTensor(cmd.Context(), std, args[0], tensor, asJSON)
			}
			return inspectHeaders(std, args[0], reading, list, asJSON)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&asJSON, "json", false, "print one JSON document")
	fl.BoolVar(&list, "tensors", false, "list every tensor")
	reading.bind(cmd)
	fl.StringVar(&tensor, "tensor", "", "read one tensor and say what it holds")
	return cmd
}

func inspectHeaders(std streams, path string, reading readingFlags, list, asJSON bool) error {
	o, err := reading.options()
	if err != nil {
		return err
	}
	c, m, err := openModel(path)
	if err != nil {
		return err
	}
	defer c.Close()
	r, err := inspect.Headers(c, m, list)
	if err != nil {
		return err
	}
	if l, err := layout.OpenWith(c, m, o); err != nil {
		r.Findings = append(r.Findings, inspect.Finding{Message: err.Error()})
	} else {
		r.AddLayout(l)
	}
	if asJSON {
		return printJSON(std.out, r)
	}
	return printInspect(std, r)
}

func printInspect(std streams, r *inspect.Report) error {
	t := newReport(std.out)
	t.line("%s", views.Clean(r.Path))
	t.line("  %s · %s", r.Summary, formatBytes(r.Bytes))
	t.line("  identity %s", r.Identity)
	if r.QuantMethod != "" {
		t.line("  quantized by %q, as its config says", r.QuantMethod)
	}
	t.line("")
	shares := func(title string, shares []inspect.Share) {
		var rows [][]string
		for _, s := range shares {
			rows = append(rows, []string{s.Name, fmt.Sprint(s.Tensors), millions(s.Params), formatBytes(s.Bytes)})
		}
		t.table([]string{title, ">tensors", ">params", ">size"}, rows)
		t.line("")
	}
	shares("part", r.Kinds)
	shares("dtype", r.DTypes)
	if len(r.Quantized) > 0 {
		var rows [][]string
		for _, k := range r.Quantized {
			rows = append(rows, []string{k.Format, k.Method, fmt.Sprint(k.Matrices), millions(k.Params), formatBytes(k.Bytes), k.Reading})
		}
		t.table([]string{"quantized", "layout", ">matrices", ">params", ">size", "read as"}, rows)
		t.line("")
	}
	for _, n := range r.Notes {
		t.line("note     %s", views.Clean(n))
	}
	if r.Targets.Matrices > 0 {
		t.line("targets  %s: %s, %s params, %.1f %% of the checkpoint's", r.Targets.Description, counted(r.Targets.Matrices, "matrix", "matrices"), millions(r.Targets.Params), 100*float64(r.Targets.Params)/float64(r.Params))
	} else {
		t.line("targets  none: %s", r.Targets.Reason)
	}
	if r.Targets.Excluded > 0 {
		t.line("         %d left out: %s", r.Targets.Excluded, r.Targets.Reason)
	}
	t.line("")
	printLeft(t, r.LeftAlone)
	if len(r.Cache) > 0 {
		printCache(t, r.Cache)
		t.line("")
	}
	var rows [][]string
	for _, e := range r.Estimates {
		rows = append(rows, []string{e.Format, fmt.Sprintf("%.2f", e.BitsPerWeight), formatBytes(e.Bytes), formatBytes(e.PerRank[0]), formatBytes(e.PerRank[1]), formatBytes(e.PerRank[2])})
	}
	t.table([]string{"weights in memory", ">b/w", ">one device", ">2", ">4", ">8 devices, each"}, rows)
	t.line("")
	for _, f := range r.Files {
		t.line("file     %s  %s  %s", views.Clean(f.Name), formatBytes(f.Size), counted(f.Tensors, "tensor", "tensors"))
	}
	var side []string
	for _, s := range r.Side {
		side = append(side, views.Clean(s.Name))
	}
	if len(side) > 0 {
		t.line("beside   %s", strings.Join(side, " "))
	}
	for i, n := range r.Unknown {
		if i == 10 {
			t.line("unknown  … %d more (--json has all)", len(r.Unknown)-i)
			break
		}
		t.line("unknown  %s", views.Clean(n))
	}
	for _, f := range r.Findings {
		t.line("finding  %s", views.Clean(strings.TrimSpace(strings.Join([]string{f.File, f.Tensor, f.Message}, " "))))
	}
	if len(r.List) > 0 {
		t.line("")
		var rows [][]string
		for _, x := range r.List {
			rows = append(rows, []string{views.Clean(x.Name), x.DType, fmt.Sprint(x.Shape), fmt.Sprint(x.Elements), fmt.Sprint(x.Bytes), views.Clean(x.File), x.Kind})
		}
		t.table([]string{"tensor", "dtype", "shape", ">elements", ">bytes", "file", "part"}, rows)
	}
	return t.err
}

// printLeft says what stays as it is, and why.
func printLeft(t *textReport, parts []recipe.Part) {
	if len(parts) == 0 {
		return
	}
	var rows [][]string
	for _, p := range parts {
		rows = append(rows, []string{p.Part, fmt.Sprint(p.Tensors), dash(p.Matrices), millions(p.Params), formatBytes(p.Bytes), views.Clean(p.Why)})
	}
	t.table([]string{"left alone", ">tensors", ">matrices", ">params", ">size", "because"}, rows)
	t.line("")
}

// printCache says what layers keep of a text while it grows.
func printCache(t *textReport, list []inspect.Cache) {
	var rows [][]string
	number := func(n int64) string {
		if n == 0 {
			return "—"
		}
		return fmt.Sprint(n)
	}
	for _, c := range list {
		name, tokens, entry, state := views.Clean(c.Attention), "all", "—", number(c.StateBytes)
		if c.MTP {
			name += ", MTP"
		}
		switch {
		case c.Shared:
			tokens = "those of a layer before"
		case c.BytesPerToken == 0:
			tokens = "—"
		case c.Window > 0:
			tokens = fmt.Sprint(c.Window)
		}
		if c.EntryTokens > 0 {
			entry = fmt.Sprintf("%d for %d tokens", c.EntryBytes, c.EntryTokens)
		}
		if c.StateBytes < 0 {
			state = "not known"
		}
		rows = append(rows, []string{name, fmt.Sprint(c.Layers), number(c.BytesPerToken), tokens, entry, state})
	}
	t.table([]string{"cache of a layer, bytes", ">layers", ">a token", ">of so many", ">an entry", ">a sequence"}, rows)
}

func inspectTensor(ctx context.Context, std streams, path, name string, asJSON bool) error {
	c, m, err := openModel(path)
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := inspect.ReadValues(ctx, c, name)
	if err != nil {
		return err
	}
	for i := range c.Tensors {
		if c.Tensors[i].Name == name {
			v.Kind = m.Roles[i].Kind.String()
		}
	}
	return printValues(std, v, asJSON)
}

// printValues says what a tensor holds.
func printValues(std streams, v *inspect.Values, asJSON bool) error {
	if asJSON {
		return printJSON(std.out, v)
	}
	t := newReport(std.out)
	t.line("%s", views.Clean(v.Name))
	part := ""
	if v.Kind != "" {
		part = "; " + v.Kind
	}
	t.line("  %s %v, %d elements, %d bytes, in %s%s", v.DType, v.Shape, v.Elements, v.Bytes, views.Clean(v.File), part)
	t.line("  NaN %d, infinite %d, zero %d", v.NaN, v.Inf, v.Zeros)
	if len(v.Positions) > 0 {
		var at []string
		for _, p := range v.Positions {
			at = append(at, place(v.Shape, p))
		}
		more := ""
		if n := v.NaN + v.Inf; n > int64(len(at)) {
			more = fmt.Sprintf(" and %d more", n-int64(len(at)))
		}
		t.line("  non-finite at %s%s", strings.Join(at, " "), more)
	}
	if v.Min != nil {
		t.line("  min %.6g, max %.6g, mean %.6g, standard deviation %.6g of the finite", *v.Min, *v.Max, *v.Mean, *v.Std)
	}
	t.line("  %s", strings.Join(v.First, " "))
	return t.err
}

// place is the index along each dimension of an element in row-major order: [3,17].
func place(shape []int64, at int64) string {
	index := make([]string, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		n := max(shape[d], 1)
		index[d], at = fmt.Sprint(at%n), at/n
	}
	return "[" + strings.Join(index, ",") + "]"
}

// millions writes a count of parameters.
func millions(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f G", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.2f k", float64(n)/1e3)
	}
	return fmt.Sprint(n)
}
