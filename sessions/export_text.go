package sessions

import (
	"bufio"
	"context"
	"encoding/csv"
	"io"
	"math"
	"strconv"

	"quantscope/kernels"
)

// column is one figure of an exported measurement. docs/session.md lists them.
type column struct {
	name string
	// One of the three: counts are integers everywhere.
	figure func(l *line) float64
	count  func(l *line) int64
	text   func(l *line) string

	moments bool // nothing stands there where a record has no moments
	trade   bool // nothing stands there where nothing was calibrated
	bias    bool // nothing stands there where a format has no codebook, or an older record does not know its bias
}

// absent says whether a line has nothing in a column.
func (c *column) absent(l *line) bool {
	return l.failure != "" || c.moments && !l.tap.HasMoments || c.trade && l.trade == nil || c.bias && !l.tap.HasBias
}

// columns are the figures of CSV and JSONL, in order.
var columns = []column{
	{name: "cos", figure: func(l *line) float64 { return l.rec.Cos }},
	{name: "rel2", figure: func(l *line) float64 { return l.rec.Rel2 }},
	{name: "rel_l2", figure: func(l *line) float64 { return l.rec.RelL2 }},
	{name: "sqnr_db", figure: func(l *line) float64 { return l.rec.SQNR }},
	{name: "max_abs_err", figure: func(l *line) float64 { return l.rec.MaxAbsErr }},
	{name: "amax", figure: func(l *line) float64 { return l.rec.Amax }},
	{name: "global_scale", figure: func(l *line) float64 { return l.rec.GlobalScale }},
	{name: "scale_min", figure: func(l *line) float64 { return l.rec.ScaleMin }},
	{name: "scale_mean", figure: func(l *line) float64 { return l.rec.ScaleMean }},
	{name: "scale_max", figure: func(l *line) float64 { return l.rec.ScaleMax }},
	{name: "shallow_l2", figure: func(l *line) float64 { return l.rec.ShallowL2 }},
	{name: "deep_l2", figure: func(l *line) float64 { return l.rec.DeepL2 }},
	{name: "sum_w2", figure: func(l *line) float64 { return l.tap.SumW2 }},
	{name: "sum_q2", figure: func(l *line) float64 { return l.tap.SumQ2 }},
	{name: "sum_wq", figure: func(l *line) float64 { return l.tap.SumWQ }},
	{name: "sum_e2", figure: func(l *line) float64 { return l.tap.SumE2 }},
	{name: "scale_sum", figure: func(l *line) float64 { return l.tap.ScaleSum }},
	{name: "sum_w2_shallow", figure: func(l *line) float64 { return l.tap.ShallowL2 }},
	{name: "sum_w2_deep", figure: func(l *line) float64 { return l.tap.DeepL2 }},
	{name: "sum_w2_subnormal_clipped", figure: func(l *line) float64 { return l.tap.SubnormalClippedL2 }},
	{name: "elements", count: func(l *line) int64 { return l.tap.Elements }},
	{name: "blocks", count: func(l *line) int64 { return l.tap.Blocks }},
	{name: "zero_blocks", count: func(l *line) int64 { return l.tap.ZeroBlocks }},
	{name: "nan", count: func(l *line) int64 { return l.tap.NaN }},
	{name: "inf", count: func(l *line) int64 { return l.tap.Inf }},
	{name: "scale_count", count: func(l *line) int64 { return l.tap.ScaleCount }},
	{name: "scale_high", count: func(l *line) int64 { return l.tap.ScaleHigh }},
	{name: "scale_low", count: func(l *line) int64 { return l.tap.ScaleLow }},
	{name: "scale_subnormal", count: func(l *line) int64 { return l.tap.ScaleSubnormal }},
	{name: "shallow", count: func(l *line) int64 { return l.tap.Shallow }},
	{name: "deep", count: func(l *line) int64 { return l.tap.Deep }},
	{name: "subnormal_clipped", count: func(l *line) int64 { return l.tap.SubnormalClipped }},
	{name: "std", moments: true, figure: func(l *line) float64 { return l.rec.Std }},
	{name: "kurtosis", moments: true, figure: func(l *line) float64 { return l.rec.Kurtosis }},
	{name: "sum_w", moments: true, figure: func(l *line) float64 { return l.tap.SumW }},
	{name: "sum_w3", moments: true, figure: func(l *line) float64 { return l.tap.SumW3 }},
	{name: "sum_w4", moments: true, figure: func(l *line) float64 { return l.tap.SumW4 }},
	{name: "sign_bias", bias: true, figure: func(l *line) float64 { return l.rec.Bias }},
	{name: "row_bias_rms", bias: true, figure: func(l *line) float64 { return l.rec.RowBias }},
	{name: "row_bias_max", bias: true, figure: func(l *line) float64 { return l.rec.RowBiasMax }},
	{name: "codebook", bias: true, text: func(l *line) string { return CodebookText(l.rec.Codebook) }},
	{name: "l2_rel2", bias: true, figure: func(l *line) float64 { return l.rec.L2 }},
	{name: "sym_rel2", bias: true, figure: func(l *line) float64 { return l.rec.Sym }},
	{name: "sum_err", bias: true, figure: func(l *line) float64 { return l.tap.Bias.SumErr }},
	{name: "sum_abs_w", bias: true, figure: func(l *line) float64 { return l.tap.Bias.SumAbsW }},
	{name: "bias_rows", bias: true, count: func(l *line) int64 { return l.tap.Bias.Rows }},
	{name: "bias_rows_positive", bias: true, count: func(l *line) int64 { return l.tap.Bias.Positive }},
	{name: "out2", trade: true, figure: func(l *line) float64 { return float64(l.trade.Out2) }},
	{name: "base_out2", trade: true, figure: func(l *line) float64 { return float64(l.trade.BaseOut2) }},
	{name: "base_rel2", trade: true, figure: func(l *line) float64 { return float64(l.trade.BaseRel2) }},
	{name: "damp_share", trade: true, figure: func(l *line) float64 { return float64(l.trade.DampShare) }},
	{name: "tokens", trade: true, count: func(l *line) int64 { return l.trade.Tokens }},
	{name: "rank", trade: true, count: func(l *line) int64 { return int64(l.trade.Rank) }},
	{name: "changed", trade: true, count: func(l *line) int64 { return l.trade.Changed }},
}

