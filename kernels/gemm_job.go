package kernels

import (
	"sync"
	"sync/atomic"
)

// gemmJob is one product in tasks, which are blocks of C.
type gemmJob struct {
	set   Set
	c     Dense
	a, b  Operand
	depth int // K
	alpha float32
	add   bool
	lower bool // only tiles that reach the lower triangle

	threads            int
	blockRows          int // of a task
	blockCols          int
	rowTasks, colTasks int
}

// Sizes of what is packed at a time. A panel of A's tileRows rows stays in the
// L1 cache while all of B's panels pass by; these take 1 MiB at most, half of
// a server core's L2. Rows of A are packed in groups that lie beside it.
const (
	gemmMaxCols  = 1024
	gemmMaxRows  = 1024 // of a task: enough to pay for packing B
	gemmFewRows  = 16   // of which all steps fit beside a panel in L2
	gemmPackRows = 112  // a multiple of 14 and of 16, as tiles and transposition want
)

// perThread is how much work is worth another goroutine, some 20 µs of it, in
// multiply-adds: that an element of B is laid out costs as much as packing of
// them.
const (
	perThread = 1 << 21
	packing   = 16
)

func newGEMMJob(s Set, c Dense, a, b Operand, depth int, o GEMMOptions) gemmJob {
	j := gemmJob{set: s, c: c, a: a, b: b, depth: depth, alpha: o.Alpha, add: o.Accumulate}
	if j.alpha == 0 {
		j.alpha = 1
	}
	work := (float64(c.Rows) + packing) * float64(c.Cols) * float64(depth)
	j.threads = min(threadCount(o.Threads), 1+int(min(work/perThread, 1<<20)))
	return j
}

// grid divides C: first by columns, since each task packs its columns of B,
// then by rows.
func (j *gemmJob) grid() {
	g := &j.set.gemm
	j.blockCols = evenly(j.c.Cols, max(j.threads, ceilDiv(j.c.Cols, gemmMaxCols)), g.tileCols)
	j.colTasks = ceilDiv(j.c.Cols, j.blockCols)
	j.blockRows = evenly(j.c.Rows, max(ceilDiv(j.threads, max(j.colTasks, 1)), ceilDiv(j.c.Rows, gemmMaxRows)), g.tileRows)
	j.rowTasks = ceilDiv(j.c.Rows, j.blockRows)
}

// evenly is the size of n's parts, a positive multiple of unit.
func evenly(n, parts, unit int) int {
	return max(ceilDiv(ceilDiv(n, parts), unit), 1) * unit
}

// gemmSpaces keeps what products pack into for the next one.
var gemmSpaces = sync.Pool{New: func() any { return new(gemmSpace) }}

// run does all tasks. Alone it allocates nothing: attention makes a product for
// every head and every few queries.
func (j *gemmJob) run() error {
	if tasks := j.rowTasks * j.colTasks; j.threads > 1 && tasks > 1 {
		shared := *j // so that only this one is on the heap
		return shared.together(tasks)
	}
	w := gemmSpaces.Get().(*gemmSpace)
	defer gemmSpaces.Put(w)
	for row := 0; row < j.c.Rows; row += j.blockRows {
		for col := 0; col < j.c.Cols; col += j.blockCols {
			if err := j.task(w, row, col); err != nil {
				return err
			}
		}
	}
	return nil
}

// together is run by several goroutines.
func (j *gemmJob) together(tasks int) error {
	var next atomic.Int64
	var failed atomic.Bool
	var once sync.Once
	var first error
	work := func() {
		w := gemmSpaces.Get().(*gemmSpace)
		defer gemmSpaces.Put(w)
		for !failed.Load() {
			t := int(next.Add(1)) - 1
			if t >= tasks {
				return
			}
			if err := j.task(w, t/j.colTasks*j.blockRows, t%j.colTasks*j.blockCols); err != nil {
				once.Do(func() { first = err })
				failed.Store(true)
			}
		}
	}
	var wg sync.WaitGroup
	for range min(j.threads, tasks) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return first
}

// task makes the block of C that starts at (row0, col0).
func (j *gemmJob) task(w *gemmSpace, row0, col0 int) error {
	g := &j.set.gemm
	rows, cols := min(j.blockRows, j.c.Rows-row0), min(j.blockCols, j.c.Cols-col0)
	if j.lower && col0 > row0+rows-1 {
		return nil
	}
	if j.depth == 0 {
		for r := range rows {
			if !j.add {
				clear(j.c.Data[(row0+r)*j.c.Stride+col0:][:cols])
			}
		}
		return nil
	}
	// Few rows use a panel of B up at once: it need not leave the L1 cache if
	// all of A is packed before.
	few, chunk := rows <= gemmFewRows, cols
	if few {
		chunk = g.tileCols
		w.a = atLeast(w.a, rows*ceilDiv(j.depth, gemmDepth)*gemmDepth)
		for k0 := 0; k0 < j.depth; k0 += gemmDepth {
			if err := j.packA(w, w.a[k0*rows:], row0, rows, k0, min(gemmDepth, j.depth-k0)); err != nil {
				return err
			}
		}
	} else {
		w.a = atLeast(w.a, gemmPackRows*gemmDepth)
	}
	for c := 0; c < cols; c += chunk {
		n := min(chunk, cols-c)
		for k0 := 0; k0 < j.depth; k0 += gemmDepth {
			depth := min(gemmDepth, j.depth-k0)
			if err := j.packB(w, k0, depth, col0+c, n); err != nil {
				return err
			}
			if few {
				j.tiles(w, w.a[k0*rows:], row0, rows, col0+c, n, k0, depth)
				continue
			}
			for r := 0; r < rows; r += gemmPackRows {
				some := min(gemmPackRows, rows-r)
				if err := j.packA(w, w.a, row0+r, some, k0, depth); err != nil {
					return err
				}
				j.tiles(w, w.a, row0+r, some, col0+c, n, k0, depth)
			}
		}
	}
	return nil
}

// tiles makes the tiles of what is packed: rows of A in packed, B in w.
func (j *gemmJob) tiles(w *gemmSpace, packed []float32, row0, rows, col0, cols, k0, depth int) {
	g := &j.set.gemm
	add := j.add || k0 > 0
	for r := 0; r < rows; r += g.tileRows {
		tall := min(g.tileRows, rows-r)
		a := packed[r*gemmDepth:]
		for c := 0; c < cols; c += g.tileCols {
			if j.lower && col0+c > row0+r+tall-1 {
				break
			}
			b, out := w.b[c*depth:], j.c.Data[(row0+r)*j.c.Stride+col0+c:]
			if wide := cols - c; wide < g.tileCols {
				j.edge(w, tall, wide, depth, a, b, out, add)
			} else {
				g.tile(tall, depth, a, b, out, j.c.Stride, j.alpha, add)
			}
		}
	}
}

// edge makes a tile of which only wide columns are in C.
func (j *gemmJob) edge(w *gemmSpace, tall, wide, depth int, a, b, out []float32, add bool) {
	g := &j.set.gemm
	w.tile = atLeast(w.tile, g.tileRows*g.tileCols)
	if add {
		for r := range tall {
			copy(w.tile[r*g.tileCols:][:wide], out[r*j.c.Stride:])
		}
	}
	g.tile(tall, depth, a, b, w.tile, g.tileCols, j.alpha, add)
	for r := range tall {
		copy(out[r*j.c.Stride:][:wide], w.tile[r*g.tileCols:])
	}
}
