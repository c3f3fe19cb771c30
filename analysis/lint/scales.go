package lint

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/layout"
)

// scaleParams are the parameter names that hold scales in the layouts in use.
var scaleParams = map[string]bool{
	"weight_scale": true, "weight_scale_2": true, "weight_global_scale": true, "weight_scale_inv": true, "scale": true, "scale_inv": true,
	"input_scale": true, "input_global_scale": true, "scales": true, "q_scale": true, "k_scale": true, "v_scale": true, "pre_quant_scale": true,
	"output_scale": true, "activation_scale": true, "biases": true, "weight_min": true,
}

// offsets are what stands beside scales and may be 0 or 1 as it likes.
var offsets = map[string]bool{"biases": true, "weight_min": true, "pre_quant_scale": true}

// shownPositions is how many positions a message names.
const shownPositions = 4

// scales reads every scale tensor, in pieces, and nothing else. Bytes of U8 and I8
// are mostly E8M0 exponents, of which 255 is NaN.
func (r *run) scales() error {
	for i := range r.Checkpoint.Tensors {
		t, role := &r.Checkpoint.Tensors[i], &r.Model.Roles[i]
		if !scaleParams[role.Param] || r.isFactor(t) {
			continue
		}
		r.exponents(t, role.Param)
		s, err := r.survey(t)
		if err != nil {
			return err
		}
		if err := r.judge(t, role.Param, s); err != nil {
			return err
		}
	}
	return r.inputScales()
}

// isFactor says whether a tensor called scale is a factor of the model and not of
// a quantized weight: it stands alone.
func (r *run) isFactor(t *checkpoint.Tensor) bool {
	module, ok := strings.CutSuffix(t.Name, ".scale")
	if !ok {
		return false
	}
	w, ok := r.Checkpoint.Lookup(module + ".weight")
	return !ok || w.DType == checkpoint.BF16 || w.DType == checkpoint.F16 || w.DType == checkpoint.F32
}

// survey is what the elements of a scale tensor are.
type survey struct {
	n, nan, inf, zero, one int64
	at                     []string // of non-finite ones, the first
	zeroAt                 []string
}

// survey reads a tensor.
func (r *run) survey(t *checkpoint.Tensor) (s survey, err error) {
	dt := r.numbers(t)
	const chunk = 1 << 16
	bytes := int64(dt.Bits()) / 8
	if s.n = t.Elements(); bytes == 0 || s.n == 0 {
		return s, nil
	}
	raw, vals := r.memory(min(s.n, chunk)*bytes, min(s.n, chunk))
	for from := int64(0); from < s.n; from += chunk {
		k := min(s.n-from, chunk)
		if err := r.Checkpoint.ReadAt(r.ctx, t, from*bytes, raw[:k*bytes]); err != nil {
			return s, err
		}
		if err := checkpoint.DecodeF32(vals[:k], dt, raw[:k*bytes]); err != nil {
			return s, &checkpoint.FileError{File: r.Checkpoint.Files[t.File].Name, Tensor: t.Name, Reason: "scales cannot be read", Err: err}
		}
		for j, x := range vals[:k] {
			switch {
			case x == 1:
				s.one++
			case x == 0:
				if s.zero++; len(s.zeroAt) < shownPositions {
					s.zeroAt = append(s.zeroAt, position(from+int64(j), t.Shape))
				}
			case x != x || math.IsInf(float64(x), 0):
				if x != x {
					s.nan++
				} else {
					s.inf++
				}
				if len(s.at) < shownPositions {
					s.at = append(s.at, position(from+int64(j), t.Shape))
				}
			}
		}
	}
	return s, nil
}

// numbers is the dtype that a scale's bytes stand for: of U8 and I8 exponents, but
// E4M3 in MLX's nvfp4.
func (r *run) numbers(t *checkpoint.Tensor) checkpoint.DType {
	if t.DType != checkpoint.U8 && t.DType != checkpoint.I8 {
		return t.DType
	}
	if module, _ := layout.Split(t.Name); r.lay != nil {
		if m, ok := r.lay.Lookup(module); ok && m.Spec.Format == "nvfp4" {
			return checkpoint.F8E4M3
		}
	}
	return checkpoint.F8E8M0
}

// memory is room for bytes and values, which is used again.
func (r *run) memory(bytes, n int64) ([]byte, []float32) {
	if int64(cap(r.raw)) < bytes {
		r.raw = make([]byte, bytes)
	}
	if int64(cap(r.vals)) < n {
		r.vals = make([]float32, n)
	}
	return r.raw[:bytes], r.vals[:n]
}

