package convert

import (
	"context"
	"encoding/binary"
	"math"
	"slices"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
)

// planNVFP4 says NVFP4 as the other of ModelOpt and compressed-tensors does. Codes and
// block scales are the same bytes under other names; ModelOpt multiplies by its second-level
// scale, compressed-tensors divides by the reciprocal of that.
func planNVFP4(b *planner, p *piece) error {
	rows, cols := int64(p.m.Rows), int64(p.m.Cols)
	if cols%kernels.BlockNVFP4 != 0 {
		return refuse(p.m, "%d inputs are no multiple of 16", cols)
	}
	from := "input_scale"
	to := "input_global_scale"
	if b.To == ModelOpt {
		from, to = to, from
	}
	in, err := b.inputsOf(p)
	if err != nil {
		return err
	}
	input := p.field(from)
	switch {
	case p.field(to) != nil:
		return refuse(p.m, "has %s, which its own layout does not", to)
	case in == localGroup && input == nil:
		return refuse(p.m, "quantizes activations to NVFP4 and has no %s", from)
	case in == plainInputs && input != nil:
		return refuse(p.m, "has %s, and its config says that activations are not quantized", from)
	case in != plainInputs && in != localGroup:
		return refuse(p.m, "quantizes activations %s, which layout %s cannot say beside NVFP4 weights", in, b.To)
	}
	if err := scalar(p, p.m.GlobalTensor()); err != nil {
		return err
	}
	if err := scalar(p, input); err != nil {
		return err
	}
	p.scheme = scheme{form: nvfp4, name: "nvfp4", bits: 4, group: kernels.BlockNVFP4, inputs: in}
	p.promise.reciprocal = p.m.Method != b.To
	var codes, scales, global int
	one := []int64{1}
	if b.To == ModelOpt {
		one = nil
		codes = p.add("weight", checkpoint.U8, rows, cols/2)
		scales = p.add("weight_scale", checkpoint.F8E4M3, rows, cols/kernels.BlockNVFP4)
		global = p.add("weight_scale_2", checkpoint.F32)
	} else {
		codes = p.add("weight_packed", checkpoint.U8, rows, cols/2)
		scales = p.add("weight_scale", checkpoint.F8E4M3, rows, cols/kernels.BlockNVFP4)
		global = p.add("weight_global_scale", checkpoint.F32, one...)
	}
	activation := -1
	if input != nil {
		activation = p.add(to, checkpoint.F32, one...)
	}
	p.write = func(ctx context.Context, put put) error {
		if err := b.copyTensor(ctx, p.m.CodeTensor(), put, codes); err != nil {
			return err
		}
		if err := b.copyTensor(ctx, p.m.ScaleTensor(), put, scales); err != nil {
			return err
		}
		if err := b.putReciprocal(ctx, p, p.m.GlobalTensor(), put, global); err != nil {
			return err
		}
		if activation < 0 {
			return nil
		}
		return b.putReciprocal(ctx, p, input, put, activation)
	}
	return nil
}

// scalar wants a tensor, if there is one, to be one F32.
func scalar(p *piece, t *checkpoint.Tensor) error {
	if t != nil && (t.DType != checkpoint.F32 || t.Elements() != 1) {
		return refuse(p.m, "%s is %s %v, want one F32", t.Name, t.DType, t.Shape)
	}
	return nil
}

// readScalar reads one F32.
func (b *planner) readScalar(ctx context.Context, t *checkpoint.Tensor) (float32, error) {
	var raw [4]byte
	err := b.ck.ReadAt(ctx, t, 0, raw[:])
	return math.Float32frombits(binary.LittleEndian.Uint32(raw[:])), err
}

// putReciprocal writes 1/x, rounded once to f32; of modules that are in the layout
// already it writes x.
func (b *planner) putReciprocal(ctx context.Context, p *piece, t *checkpoint.Tensor, put put, tensor int) error {
	v, err := b.readScalar(ctx, t)
	if err != nil {
		return err
	}
	if p.promise.reciprocal {
		v = 1 / v
	}
	return put(tensor, 0, binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)))
}

// planMXFP4 says MXFP4 as compressed-tensors does.
func planMXFP4(b *planner, p *piece) error {
	rows, cols := int64(p.m.Rows), int64(p.m.Cols)
	if cols%32 != 0 {
		return refuse(p.m, "%d inputs are no multiple of 32", cols)
	}
	scales := p.m.ScaleTensor()
	if p.m.CodeTensor().Size != rows*cols/2 || scales.Size != rows*cols/32 {
		return refuse(p.m, "%s is %v and %s %v, which are not the codes and scales of %d×%d alone", p.m.CodeTensor().Name, p.m.CodeTensor().Shape, scales.Name, scales.Shape, rows, cols)
	}
	in, err := b.inputsOf(p)
	if err != nil {
		return err
	}
	if in != plainInputs {
		return refuse(p.m, "quantizes activations %s, which is not said beside MXFP4 weights", in)
	}
	p.scheme = scheme{form: mxfp4, name: "mxfp4", bits: 4, group: 32}
	packed := p.add("weight_packed", checkpoint.U8, rows, cols/2)
	scale := p.add("weight_scale", checkpoint.U8, rows, cols/32)
	p.write = func(ctx context.Context, put put) error {
		if err := b.copyTensor(ctx, p.m.CodeTensor(), put, packed); err != nil {
			return err
		}
		return b.copyTensor(ctx, scales, put, scale)
	}
	return nil
}

