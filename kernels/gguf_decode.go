package kernels

// ggufBlocks decodes blocks of a type, at least one; both pointers have as many
// elements and bytes as these have.
type ggufBlocks func(dst *float32, src *byte, blocks int)

// DecodeGGUF is the package's function of that name by this set: the same bits,
// but for a NaN's payload.
func (s Set) DecodeGGUF(dst []float32, t GGUFType, src []byte) error {
	i, err := t.decoder(dst, src)
	if err != nil || len(dst) == 0 {
		return err
	}
	if int(t) < len(s.gguf) && s.gguf[t] != nil {
		s.gguf[t](&dst[0], &src[0], len(dst)/i.block)
		return nil
	}
	switch c := &s.convert; {
	case t == GGUFF32 && c.decodeF32 != nil:
		c.decodeF32(dst, src)
	case t == GGUFF16 && c.decodeF16 != nil:
		c.decodeF16(dst, src)
	case t == GGUFBF16 && c.decodeBF16 != nil:
		c.decodeBF16(dst, src)
	default:
		i.blocks(dst, src)
	}
	return nil
}
