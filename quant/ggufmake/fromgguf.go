package ggufmake

import (
	"context"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/gguf"
)

// OpenGGUF takes a GGUF file, or all parts of one, for a source.
func OpenGGUF(path string, o gguf.Options) (*Source, error) {
	f, err := gguf.OpenWith(path, o)
	if err != nil {
		return nil, err
	}
	s, err := fromGGUF(path, f)
	if err != nil {
		_ = f.Close() // the error that ended it says more
		return nil, err
	}
	return s, nil
}

func fromGGUF(path string, f *gguf.File) (*Source, error) {
	s := &Source{Path: path, Kind: "gguf", close: f.Close}
	var err error
	if s.Identity, err = f.Identity(); err != nil {
		return nil, err
	}
	if s.Pairs, err = f.Pairs(); err != nil {
		return nil, err
	}
	s.Arch, _ = f.Metadata["general.architecture"].V.(string)
	for i := range f.Tensors {
		t := &f.Tensors[i]
		where := f.Parts[t.Part].Name
		if t.Bytes < 0 {
			return nil, &checkpoint.FileError{File: where, Tensor: t.Name, Reason: t.Type.String() + " is not known, so its size is neither", Err: checkpoint.ErrUnsupported}
		}
		if t.Elements() == 0 || len(t.Shape) == 0 {
			return nil, &checkpoint.FileError{File: where, Tensor: t.Name, Reason: "has no elements"}
		}
		block, _ := t.Type.Block()
		in := Input{
			Name: t.Name, Shape: t.Shape, From: t.Type.String(), Type: t.Type, Packed: block > 1, Where: where, group: 1,
			copy: func(ctx context.Context, off int64, dst []byte) error { return f.ReadStored(ctx, t, off, dst) },
		}
		scale, err := scalesBeside(f, t)
		if err != nil {
			return nil, err
		}
		in.rows = func(ctx context.Context, r *reader, first, n int, dst []float32) error {
			return ggufRows(ctx, f, t, scale, r, first, n, dst)
		}
		s.Tensors = append(s.Tensors, in)
	}
	s.check = func([]gguf.Pair, []gguf.Tensor) error { return nil }
	return s, nil
}

// ggufRows decodes rows, and multiplies them by the scale that stands beside.
func ggufRows(ctx context.Context, f *gguf.File, t *gguf.Tensor, scale []float32, r *reader, first, n int, dst []float32) error {
	cols := len(dst) / n
	block, bytes := t.Type.Block()
	size := cols / block * bytes
	raw := r.bytes(n * size)
	if err := f.ReadStored(ctx, t, int64(first)*int64(size), raw); err != nil {
		return err
	}
	if err := r.set.DecodeGGUF(dst, t.Type, raw); err != nil {
		return &checkpoint.FileError{File: f.Parts[t.Part].Name, Tensor: t.Name, Reason: "cannot be decoded", Err: err}
	}
	if scale == nil {
		return nil
	}
	per := 1
	if len(t.Shape) >= 2 {
		per = int(t.Shape[len(t.Shape)-2])
	}
	for i := range n {
		k := min((first+i)/per, len(scale)-1)
		for c := range dst[i*cols:][:cols] {
			dst[i*cols+c] *= scale[k]
		}
	}
	return nil
}

// scalesBeside are the factors of a weight's matrices, nil where there are none.
func scalesBeside(f *gguf.File, t *gguf.Tensor) ([]float32, error) {
	name, ok := sibling(t.Name, ".scale")
	if !ok {
		return nil, nil
	}
	s, ok := f.Lookup(name)
	arch, _ := f.Metadata["general.architecture"].V.(string)
	if !ok || gguf.OwnScale(arch, t) {
		return nil, nil
	}
	n := s.Elements()
	if s.Type != kernels.GGUFF32 || n != 1 && (len(t.Shape) != 3 || n != t.Shape[0]) {
		return nil, &checkpoint.FileError{File: f.Parts[s.Part].Name, Tensor: s.Name, Reason: "is no scale of " + t.Name}
	}
	x := make([]float32, n)
	return x, f.Decode(context.Background(), s, 0, x)
}
