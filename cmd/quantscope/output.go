package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"quantscope/views"
)

// printJSON writes one document. Types that may hold non-finite figures marshal
// them as strings themselves.
func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(v)
}

// textReport writes lines and remembers the first error. On a terminal no line
// is wider than it; a pipe, and --json, have everything whole.
type textReport struct {
	w    io.Writer
	cols int // 0: as wide as it comes
	err  error
}

func newReport(w io.Writer) *textReport {
	t := &textReport{w: w}
	if f, ok := w.(*os.File); ok && term.IsTerminal(f.Fd()) {
		if cols, _, err := term.GetSize(f.Fd()); err == nil {
			t.cols = cols
		}
	}
	return t
}

func (t *textReport) line(format string, args ...any) {
	if t.err != nil {
		return
	}
	text := fmt.Sprintf(strings.TrimRight(format, " "), args...)
	if t.cols > 0 {
		text = views.Truncate(text, t.cols)
	}
	_, t.err = io.WriteString(t.w, text+"\n")
}

// table writes rows in columns. Cells of a column whose header starts with ">"
// are aligned right.
func (t *textReport) table(header []string, rows [][]string) {
	right := make([]bool, len(header))
	width := make([]int, len(header))
	for i, h := range header {
		if cut, ok := strings.CutPrefix(h, ">"); ok {
			right[i], header[i] = true, cut
		}
	}
	for _, row := range append([][]string{header}, rows...) {
		for i, c := range row {
			width[i] = max(width[i], views.Width(c))
		}
	}
	for _, row := range append([][]string{header}, rows...) {
		var b strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", width[i]-views.Width(c))
			if i > 0 {
				b.WriteString("  ")
			}
			if right[i] {
				b.WriteString(pad + c)
			} else {
				b.WriteString(c + pad)
			}
		}
		t.line("%s", strings.TrimRight(b.String(), " "))
	}
}

// formatBytes writes a size in powers of 1000 with three digits, as checkpoints
// are spoken of.
func formatBytes(n int64) string {
	switch {
	case n >= 1e12:
		return fmt.Sprintf("%.3g TB", float64(n)/1e12)
	case n >= 1e9:
		return fmt.Sprintf("%.3g GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.3g MB", float64(n)/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.3g kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%d B", n)
}

// exactly refuses any other number of arguments as a usage error.
func exactly(n int, message string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usage(fmt.Errorf("%s", message))
		}
		return nil
	}
}

// counted is a number with its noun.
func counted[N int | int64](n N, one, more string) string {
	if n == 1 {
		more = one
	}
	return fmt.Sprintf("%d %s", n, more)
}
