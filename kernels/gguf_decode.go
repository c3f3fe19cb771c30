package kernels

// DecodeGGUF is the package's function of that name by this set: the same bits.
func (s Set) DecodeGGUF(dst []float32, t GGUFType, src []byte) error { return DecodeGGUF(dst, t, src) }