// histograms are the arrays of JSONL and Parquet.
var histograms = []struct {
	name string
	of   func(t *kernels.Tap) []int64
}{
	{"depth", func(t *kernels.Tap) []int64 { return t.Depth[:] }},
	{"codes", func(t *kernels.Tap) []int64 { return t.Codes[:] }},
	{"multipliers", func(t *kernels.Tap) []int64 { return t.Multipliers[:] }},
	{"scales", func(t *kernels.Tap) []int64 { return t.Scales[:] }},
	{"errors", func(t *kernels.Tap) []int64 { return t.Errors[:] }},
}

// ExportJSONL writes one measurement a line, histograms included, by variant
// and tensor. Figures are written so that they come back bit for bit; those that
// are not finite are the strings "NaN", "Infinity" and "-Infinity". A tensor
// that could not be measured is a line with "failed" and no figures; an older
// record without moments is a line without them, as it always was.
func ExportJSONL(ctx context.Context, w io.Writer, path string) error {
	return exportLines(ctx, w, path, false)
}

// ExportCanonical is ExportJSONL of what the measurements are, whenever and in
// whatever order they were made: variants by name, no seq and no at_us, and with
// "weights", the digest of what was measured. Sessions of the same measurements,
// in one run or merged, have the same bytes.
func ExportCanonical(ctx context.Context, w io.Writer, path string) error {
	return exportLines(ctx, w, path, true)
}

func exportLines(ctx context.Context, w io.Writer, path string, canonical bool) error {
	b := bufio.NewWriterSize(w, 1<<16)
	var buf []byte
	if err := eachLine(ctx, path, canonical, func(l *line) error {
		buf = appendJSONL(buf[:0], l, canonical)
		_, err := b.Write(buf)
		return err
	}); err != nil {
		return err
	}
	return b.Flush()
}