// planFP8 says FP8 as the other of ModelOpt and compressed-tensors does. Codes stay
// where they are; scales have other shapes.
func planFP8(b *planner, p *piece) error {
	codes, scales := p.m.CodeTensor(), p.m.ScaleTensor()
	if codes.Name != p.name+".weight" || len(codes.Shape) != 2 {
		return refuse(p.m, "keeps its codes in %s %v, and layout %s in %s.weight", codes.Name, codes.Shape, b.To, p.name)
	}
	p.stays = []string{codes.Name}
	in, err := b.inputsOf(p)
	if err != nil {
		return err
	}
	f := p.m.Format()
	p.scheme = scheme{form: fp8, name: f.Name, bits: 8, inputs: in}
	rows, cols := int64(p.m.Rows), int64(p.m.Cols)
	elements := int64(1)
	var shape []int64
	switch f.Scope {
	case kernels.ScopeTensor:
		p.scheme.name = "fp8"
		if b.To == CompressedTensors {
			shape = []int64{1}
		}
	case kernels.ScopeChannel:
		p.scheme.name, elements = "fp8-channel", rows
		if shape = []int64{rows}; b.To == CompressedTensors {
			shape = []int64{rows, 1}
		}
	case kernels.ScopeTile:
		r, c := p.m.Tile()
		down, across := (rows+int64(r)-1)/int64(r), (cols+int64(c)-1)/int64(c)
		p.scheme.name, p.scheme.tile, elements = "fp8-block", [2]int{r, c}, down*across
		if shape = []int64{down, across}; b.To == ModelOpt {
			if r != 128 || c != 128 || rows%128 != 0 || cols%128 != 0 {
				return refuse(p.m, "%d×%d in tiles of %d×%d: ModelOpt's tiles are whole ones of 128×128", rows, cols, r, c)
			}
			shape = []int64{down, 1, across, 1}
		}
	}
	if scales.Elements() != elements {
		return refuse(p.m, "%s is %v, want %d scales", scales.Name, scales.Shape, elements)
	}
	if b.To == ModelOpt {
		if err := fp8Algo(p); err != nil {
			return err
		}
	}
	input := p.field("input_scale")
	if err := scalar(p, input); err != nil {
		return err
	}
	switch {
	case in == staticTensor && input == nil:
		if b.To == ModelOpt {
			return refuse(p.m, "quantizes activations by a stored scale, and has none")
		}
		p.scheme.inputs = dynamicToken
		b.facts.unscaled = append(b.facts.unscaled, p.m.Name)
	case in != staticTensor && input != nil:
		return refuse(p.m, "has input_scale, and its config does not say that activations are quantized by it")
	}
	p.scheme.scale = checkpoint.F32
	p.promise.rounds = scales.DType != checkpoint.F32
	p.unit.File = scales.File
	scale := p.add("weight_scale", checkpoint.F32, shape...)
	activation := -1
	if input != nil {
		one := []int64{1}
		if b.To == ModelOpt {
			one = nil
		}
		activation = p.add("input_scale", checkpoint.F32, one...)
	}
	p.write = func(ctx context.Context, put put) error {
		if err := b.putF32(ctx, scales, put, scale); err != nil || activation < 0 {
			return err
		}
		return b.copyTensor(ctx, input, put, activation)
	}
	return nil
}

// fp8Algo wants ModelOpt to have a word for a scope of scales and what goes with it.
func fp8Algo(p *piece) error {
	for _, a := range modelOptAlgos {
		if a.name == p.scheme.name && a.inputs == p.scheme.inputs {
			return nil
		}
	}
	said := "activations " + string(p.scheme.inputs)
	if p.scheme.inputs == plainInputs {
		said = "activations that are not quantized"
	}
	return refuse(p.m, "%s with %s has no word in layout modelopt", p.scheme.name, said)
}

// putF32 writes scales as F32: halves and powers of two are widened exactly.
func (b *planner) putF32(ctx context.Context, t *checkpoint.Tensor, put put, tensor int) error {
	size := int64(t.DType.Bits() / 8)
	raw := make([]byte, min(t.Size, copyBytes))
	values := make([]float32, int64(len(raw))/size)
	var out []byte
	for off := int64(0); off < t.Size; off += int64(len(raw)) {
		part := raw[:min(int64(len(raw)), t.Size-off)]
		if err := b.ck.ReadAt(ctx, t, off, part); err != nil {
			return err
		}
		values = values[:int64(len(part))/size]
		if err := decodeScales(values, t.DType, part); err != nil {
			return err
		}
		out = out[:0]
		for i, v := range values {
			if bits := math.Float32bits(v); t.DType == checkpoint.F32 { // NaN's payload stays
				out = append(out, part[4*i:4*i+4]...)
			} else {
				out = binary.LittleEndian.AppendUint32(out, bits)
			}
		}
		if err := put(tensor, off/size*4, out); err != nil {
			return err
		}
	}
	return nil
}

// decodeScales decodes scales of any type; those of a byte are powers of two.
func decodeScales(dst []float32, d checkpoint.DType, raw []byte) error {
	if slices.Contains([]checkpoint.DType{checkpoint.U8, checkpoint.I8, checkpoint.F8E8M0}, d) {
		for i, c := range raw {
			dst[i] = kernels.E8M0ToF32(c)
		}
		return nil
	}
	return checkpoint.DecodeF32(dst, d, raw)
}

// copyBytes is how much of a tensor is in memory when it is copied.
const copyBytes = 1 << 20

// copyTensor copies the bytes of a tensor.
func (b *planner) copyTensor(ctx context.Context, t *checkpoint.Tensor, put put, tensor int) error {
	buf := make([]byte, min(t.Size, copyBytes))
	for off := int64(0); off < t.Size; off += copyBytes {
		part := buf[:min(copyBytes, t.Size-off)]
		if err := b.ck.ReadAt(ctx, t, off, part); err != nil {
			return err
		}
		if err := put(tensor, off, part); err != nil {
			return err
		}
	}
	return nil
}