// judge says what is wrong with a scale tensor.
func (r *run) judge(t *checkpoint.Tensor, param string, s survey) error {
	if bad := s.nan + s.inf; bad > 0 {
		if s.nan > s.n/2 {
			zero, err := r.ofZeroMatrix(t)
			if err != nil || zero {
				return err
			}
		}
		kind := "NaN"
		if s.inf > 0 {
			kind = "infinite"
			if s.nan > 0 {
				kind = "NaN or infinite"
			}
		}
		r.tensor(idScaleNonFinite, t, Finding{
			Message:  fmt.Sprintf("%d of %d scales are %s, at %s", bad, s.n, kind, places(s.at, bad)),
			Evidence: []Evidence{{"NaN", fmt.Sprint(s.nan)}, {"infinite", fmt.Sprint(s.inf)}, {"scales", fmt.Sprint(s.n)}, {"first", strings.Join(s.at, " ")}},
		})
	}
	single := s.n == 1
	if s.zero > 0 && !offsets[param] && !strings.HasPrefix(param, "input") {
		f := Finding{Message: fmt.Sprintf("%d of %d scales are 0, at %s", s.zero, s.n, places(s.zeroAt, s.zero)), Evidence: []Evidence{{"zero", fmt.Sprint(s.zero)}, {"scales", fmt.Sprint(s.n)}}}
		if s.zero < s.n {
			f.Severity = Warning
		}
		r.tensor(idScaleZero, t, f)
	}
	if s.n > 0 && s.one == s.n && !offsets[param] {
		f := Finding{Message: fmt.Sprintf("all %d scales are 1: not calibrated", s.n), Evidence: []Evidence{{"scales", fmt.Sprint(s.n)}, {"dtype", t.DType.String()}}}
		switch {
		case strings.HasSuffix(param, "_scale") && len(param) == len("k_scale"): // what servers assume anyway
			f.Severity = Note
		case single && param != "weight_scale_2" && param != "weight_global_scale":
			f.Message, f.Severity = "is exactly 1: not calibrated, unless it is meant so", Warning
		case single:
			f.Message = "is exactly 1: not calibrated"
		}
		r.tensor(idScaleOnes, t, f)
	}
	return nil
}

// places joins positions; more stands for those that are not listed.
func places(at []string, n int64) string {
	if n > int64(len(at)) {
		at = append(slices.Clip(at), "…")
	}
	return strings.Join(at, " ")
}

// ofZeroMatrix says whether NaN block scales stand beside a second-level scale of
// 0, as ModelOpt writes a matrix of zeros, and then reports that.
func (r *run) ofZeroMatrix(t *checkpoint.Tensor) (bool, error) {
	module, ok := strings.CutSuffix(t.Name, ".weight_scale")
	if !ok {
		return false, nil
	}
	global, ok := r.Checkpoint.Lookup(module + ".weight_scale_2")
	if !ok || global.Elements() != 1 || global.DType != checkpoint.F32 {
		return false, nil
	}
	var raw [4]byte
	if err := r.Checkpoint.ReadAt(r.ctx, global, 0, raw[:]); err != nil {
		return false, err
	}
	if raw != [4]byte{} {
		return false, nil
	}
	r.tensor(idZeroMatrix, t, Finding{
		Message:  fmt.Sprintf("%d scales are NaN and weight_scale_2 is 0: the matrix was all zeros when it was quantized", t.Elements()),
		Evidence: []Evidence{{"weight_scale_2", "0"}, {"scales", fmt.Sprint(t.Elements())}},
	})
	return true, nil
}

// exponents looks at the dtype of scales that the layout has as numbers.
func (r *run) exponents(t *checkpoint.Tensor, param string) {
	if param != "weight_scale_inv" && param != "scale_inv" && (param != "weight_scale" || !r.floatScales(t)) {
		return
	}
	f := Finding{Message: fmt.Sprintf("is %s, where %s reads numbers: a byte of 127 stands for 1", t.DType, methodName(r.quant.Method)), Evidence: []Evidence{{"dtype", t.DType.String()}, {"scale_fmt", orNone(r.quant.ScaleFormat)}}}
	switch {
	case t.DType == checkpoint.U8 || t.DType == checkpoint.I8:
	case t.DType == checkpoint.F8E8M0 && !strings.EqualFold(r.quant.ScaleFormat, "ue8m0"):
		f.Severity = Warning
	default:
		return
	}
	r.tensor(idE8M0Float, t, f)
}

// floatScales says whether a weight_scale belongs to an FP8 weight whose scale is
// one of a tensor, of rows or of tiles: mxfp8 alone has exponents there, one for 32
// inputs.
func (r *run) floatScales(t *checkpoint.Tensor) bool {
	module, _ := layout.Split(t.Name)
	w, ok := r.Checkpoint.Lookup(module + ".weight")
	if !ok || w.DType != checkpoint.F8E4M3 || len(w.Shape) != 2 {
		return false
	}
	return len(t.Shape) != 2 || t.Shape[1]*32 != w.Shape[1] || t.Shape[0] != w.Shape[0]
}

func methodName(m string) string {
	if m == "" {
		return "a loader"
	}
	return m
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// position writes a row-major index as [row,col].
func position(i int64, shape []int64) string {
	parts := make([]string, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		parts[d] = fmt.Sprint(i % shape[d])
		i /= shape[d]
	}
	return "[" + strings.Join(parts, ",") + "]"
}