func appendJSONL(b []byte, l *line, canonical bool) []byte {
	str := func(name, value string) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = appendJSONString(b, value)
		b = append(b, ',')
	}
	num := func(name string, value int64) {
		b = append(b, '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = strconv.AppendInt(b, value, 10)
		b = append(b, ',')
	}
	b = append(b, '{')
	str("variant", l.variant.Name)
	str("tensor", l.tensor.Name)
	str("file", l.tensor.File)
	str("dtype", l.tensor.DType)
	num("rows", int64(l.tensor.Rows))
	num("cols", int64(l.tensor.Cols))
	str("kind", l.tensor.Role.Kind.String())
	num("layer", int64(l.tensor.Role.Layer))
	num("expert", int64(l.tensor.Role.Expert))
	str("projection", l.tensor.Role.Projection)
	if l.storedAs != "" {
		str("stored_as", l.storedAs)
	}
	if canonical {
		str("weights", l.rec.digest().String())
	} else {
		num("seq", l.seq)
		num("at_us", l.rec.AtUS)
	}
	if l.failure != "" {
		str("failed", l.failure)
		b[len(b)-1] = '}'
		return append(b, '\n')
	}
	if l.trade != nil {
		str("effective", l.trade.Effective)
		if l.trade.Why != "" {
			str("why", l.trade.Why)
		}
	}
	for i := range columns {
		c := &columns[i]
		if c.absent(l) {
			continue
		}
		switch {
		case c.count != nil:
			num(c.name, c.count(l))
			continue
		case c.text != nil:
			str(c.name, c.text(l))
			continue
		}
		b = append(b, '"')
		b = append(b, c.name...)
		b = append(b, `":`...)
		b = appendFigure(b, c.figure(l))
		b = append(b, ',')
	}
	for _, h := range histograms {
		b = append(b, '"')
		b = append(b, h.name...)
		b = append(b, `":[`...)
		for _, n := range h.of(&l.tap) {
			b = strconv.AppendInt(b, n, 10)
			b = append(b, ',')
		}
		b[len(b)-1] = ']'
		b = append(b, ',')
	}
	b[len(b)-1] = '}'
	return append(b, '\n')
}

// ExportCSV writes one measurement a row, by variant and tensor, without
// histograms. Figures come back bit for bit; those that are not finite are NaN,
// Infinity and -Infinity. A tensor that could not be measured has the reason in
// the last column and no figures; one that was not to be calibrated has nothing in
// the columns about that.
func ExportCSV(ctx context.Context, w io.Writer, path string) error {
	c := csv.NewWriter(w)
	head := []string{"variant", "tensor", "file", "dtype", "rows", "cols", "kind", "layer", "expert", "projection", "seq", "at_us"}
	for i := range columns {
		head = append(head, columns[i].name)
	}
	if err := c.Write(append(head, "stored_as", "effective", "why", "failed")); err != nil {
		return err
	}
	row := make([]string, len(head)+4)
	if err := eachLine(ctx, path, false, func(l *line) error {
		t := l.tensor
		n := copy(row, []string{
			l.variant.Name, t.Name, t.File, t.DType, strconv.Itoa(t.Rows), strconv.Itoa(t.Cols), t.Role.Kind.String(),
			csvID(t.Role.Layer), csvID(t.Role.Expert), t.Role.Projection, strconv.FormatInt(l.seq, 10), strconv.FormatInt(l.rec.AtUS, 10),
		})
		for i := range columns {
			switch col := &columns[i]; {
			case col.absent(l):
				row[n+i] = ""
			case col.count != nil:
				row[n+i] = strconv.FormatInt(col.count(l), 10)
			case col.text != nil:
				row[n+i] = col.text(l)
			default:
				row[n+i] = csvFigure(col.figure(l))
			}
		}
		effective, why := l.said()
		copy(row[len(row)-4:], []string{l.storedAs, effective, why, l.failure})
		return c.Write(row)
	}); err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}

// said is what made a matrix that was to be calibrated, and why that is not what
// was asked for.
func (l *line) said() (effective, why string) {
	if l.trade == nil {
		return "", ""
	}
	return l.trade.Effective, l.trade.Why
}

// csvID is a number of a layer or expert, empty where there is none.
func csvID(id int) string {
	if id < 0 {
		return ""
	}
	return strconv.Itoa(id)
}

func csvFigure(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
