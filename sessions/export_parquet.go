package sessions

import (
	"context"
	"io"

	"github.com/parquet-go/parquet-go"
)

// parquetRow is one measurement in Parquet. Figures of a tensor that could not
// be measured are null. NaN and infinities are values of a double.
type parquetRow struct {
	Variant    string `parquet:"variant,dict"`
	Tensor     string `parquet:"tensor"`
	File       string `parquet:"file,dict"`
	DType      string `parquet:"dtype,dict"`
	Rows       int64  `parquet:"rows"`
	Cols       int64  `parquet:"cols"`
	Kind       string `parquet:"kind,dict"`
	Layer      *int32 `parquet:"layer,optional"`
	Expert     *int32 `parquet:"expert,optional"`
	Projection string `parquet:"projection,dict"`
	Seq        int64  `parquet:"seq"`
	AtUS       int64  `parquet:"at_us"`

	Failed *string `parquet:"failed,optional"` // why there are no figures

	Cos         *float64 `parquet:"cos,optional"`
	Rel2        *float64 `parquet:"rel2,optional"`
	RelL2       *float64 `parquet:"rel_l2,optional"`
	SQNR        *float64 `parquet:"sqnr_db,optional"`
	MaxAbsErr   *float64 `parquet:"max_abs_err,optional"`
	Amax        *float64 `parquet:"amax,optional"`
	GlobalScale *float64 `parquet:"global_scale,optional"`
	ScaleMin    *float64 `parquet:"scale_min,optional"`
	ScaleMean   *float64 `parquet:"scale_mean,optional"`
	ScaleMax    *float64 `parquet:"scale_max,optional"`
	ShallowL2   *float64 `parquet:"shallow_l2,optional"`
	DeepL2      *float64 `parquet:"deep_l2,optional"`
	SumW2       *float64 `parquet:"sum_w2,optional"`
	SumQ2       *float64 `parquet:"sum_q2,optional"`
	SumWQ       *float64 `parquet:"sum_wq,optional"`
	SumE2       *float64 `parquet:"sum_e2,optional"`

	Std      *float64 `parquet:"std,optional"` // these five are null in older records
	Kurtosis *float64 `parquet:"kurtosis,optional"`
	SumW     *float64 `parquet:"sum_w,optional"`
	SumW3    *float64 `parquet:"sum_w3,optional"`
	SumW4    *float64 `parquet:"sum_w4,optional"`

	Elements         *int64 `parquet:"elements,optional"`
	Blocks           *int64 `parquet:"blocks,optional"`
	ZeroBlocks       *int64 `parquet:"zero_blocks,optional"`
	NaN              *int64 `parquet:"nan,optional"`
	Inf              *int64 `parquet:"inf,optional"`
	ScaleHigh        *int64 `parquet:"scale_high,optional"`
	ScaleLow         *int64 `parquet:"scale_low,optional"`
	ScaleSubnormal   *int64 `parquet:"scale_subnormal,optional"`
	Shallow          *int64 `parquet:"shallow,optional"`
	Deep             *int64 `parquet:"deep,optional"`
	SubnormalClipped *int64 `parquet:"subnormal_clipped,optional"`

	Bias         *float64 `parquet:"sign_bias,optional"` // these ten are null of formats without a codebook
	RowBias      *float64 `parquet:"row_bias_rms,optional"`
	RowBiasMax   *float64 `parquet:"row_bias_max,optional"`
	Codebook     *string  `parquet:"codebook,optional,dict"`
	L2Rel2       *float64 `parquet:"l2_rel2,optional"`
	SymRel2      *float64 `parquet:"sym_rel2,optional"`
	SumErr       *float64 `parquet:"sum_err,optional"`
	SumAbsW      *float64 `parquet:"sum_abs_w,optional"`
	BiasRows     *int64   `parquet:"bias_rows,optional"`
	BiasPositive *int64   `parquet:"bias_rows_positive,optional"`

	Effective *string  `parquet:"effective,optional"` // these nine are null where nothing was to be calibrated
	Why       *string  `parquet:"why,optional"`
	Out2      *float64 `parquet:"out2,optional"`
	BaseOut2  *float64 `parquet:"base_out2,optional"`
	BaseRel2  *float64 `parquet:"base_rel2,optional"`
	DampShare *float64 `parquet:"damp_share,optional"`
	Tokens    *int64   `parquet:"tokens,optional"`
	Rank      *int64   `parquet:"rank,optional"`
	Changed   *int64   `parquet:"changed,optional"`

	StoredAs *string `parquet:"stored_as,optional"` // null where the variant says it

	Depth       []int64 `parquet:"depth,list"`
	Codes       []int64 `parquet:"codes,list"`
	Multipliers []int64 `parquet:"multipliers,list"`
	Scales      []int64 `parquet:"scales,list"`
	Errors      []int64 `parquet:"errors,list"`
}

