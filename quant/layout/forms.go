package layout

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// form is one way of storing a quantized matrix: a row of the table.
type form struct {
	method string // whose
	name   string
	needs  []need // the first is the codes
	build  func(o *opener, f *form, g *group) ([]Module, error)
}

// need is a tensor that a form cannot be without.
type need struct {
	param  string
	dtypes []checkpoint.DType
}

var (
	u8     = []checkpoint.DType{checkpoint.U8}
	i32    = []checkpoint.DType{checkpoint.I32}
	i8     = []checkpoint.DType{checkpoint.I8}
	ints   = []checkpoint.DType{checkpoint.I64, checkpoint.I32}
	e4m3   = []checkpoint.DType{checkpoint.F8E4M3}
	f32    = []checkpoint.DType{checkpoint.F32}
	bf16   = []checkpoint.DType{checkpoint.BF16}
	bytes8 = []checkpoint.DType{checkpoint.U8, checkpoint.I8}
	i16    = []checkpoint.DType{checkpoint.I16}
	power  = []checkpoint.DType{checkpoint.U8, checkpoint.F8E8M0}
	u32    = []checkpoint.DType{checkpoint.U32}
	halves = []checkpoint.DType{checkpoint.F16, checkpoint.BF16, checkpoint.F32}
)

// forms is the table. No two rows fit the same tensors.
var forms = []form{
	{ModelOpt, "nvfp4", []need{{"weight", u8}, {"weight_scale", e4m3}, {"weight_scale_2", f32}}, buildNVFP4},
	{CompressedTensors, "nvfp4", []need{{"weight_packed", u8}, {"weight_scale", e4m3}, {"weight_global_scale", f32}}, buildNVFP4},
	{CompressedTensors, "mxfp4", []need{{"weight_packed", u8}, {"weight_scale", power}}, buildMXFP4},
	{MXFP4, "mxfp4", []need{{"blocks", u8}, {"scales", power}}, buildBlocks},
	{"", "mxfp4", []need{{"weight", u8}, {"weight_scale", power}}, buildMXFP4},   // ModelOpt and Quark
	{"", "mxfp8", []need{{"weight", e4m3}, {"weight_scale", power}}, buildMXFP8}, // ModelOpt and compressed-tensors
	{"", "fp8", []need{{"weight", e4m3}, {"weight_scale", halves}}, buildFP8},    // ModelOpt, compressed-tensors and Quark
	{"", "int8", []need{{"weight", i8}, {"weight_scale", halves}}, buildInt8},    // ModelOpt, compressed-tensors and Quark
	{"", "bytes", []need{{"weight", u8}, {"weight_scale", halves}}, buildBytes},  // ModelOpt's int4 and Quark's uint8
	{Quark, "packed integers", []need{{"weight", i32}, {"weight_scale", halves}}, buildQuark},
	{FP8, "fp8 in tiles", []need{{"weight", e4m3}, {"weight_scale_inv", tileScales}}, buildTiles},
	{FP8, "fp8 in tiles, of DeepSeek-V4", []need{{"weight", e4m3}, {"scale", tileScales}}, buildTiles},
	{FP8, "e2m1 experts of DeepSeek-V4", []need{{"weight", bytes8}, {"scale", packedScales}}, buildPackedExpert},
	{EXL3, "trellis", []need{{"trellis", i16}}, buildTrellis},
	{CompressedTensors, "packed integers", []need{{"weight_packed", i32}, {"weight_scale", halves}, {"weight_shape", ints}}, buildWords},
	{"", "packed integers", []need{{"qweight", i32}, {"qzeros", i32}, {"scales", halves}}, buildPacked}, // GPTQ and AWQ
	{Marlin, "int4", []need{{"B", i32}, {"s", halves}}, buildMarlin},
	{MLX, "affine", []need{{"weight", u32}, {"scales", halves}, {"biases", halves}}, buildMLXAffine},
	{MLX, "mxfp4, nvfp4 or mxfp8", []need{{"weight", u32}, {"scales", u8}}, buildMLXFloat},
	{Quantscope, "code2", []need{{"weight_packed", u8}, {bookParam, u8}, {"weight_scale", e4m3}}, buildCode2},
	{Quantscope, "code2-mxfp4", []need{{"weight_packed", u8}, {bookParam, u8}, {"weight_scale", power}}, buildCode2},
	{Quantscope, "int4", []need{{"weight_packed", u8}, {"weight_scale", bf16}, {"weight_min", bf16}}, buildOwn},
}

func knownForms() string {
	var names []string
	for _, f := range forms {
		var params []string
		for _, n := range f.needs {
			params = append(params, n.param)
		}
		names = append(names, strings.TrimSpace(f.method+" "+f.name)+": "+strings.Join(params, "+"))
	}
	return strings.Join(names, "; ")
}

// marks are the parameters that only quantized modules have.
var marks = []string{
	"weight_packed", "weight_scale", "weight_scale_2", "weight_scale_inv", "weight_global_scale", "weight_zero_point", "weight_shape", "weight_min", "weight_g_idx", bookParam, preQuantScale,
	"qweight", "qzeros", "scales", "g_idx", "blocks", "B", "trellis",
}

