package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"quantscope/analysis/calibrate"
	"quantscope/quant/gguf"
)

func newCalibrateInfo(std streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "info FILE",
		Short: "Say what a file of moments, or an importance matrix of llama.cpp, holds",
		Args:  exactly(1, "calibrate info takes one file: what calibrate wrote, or an importance matrix"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := present(args[0]); err != nil {
				return err
			}
			f, err := calibrate.OpenFile(cmd.Context(), args[0])
			if err != nil {
				return calibrateError(err)
			}
			defer f.Close()
			d := calibrationOf(f)
			if asJSON {
				return printJSON(std.out, d)
			}
			return printCalibration(std.out, d)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document on standard output")
	return cmd
}

// conversionDocument is what calibrate convert prints with --json.
type conversionDocument struct {
	Out     string         `json:"out"`
	Entries int            `json:"entries"`
	Unnamed []unnamedInput `json:"unnamed"`
}

func newCalibrateConvert(std streams) *cobra.Command {
	var out string
	var chunk int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "convert FILE --imatrix OUT.gguf",
		Short: "Write second moments as an importance matrix for llama.cpp",
		Long: `convert writes what calibrate measured under the names that llama.cpp's converter
gives to the linear maps, and tells what has no name there. It also takes an importance
matrix of the older format (.dat), whose counts are of chunks: --chunk says how many
tokens these had.`,
		Example: `  quantscope calibrate convert model.calib --imatrix imatrix.gguf`,
		Args:    exactly(1, "calibrate convert takes one file: what calibrate wrote, or an importance matrix"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case out == "":
				return usage(errors.New("--imatrix is wanted: the file to write"))
			case chunk < 1:
				return usage(fmt.Errorf("--chunk %d: a chunk has a token or more", chunk))
			}
			if err := present(args[0]); err != nil {
				return err
			}
			if err := writable(out, false); err != nil {
				return noForce(out, err)
			}
			return convertCalibration(cmd.Context(), std, args[0], out, chunk, asJSON)
		},
	}
	cmd.Flags().StringVar(&out, "imatrix", "", "file to write")
	cmd.Flags().IntVar(&chunk, "chunk", 512, "of the older format: tokens of a chunk")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document on standard output")
	return cmd
}

func convertCalibration(ctx context.Context, std streams, path, out string, chunk int, asJSON bool) error {
	f, err := calibrate.OpenFile(ctx, path)
	if err != nil {
		return calibrateError(err)
	}
	defer f.Close()
	unnamed, err := writeImatrix(ctx, f, out, chunk)
	if err != nil {
		return calibrateError(err)
	}
	m, err := gguf.ReadImatrix(out)
	if err != nil {
		return err
	}
	d := conversionDocument{Out: out, Entries: len(m.Entries), Unnamed: unnamed}
	if asJSON {
		return printJSON(std.out, d)
	}
	t := newReport(std.out)
	t.line("%s  %s", out, counted(d.Entries, "entry", "entries"))
	for _, u := range unnamed {
		t.line("not in it  %s: %s", u.Map, u.Reason)
	}
	return t.err
}

// writeImatrix writes the moments of a file for llama.cpp, and tells what has no
// name there. chunk is the length of chunks in the older format.
func writeImatrix(ctx context.Context, f *calibrate.File, out string, chunk int) ([]unnamedInput, error) {
	m, unnamed, err := f.Imatrix(ctx)
	if err != nil {
		return nil, err
	}
	if m.Legacy {
		m = m.Counted(chunk)
	}
	if err := calibrate.SaveImatrix(out, m); err != nil {
		return nil, err
	}
	list := []unnamedInput{}
	for _, u := range unnamed {
		list = append(list, unnamedInput(u))
	}
	return list, nil
}