// parquetGroup is how many rows a row group has; it is what the writer holds in
// memory, some 20 MB.
const parquetGroup = 16384

// ExportParquet writes one measurement a row, by variant and tensor, with typed
// columns and the histograms as lists, compressed by zstd.
func ExportParquet(ctx context.Context, w io.Writer, path string) error {
	p := parquet.NewGenericWriter[parquetRow](w, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(parquetGroup))
	rows := make([]parquetRow, 0, 256)
	write := func() error {
		_, err := p.Write(rows)
		rows = rows[:0]
		return err
	}
	err := eachLine(ctx, path, false, func(l *line) error {
		rows = append(rows, newParquetRow(l))
		if len(rows) < cap(rows) {
			return nil
		}
		return write()
	})
	if err == nil {
		err = write()
	}
	if err != nil {
		return err
	}
	return p.Close()
}

func newParquetRow(l *line) parquetRow {
	t := l.tensor
	r := parquetRow{
		Variant: l.variant.Name, Tensor: t.Name, File: t.File, DType: t.DType, Rows: int64(t.Rows), Cols: int64(t.Cols),
		Kind: t.Role.Kind.String(), Layer: parquetID(t.Role.Layer), Expert: parquetID(t.Role.Expert), Projection: t.Role.Projection,
		Seq: l.seq, AtUS: l.rec.AtUS,
	}
	if l.storedAs != "" {
		as := l.storedAs
		r.StoredAs = &as
	}
	if l.failure != "" {
		r.Failed = &l.failure
		return r
	}
	tap, rec := l.tap, l.rec // copies: the line is valid for this call only
	r.Cos, r.Rel2, r.RelL2, r.SQNR = &rec.Cos, &rec.Rel2, &rec.RelL2, &rec.SQNR
	r.MaxAbsErr, r.Amax, r.GlobalScale = &rec.MaxAbsErr, &rec.Amax, &rec.GlobalScale
	r.ScaleMin, r.ScaleMean, r.ScaleMax = &rec.ScaleMin, &rec.ScaleMean, &rec.ScaleMax
	r.ShallowL2, r.DeepL2 = &rec.ShallowL2, &rec.DeepL2
	r.SumW2, r.SumQ2, r.SumWQ, r.SumE2 = &tap.SumW2, &tap.SumQ2, &tap.SumWQ, &tap.SumE2
	if tap.HasMoments {
		r.Std, r.Kurtosis, r.SumW, r.SumW3, r.SumW4 = &rec.Std, &rec.Kurtosis, &tap.SumW, &tap.SumW3, &tap.SumW4
	}
	r.Elements, r.Blocks, r.ZeroBlocks, r.NaN, r.Inf = &tap.Elements, &tap.Blocks, &tap.ZeroBlocks, &tap.NaN, &tap.Inf
	r.ScaleHigh, r.ScaleLow, r.ScaleSubnormal = &tap.ScaleHigh, &tap.ScaleLow, &tap.ScaleSubnormal
	r.Shallow, r.Deep, r.SubnormalClipped = &tap.Shallow, &tap.Deep, &tap.SubnormalClipped
	if tap.HasBias {
		b, book := &tap.Bias, CodebookText(rec.Codebook)
		r.Bias, r.RowBias, r.RowBiasMax, r.Codebook, r.L2Rel2, r.SymRel2 = &rec.Bias, &rec.RowBias, &rec.RowBiasMax, &book, &rec.L2, &rec.Sym
		r.SumErr, r.SumAbsW, r.BiasRows, r.BiasPositive = &b.SumErr, &b.SumAbsW, &b.Rows, &b.Positive
	}
	if l.trade != nil {
		effective, why := l.said()
		out2, base, rel, damp := float64(l.trade.Out2), float64(l.trade.BaseOut2), float64(l.trade.BaseRel2), float64(l.trade.DampShare)
		tokens, rank, changed := l.trade.Tokens, int64(l.trade.Rank), l.trade.Changed
		r.Effective, r.Out2, r.BaseOut2, r.BaseRel2, r.DampShare = &effective, &out2, &base, &rel, &damp
		r.Tokens, r.Rank, r.Changed = &tokens, &rank, &changed
		if why != "" {
			r.Why = &why
		}
	}
	r.Depth, r.Codes, r.Multipliers, r.Scales, r.Errors = tap.Depth[:], tap.Codes[:], tap.Multipliers[:], tap.Scales[:], tap.Errors[:]
	return r
}

// parquetID is a number of a layer or expert, null where there is none.
func parquetID(id int) *int32 {
	if id < 0 {
		return nil
	}
	n := int32(id)
	return &n
}
