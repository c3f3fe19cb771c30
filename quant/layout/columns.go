package layout

import (
	"context"
	"fmt"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// ModelOpt's AWQ and SmoothQuant divide the columns of a matrix by numbers, quantize
// what comes of it, and keep these as pre_quant_scale: a server multiplies each input
// by its number before the product. The matrix that stands between the unscaled input
// and the output is therefore decoded·diag(pre_quant_scale), and that is what Decode
// and Panel give: the decoded element times the number, in f32.

// preQuantScale is the parameter's name.
const preQuantScale = "pre_quant_scale"

// addColumns gives modules the numbers that their inputs are multiplied by, where a
// group has them.
func addColumns(ms []Module, g *group) error {
	t := g.params[preQuantScale]
	if t == nil {
		return nil
	}
	switch t.DType {
	case checkpoint.BF16, checkpoint.F16, checkpoint.F32:
	default:
		return fmt.Errorf("%s is %s, want floats: %w", t.Name, t.DType, kernels.ErrUnsupported)
	}
	cols := int64(ms[0].Cols)
	size := cols * int64(t.DType.Bits()) / 8
	switch t.Elements() {
	case cols: // one of all experts too
		for i := range ms {
			ms[i].columns = place{t: t, row: size}
		}
	case cols * int64(len(ms)):
		for i := range ms {
			ms[i].columns = place{t: t, off: int64(i) * size, row: size}
		}
	default:
		return fmt.Errorf("%s is %v, want [%d]", t.Name, t.Shape, cols)
	}
	return nil
}

// ColumnTensor is the stored tensor of what the weights of each input are multiplied by
// after they are decoded, nil where there is none.
func (m *Module) ColumnTensor() *checkpoint.Tensor { return m.columns.t }

// readColumns reads what the weights of each input are multiplied by; nil where a
// module has nothing of the kind.
func (m *Module) readColumns(ctx context.Context, buf []float32) ([]float32, error) {
	t := m.columns.t
	if t == nil {
		return nil, nil
	}
	raw := make([]byte, m.columns.row)
	if err := m.ck.ReadAt(ctx, t, m.columns.off, raw); err != nil {
		return nil, err
	}
	if cap(buf) < m.Cols {
		buf = make([]float32, m.Cols)
	}
	buf = buf[:m.Cols]
	return buf, checkpoint.DecodeF32(buf, t.DType, raw)
}

// Column is what the weights of an input are multiplied by after they are decoded.
func (s *Stored) Column(col int) float32 {
	if s.Columns == nil {
		return 1
	}
	return s.Columns[col]
}
