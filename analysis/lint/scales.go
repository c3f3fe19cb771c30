package lint

import (
	"context"
	"fmt"
	"math"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// scaleParams are the parameter names that hold scales in the layouts in use.
var scaleParams = map[string]bool{
	"weight_scale": true, "weight_scale_2": true, "weight_global_scale": true, "weight_scale_inv": true,
	"input_scale": true, "input_global_scale": true, "scales": true, "k_scale": true, "v_scale": true, "pre_quant_scale": true,
}

// shownPositions is how many positions a message names.
const shownPositions = 4

// scaleNonFinite reads every scale tensor, in pieces, and nothing else. U8
// scales are E8M0 exponents, of which 255 is NaN.
func scaleNonFinite(ctx context.Context, c *checkpoint.Checkpoint, m *topology.Model) ([]Finding, error) {
	var out []Finding
	for i := range c.Tensors {
		t := &c.Tensors[i]
		if !scaleParams[m.Roles[i].Param] {
			continue
		}
		dt := t.DType
		if dt == checkpoint.U8 {
			dt = checkpoint.F8E8M0
		}
		count, at, kind, err := nonFinite(ctx, c, t, dt)
		if err != nil {
			return out, err
		}
		if count > 0 {
			out = append(out, Finding{
				Severity: Error, File: c.Files[t.File].Name, Tensor: t.Name,
				Message: fmt.Sprintf("%d of %d scales are %s, at %s", count, t.Elements(), kind, strings.Join(at, " ")),
				Fix:     "quantize this tensor again; an all-zero block needs a finite scale",
			})
		}
	}
	return out, nil
}

// nonFinite counts non-finite elements and names the first positions.
func nonFinite(ctx context.Context, c *checkpoint.Checkpoint, t *checkpoint.Tensor, dt checkpoint.DType) (count int64, at []string, kind string, err error) {
	const chunk = 1 << 16
	n, bytes := t.Elements(), int64(dt.Bits())/8
	if bytes == 0 {
		return 0, nil, "", nil
	}
	raw, vals := make([]byte, min(n, chunk)*bytes), make([]float32, min(n, chunk))
	var nan, inf bool
	for from := int64(0); from < n; from += chunk {
		k := min(n-from, chunk)
		if err := c.ReadAt(ctx, t, from*bytes, raw[:k*bytes]); err != nil {
			return 0, nil, "", err
		}
		if err := checkpoint.DecodeF32(vals[:k], dt, raw[:k*bytes]); err != nil {
			return 0, nil, "", &checkpoint.FileError{File: c.Files[t.File].Name, Tensor: t.Name, Reason: "scales cannot be read", Err: err}
		}
		for j, x := range vals[:k] {
			isNaN, isInf := math.IsNaN(float64(x)), math.IsInf(float64(x), 0)
			if !isNaN && !isInf {
				continue
			}
			nan, inf = nan || isNaN, inf || isInf
			count++
			if len(at) < shownPositions {
				at = append(at, position(from+int64(j), t.Shape))
			}
		}
	}
	if count > int64(len(at)) {
		at = append(at, "…")
	}
	kind = "NaN"
	if inf {
		kind = "infinite"
		if nan {
			kind = "NaN or infinite"
		}
	}
	return count, at, kind, nil
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
