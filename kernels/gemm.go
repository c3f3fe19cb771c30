package kernels

import (
	"fmt"
	"runtime"
)

// Dense is a row-major f32 matrix in memory: element (r, c) is
// Data[r·Stride+c], Stride ≥ Cols. Data may end with the last row's last
// element.
type Dense struct {
	Rows, Cols, Stride int
	Data               []float32
}

// NewDense is a matrix of zeros without gaps between its rows.
func NewDense(rows, cols int) (Dense, error) {
	n, ok := product(rows, cols)
	if _, fits := product(n, 4); !ok || !fits {
		return Dense{}, fmt.Errorf("matrix of %d×%d: %w", rows, cols, ErrShape)
	}
	return Dense{Rows: rows, Cols: cols, Stride: cols, Data: make([]float32, n)}, nil
}

func (d Dense) check() error {
	if d.Rows < 0 || d.Cols < 0 || d.Stride < d.Cols {
		return fmt.Errorf("matrix of %d×%d with stride %d: %w", d.Rows, d.Cols, d.Stride, ErrShape)
	}
	if d.Rows == 0 || d.Cols == 0 {
		return nil
	}
	// The subtraction form: (Rows−1)·Stride+Cols could overflow.
	before, ok := product(d.Rows-1, d.Stride)
	if !ok || len(d.Data) < d.Cols || len(d.Data)-d.Cols < before {
		return fmt.Errorf("%d elements for %d×%d with stride %d: %w", len(d.Data), d.Rows, d.Cols, d.Stride, ErrShape)
	}
	return nil
}

// PanelSource writes rows row0 … row0+rows−1, columns col0 … col0+cols−1 of a
// stored matrix into dst, row-major without gaps. It is called from several
// goroutines at once, and for one block as often as the product needs it. Along
// the product's inner dimension (the columns of a linear layer's weights) a
// block starts at a multiple of PanelDepth and ends at the next, or at the end
// of the matrix.
type PanelSource func(dst []float32, row0, rows, col0, cols int) error

// Operand is a factor of a product: a matrix in memory, one of stored elements
// or one that is made in panels as they are needed. Only panels of it are ever
// expanded to f32. The zero Operand is an empty matrix.
type Operand struct {
	rows, cols int // as stored
	transposed bool
	dense      Dense
	stored     Matrix
	panels     PanelSource
}

// DenseOperand is d as a factor.
func DenseOperand(d Dense) Operand { return Operand{rows: d.Rows, cols: d.Cols, dense: d} }

// StoredOperand is a matrix of bf16, f16 or f32 elements as a factor.
func StoredOperand(m Matrix) Operand { return Operand{rows: m.Rows, cols: m.Cols, stored: m} }

// PanelOperand is a rows×cols matrix that source makes, as a factor.
func PanelOperand(rows, cols int, source PanelSource) Operand {
	return Operand{rows: rows, cols: cols, panels: source}
}

// T is the transpose. Nothing is moved.
func (o Operand) T() Operand {
	o.transposed = !o.transposed
	return o
}

// Dims are the rows and columns, of the transpose if it is one.
func (o Operand) Dims() (rows, cols int) {
	if o.transposed {
		return o.cols, o.rows
	}
	return o.rows, o.cols
}

func (o Operand) check() error {
	switch {
	case o.rows < 0 || o.cols < 0:
		return fmt.Errorf("matrix of %d×%d: %w", o.rows, o.cols, ErrShape)
	case o.panels != nil:
		return nil
	case o.stored.Element != 0:
		return o.stored.check()
	default:
		return o.dense.check()
	}
}

// GEMMOptions are how a product is made.
type GEMMOptions struct {
	Alpha      float32 // a factor of the product; 0 stands for 1
	Accumulate bool    // add to what C holds; otherwise C is overwritten
	Threads    int     // goroutines at work; 0 is GOMAXPROCS
}

// PanelDepth is how many steps of the inner dimension are summed before the
// sum is added to C.
const PanelDepth = 256

// GEMM makes C = α·A·B, or C += α·A·B; A is M×K, B is K×N, C is M×N. A linear
// layer of weights W[out,in] is GEMM(y, DenseOperand(x),
// StoredOperand(w).T(), …). C must not overlap A or B.
//
// The result is the same bits for every Set, thread count and stride, and for
// rows of A taken together or one by one. For each element of C, in each block
// of PanelDepth steps of k in ascending order, the last one shorter,
//
//	s = +0;  s = fma(a[k], b[k], s) for ascending k;  c = fma(α, s, c)
//
// in f32, where fma rounds once and c starts as +0 unless it is accumulated
// to. So two calls that accumulate K in two parts, the first a multiple of
// PanelDepth, also give the bits of one. Only a NaN's payload is free.
//
// With u = 2⁻²⁴ the error of an element is at most
// γ(PanelDepth+⌈K/PanelDepth⌉)·Σ|α·a·b|, γ(n) = n·u/(1−n·u) (Higham, Accuracy
// and Stability of Numerical Algorithms, section 3.1), where nothing over- or
// underflows. One chain over all of K would have γ(K).
//
// An error of a PanelSource is returned; C then holds parts of the result.
func (s Set) GEMM(c Dense, a, b Operand, o GEMMOptions) error {
	m, k := a.Dims()
	kb, n := b.Dims()
	if k != kb || c.Rows != m || c.Cols != n {
		return fmt.Errorf("product of %d×%d and %d×%d into %d×%d: %w", m, k, kb, n, c.Rows, c.Cols, ErrShape)
	}
	if err := checkFactors(c, a, b); err != nil {
		return err
	}
	j := newGEMMJob(s, c, a, b, k, o)
	j.grid()
	return j.run()
}

func checkFactors(c Dense, factors ...Operand) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("product: result: %w", err)
	}
	for _, f := range factors {
		if err := f.check(); err != nil {
			return fmt.Errorf("product: factor: %w", err)
		}
	}
	return nil
}

// threadCount is what an option of threads means.
func threadCount(threads int) int {
	if threads <= 0 {
		return runtime.GOMAXPROCS(0)
	}
	return threads
}