// recognize finds the form of a group. quantized says that the group is of a
// quantized module, of whatever form.
func recognize(g *group) (f *form, quantized bool) {
	if w := g.params["weight"]; w != nil {
		switch w.DType {
		case checkpoint.U8, checkpoint.I8, checkpoint.I32, checkpoint.U32, checkpoint.F8E4M3, checkpoint.F8E5M2, checkpoint.F8E8M0, checkpoint.F4,
			checkpoint.F8E4M3FNUZ, checkpoint.F8E5M2FNUZ:
			quantized = len(w.Shape) >= 2
		}
	}
	for _, p := range marks {
		quantized = quantized || g.params[p] != nil
	}
	if !quantized {
		return nil, false
	}
	for i := range forms {
		// Of what has a codebook codes are indices of that, whatever else fits.
		fits := g.params[bookParam] == nil || slices.ContainsFunc(forms[i].needs, func(n need) bool { return n.param == bookParam })
		for _, n := range forms[i].needs {
			t := g.params[n.param]
			fits = fits && t != nil && slices.Contains(n.dtypes, t.DType)
		}
		if fits {
			return &forms[i], true
		}
	}
	return nil, true
}

// shape is what codes are shaped as: experts by rows by columns as stored.
type shape struct {
	fused                 bool
	experts, rows, stored int64
}

func codesShape(t *checkpoint.Tensor) (shape, error) {
	switch len(t.Shape) {
	case 2:
		return shape{false, 1, t.Shape[0], t.Shape[1]}, nil
	case 3:
		return shape{true, t.Shape[0], t.Shape[1], t.Shape[2]}, nil
	}
	return shape{}, fmt.Errorf("%s has %d dimensions, want [outputs, inputs], or experts before them", t.Name, len(t.Shape))
}

// maxExperts bounds the experts of a fused tensor, as package topology does.
const maxExperts = 4096

// start makes the modules of a group, one for each expert of a fused tensor,
// with their codes.
func (o *opener) start(f *form, g *group, s shape, cols int64, spec kernels.Spec) ([]Module, error) {
	format, err := kernels.FormatByName(spec.Format)
	if err != nil {
		return nil, err
	}
	return o.startFormat(f, g, s, cols, spec, format)
}

// startFormat is start of a format that is in no table.
func (o *opener) startFormat(f *form, g *group, s shape, cols int64, spec kernels.Spec, format kernels.Format) ([]Module, error) {
	codes := g.params[f.needs[0].param]
	if s.experts > maxExperts || s.rows > math.MaxInt32 || cols > math.MaxInt32 {
		return nil, fmt.Errorf("%d experts of %d×%d are too many", s.experts, s.rows, cols)
	}
	if s.experts == 0 || s.rows == 0 || cols == 0 {
		return nil, errors.New("is empty")
	}
	for _, p := range []string{"svdquant_lora_a", "svdquant_lora_b"} {
		if g.params[p] != nil {
			return nil, fmt.Errorf("%s: a matrix of low rank is added to what is quantized (ModelOpt's NVFP4_SVD): %w", p, kernels.ErrUnsupported)
		}
	}
	rowBytes := codes.Size / (s.experts * s.rows)
	role := *g.roles[f.needs[0].param]
	out := make([]Module, s.experts)
	for e := range out {
		m := &out[e]
		*m = Module{
			Name: g.name, Method: f.method, Spec: spec, Rows: int(s.rows), Cols: int(cols), Expert: -1, Role: role,
			ck: o.ck, format: format, codes: place{t: codes, off: int64(e) * s.rows * rowBytes, row: rowBytes},
		}
		if s.fused {
			m.Name, m.Expert, m.Role.Expert = fmt.Sprintf("%s[%d]", g.name, e), e, e
		}
		for _, p := range sortedParams(g) {
			if p == "bias" || slices.Contains(cacheParams, p) {
				continue
			}
			t := g.params[p]
			field := Field{Param: p, Tensor: t, Size: t.Size}
			if s.fused && len(t.Shape) > 0 && t.Shape[0] == s.experts && s.experts > 1 {
				field.Size = t.Size / s.experts
				field.Offset = int64(e) * field.Size
			}
			m.Fields = append(m.Fields, field)
		}
	}
	return out, addColumns(out, g)
}

// sortedParams lists a group's parameters in the order of the files.
func sortedParams(g *group) []string {
	var out []string
	for p := range g.params {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b string) int {
		ta, tb := g.params[a], g.params[b]
		if ta.File != tb.File {
			return ta.File - tb.File
		}
		return int(min(max(ta.Offset-tb.Offset, -1), 1))
	})
	return out
}

// addScales gives each module its scales, which are rows by columns, after
// experts where the codes are.
func addScales(ms []Module, t *checkpoint.Tensor, rows, cols int64) error {
	want := []int64{rows, cols}
	if ms[0].Expert >= 0 {
		want = []int64{int64(len(ms)), rows, cols}
	}
	if !slices.Equal(t.Shape, want) {
		return fmt.Errorf("%s is %v, want %v", t.Name, t.Shape, want)
	}
	row := cols * int64(t.DType.Bits()) / 8
	for i := range ms {
		ms[i].scales = place{t: t, off: int64(i) * rows * row, row: row}
	}
	return nil
}

// addGlobal gives each module its scale of one number: one of all, or one an
// expert.
func addGlobal(ms []Module, t *checkpoint.Tensor) error {
	switch n := t.Elements(); {
	case n == 1:
		for i := range ms {
			ms[i].global = place{t: t, row: t.Size}
		}
	case ms[0].Expert >= 0 && n == int64(len(ms)):
		for i := range ms {
			ms[i].global = place{t: t, off: int64(i) * t.Size / n, row: t.Size / n}
		}
	default:
		return fmt.Errorf("%s has %d elements, want 1", t.Name, n)
	}
	return nil
}

// ceil is ⌈n/d⌉.
func ceil(n, d int64) int64 { return (n + d - 1) / d }
