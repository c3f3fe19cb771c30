package kernels

// FP4 is a matrix of E2M1 codes as a checkpoint stores it: rows×cols, two codes a
// byte, the even element in the low nibble, block scales by row.
type FP4 struct {
	Format     string // nvfp4 or mxfp4
	Convention Convention
	Rows, Cols int
	Codes      []byte
	Scales     []byte
	Global     float32 // as stored; of nvfp4
}

// ChooseRecoding chooses the codebook of an FP4 matrix under a method of code2, from
// the histogram of its codes weighed by their steps squared, and by the importance of
// columns where that is not nil: exact. The error is that against the FP4 matrix, whose
// scales stay as they are.
func (s Set) ChooseRecoding(m FP4, method string, importance []float32) (Recoding, error) {
	return Recoding{}, ErrUnsupported
}

// Recode writes the codes of an FP4 matrix under a codebook to dst, as long as
// m.Codes and in its packing: every code becomes that of the nearest of the four
// values, of two the one with the smaller magnitude, of ±v the positive one. The tap
// compares with the FP4 matrix; its bias has the figures of r.
func (s Set) Recode(dst []byte, m FP4, r Recoding) (Tap, error) {
	return Tap{}, ErrUnsupported
}
