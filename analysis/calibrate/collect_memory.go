package calibrate

import (
	"quantscope/kernels"
)

// pool is memory that is used again, by its length.
type pool struct {
	free  map[int][][]float32
	idle  int64 // bytes that nobody uses
	lent  int64 // bytes that are used
	limit int64 // of both
}

// get is memory of n values; what is in it is overwritten. Rather than to be more
// than its limit, the pool forgets what lies idle.
func (p *pool) get(n int) []float32 {
	size := 4 * int64(n)
	p.lent += size
	if free := p.free[n]; len(free) > 0 {
		p.free[n] = free[:len(free)-1]
		p.idle -= size
		return free[len(free)-1]
	}
	if p.idle+p.lent > p.limit || p.free == nil {
		p.free, p.idle = map[int][][]float32{}, 0
	}
	return make([]float32, n)
}

// put takes memory back.
func (p *pool) put(b []float32) {
	size := 4 * int64(len(b))
	p.lent -= size
	p.idle += size
	p.free[len(b)] = append(p.free[len(b)], b)
}

// square is memory for a Hessian of n columns.
func (c *Collector) square(n int) kernels.Dense {
	return kernels.Dense{Rows: n, Cols: n, Stride: n, Data: c.squares.get(n * n)}
}

// back takes the memory of an input back.
func (c *Collector) back(m *measured) {
	if m.H.Data != nil {
		c.squares.put(m.H.Data)
		m.H = kernels.Dense{}
	}
	if m.batch != nil {
		c.batches.put(m.batch)
		m.batch = nil
	}
}
