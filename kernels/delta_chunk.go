package kernels

// deltaSpace is what one goroutine works in. Rows of factors are laid out as
// gemmTileRef reads them.
type deltaSpace struct {
	rowsK, rowsQ     []float32 // [blocks of KeyDim][deltaChunk][gemmDepth]
	scaledK, scaledQ []float32 // the same, times what a value head has for them
	kk, qk           []float32 // [deltaChunk][deltaChunk]: products of two tokens
	decays           []float32 // e^G_t, then E(t, ·), rows one behind the other
	solve, mix       []float32 // [deltaChunk][gemmDepth]: factors of earlier rows
	keys             []float32 // [KeyDim][gemmDepth]: keys, transposed
	leaving          []float32 // [deltaChunk][width]: a panel of d, times what is left of it
	out              []float32 // [panels][deltaChunk][width]
	byK              []float32 // −β·e^G_t
	betas            []float32
	ones             []float32
	memory           deltaMemory // of a task whose text is not kept
	shape            DeltaShape  // that memory is for
	width            int
}

func (w *deltaSpace) fit(j *deltaJob) {
	d := j.shape
	rows := ceilDiv(d.KeyDim, gemmDepth) * deltaChunk * gemmDepth
	for _, p := range []*[]float32{&w.rowsK, &w.rowsQ, &w.scaledK, &w.scaledQ} {
		*p = atLeast(*p, rows)
	}
	w.kk, w.qk = atLeast(w.kk, deltaChunk*deltaChunk), atLeast(w.qk, deltaChunk*deltaChunk)
	w.decays = atLeast(w.decays, deltaChunk*(deltaChunk+3)/2)
	w.solve, w.mix = atLeast(w.solve, deltaChunk*gemmDepth), atLeast(w.mix, deltaChunk*gemmDepth)
	w.keys = atLeast(w.keys, d.KeyDim*gemmDepth)
	w.leaving = atLeast(w.leaving, deltaChunk*j.width)
	w.byK, w.betas = atLeast(w.byK, deltaChunk), atLeast(w.betas, deltaChunk)
	w.out = atLeast(w.out, j.panels*deltaChunk*j.width)
	if want := max(d.KeyDim, deltaChunk); len(w.ones) < want {
		w.ones = make([]float32, want)
		for i := range w.ones {
			w.ones[i] = 1
		}
	}
}

// head takes all tokens of the call through value heads from … to−1 of a key
// head.
func (j *deltaJob) head(w *deltaSpace, key, from, to int) {
	w.fit(j)
	d := j.shape
	group := d.ValueHeads / d.KeyHeads
	first, heads := key*group+from, to-from
	var memories [2]deltaMemory
	if st := j.state; st != nil {
		memories[0] = st.open.part(j, key, first, heads)
		memories[1] = memories[0]
		if st.before.s != nil {
			memories[1] = st.before.part(j, key, first, heads)
		}
	} else {
		one := DeltaShape{1, heads, d.KeyDim, d.ValueDim}
		if w.shape != one || w.width != j.width {
			w.memory, w.shape, w.width = newDeltaMemory(one, j.width), one, j.width
		} else {
			clear(w.memory.s)
		}
		memories = [2]deltaMemory{w.memory, w.memory}
	}
	for done := 0; done < j.n; {
		a := (j.past + done) % deltaChunk
		c := deltaPart{deltaJob: j, w: w, key: key, first: first, a: a, b: min(deltaChunk, a+j.n-done), token: done}
		c.products(memories[0].k)
		for i := range heads {
			c.valueHead(i, memories[0].of(j, i), memories[1].of(j, i))
		}
		if c.b == deltaChunk {
			memories[0], memories[1] = memories[1], memories[0]
		}
		done += c.b - c.a
	}
}

// part is the memory of one key head and some of its value heads.
func (m deltaMemory) part(j *deltaJob, key, first, heads int) deltaMemory {
	d, columns := j.shape, j.panels*j.width
	k, s, rows := d.KeyDim*deltaChunk, d.KeyDim*columns, deltaChunk*columns
	return deltaMemory{m.k[key*k:][:k], m.s[first*s:][:heads*s], m.d[first*rows:][:heads*rows], m.sums[first*deltaChunk:][:heads*deltaChunk]}
}

// of is that of value head i of a part.
func (m deltaMemory) of(j *deltaJob, i int) deltaMemory {
	columns := j.panels * j.width
	s, rows := j.shape.KeyDim*columns, deltaChunk*columns
	return deltaMemory{m.k, m.s[i*s:][:s], m.d[i*rows:][:rows], m.sums[i*deltaChunk:][:deltaChunk]}
}

// deltaPart is rows a … b−1 of a chunk, which are tokens token … of the call.
type deltaPart struct {
	*deltaJob
	w                *deltaSpace
	key, first, a, b int
	token            int
}

// blocks calls f for each PanelDepth of the key's elements.
func (c *deltaPart) blocks(f func(first, depth, at int)) {
	for k := 0; k < c.shape.KeyDim; k += gemmDepth {
		f(k, min(gemmDepth, c.shape.KeyDim-k), k*deltaChunk)
	}
}

// products makes k_t·k_j and q_t·k_j of every new row and all that it sees, and
// adds the new rows to keys.
func (c *deltaPart) products(keys []float32) {
	d, w, width := c.shape, c.w, c.width
	stride := d.KeyHeads * d.KeyDim
	at := c.token*stride + c.key*d.KeyDim
	c.blocks(func(first, depth, block int) {
		row := block + c.a*gemmDepth
		c.set.delta.scaleRows(w.rowsK[row:], gemmDepth, c.k[at+first:], stride, w.ones, c.b-c.a, depth)
		c.set.delta.scaleRows(w.rowsQ[row:], gemmDepth, c.q[at+first:], stride, w.ones, c.b-c.a, depth)
	})
	g := &c.set.gemm
	for t := c.a; t < c.b; {
		p, in := t/width, t%width
		n := min(width-in, c.b-t)
		g.transposeF32(keys[p*d.KeyDim*width+in:], width, c.k[at+(t-c.a)*stride:], stride, n, d.KeyDim)
		t += n
	}
	for p := 0; p*width < c.b; p++ {
		row := max(c.a, p*width)
		c.blocks(func(first, depth, block int) {
			b := keys[(p*d.KeyDim+first)*width:]
			g.tile(c.b-row, depth, w.rowsK[block+row*gemmDepth:], b, w.kk[row*deltaChunk+p*width:], deltaChunk, 1, first > 0)
			g.tile(c.b-row, depth, w.rowsQ[block+row*gemmDepth:], b, w.qk[row*deltaChunk+p*width:], deltaChunk, 1, first > 0)
		})
		if c.b == deltaChunk { // for leave, as a factor
			c.set.delta.scaleRows(w.keys[p*width:], gemmDepth, keys[p*d.KeyDim*width:], width, w.ones, d.KeyDim, width)
		}
	}
}

// valueHead takes the rows through one value head: m holds its chunk, and next
// gets the state behind the chunk once it is full.
func (c *deltaPart) valueHead(i int, m, next deltaMemory) {
	head := c.first + i
	c.decay(head, m.sums)
	c.factors(head)
	c.fromState(head, m)
	c.solved(m.d)
	c.mixed(m.d)
	c.store(head)
	if c.b == deltaChunk {
		c.leave(m, next)
	}
}

// decay goes on with the sums of g and makes what they decay by.
func (c *deltaPart) decay(head int, sums []float64) {
	sum := 0.0
	if c.a > 0 {
		sum = sums[c.a-1]
	}
	x := c.w.decays[:0]
	for t := c.a; t < c.b; t++ {
		g := float64(c.g[(c.token+t-c.a)*c.shape.ValueHeads+head])
		if g < deltaLeast {
			g = deltaLeast
		}
		sum += g
		sums[t] = sum
		x = append(x, float32(sum))
	}
	for t := c.a; t < c.b; t++ {
		now := sums[t]
		for _, then := range sums[:t+1] {
			x = append(x, float32(now-then))
		}
	}
	c.set.rows.expSum(x, 0)
}

// between is E(t, 0 … t).
func (c *deltaPart) between(t int) []float32 {
	n := c.b - c.a
	return c.w.decays[n+(t-c.a)*(t+c.a+1)/2:][:t+1]
}

// factors makes what every row is multiplied with: keys and queries for the
// state, and two rows for the tokens before.
func (c *deltaPart) factors(head int) {
	w := c.w
	for i := range c.b - c.a {
		w.betas[i] = c.beta[(c.token+i)*c.shape.ValueHeads+head]
		w.byK[i] = -w.betas[i] * w.decays[i]
	}
	c.blocks(func(_, depth, block int) {
		at := block + c.a*gemmDepth
		c.set.delta.scaleRows(w.scaledK[at:], gemmDepth, w.rowsK[at:], gemmDepth, w.byK, c.b-c.a, depth)
		c.set.delta.scaleRows(w.scaledQ[at:], gemmDepth, w.rowsQ[at:], gemmDepth, w.decays, c.b-c.a, depth)
	})
	scaled := c.set.rows.mulScaled
	for t := c.a; t < c.b; t++ {
		e := c.between(t)
		if t > 0 {
			scaled(w.solve[t*gemmDepth:][:t], w.kk[t*deltaChunk:][:t], e[:t], -w.betas[t-c.a], false)
		}
		mix := w.mix[t*gemmDepth:]
		scaled(mix[:t+1], w.qk[t*deltaChunk:][:t+1], e, 1, false)
		clear(mix[t+1 : c.b])
	}
}

// fromState begins the rows of d and out with the values and with what the state
// at the chunk's start gives.
func (c *deltaPart) fromState(head int, m deltaMemory) {
	w, g, width, d := c.w, &c.set.gemm, c.width, c.shape
	rows, stride := c.b-c.a, d.ValueHeads*d.ValueDim
	v := c.v[c.token*stride+head*d.ValueDim:]
	for p := range c.panels {
		at, n := (p*deltaChunk+c.a)*width, min(width, d.ValueDim-p*width)
		if n < width {
			clear(m.d[at:][:rows*width])
		}
		c.set.delta.scaleRows(m.d[at:], width, v[p*width:], stride, w.betas, rows, n)
		c.blocks(func(first, depth, block int) {
			s := m.s[(p*d.KeyDim+first)*width:]
			g.tile(rows, depth, w.scaledK[block+c.a*gemmDepth:], s, m.d[at:], width, 1, true)
			g.tile(rows, depth, w.scaledQ[block+c.a*gemmDepth:], s, w.out[at:], width, 1, first > 0)
		})
	}
}

// solved completes the rows of d: each takes what those before it give, whole
// blocks first.
func (c *deltaPart) solved(d []float32) {
	w, g, width := c.w, &c.set.gemm, c.width
	for start := c.a / deltaBlock * deltaBlock; start < c.b; start += deltaBlock {
		from, to := max(c.a, start), min(c.b, start+deltaBlock)
		for p := range c.panels {
			rows := d[p*deltaChunk*width:][:deltaChunk*width]
			if start > 0 {
				g.tile(to-from, start, w.solve[from*gemmDepth:], rows, rows[from*width:], width, 1, true)
			}
			for t := max(from, start+1); t < to; t++ {
				g.tile(1, t-start, w.solve[t*gemmDepth+start:], rows[start*width:], rows[t*width:], width, 1, true)
			}
		}
	}
}

// mixed adds to out what the chunk's rows of d give. Several rows go together
// over the rows that the last of them sees, with 0 for what the others do not:
// that changes no bit of them where the rows are finite, for a sum that began
// with +0 and is added to what is not −0 does not show the sign of its zeros.
func (c *deltaPart) mixed(d []float32) {
	w, g, width := c.w, &c.set.gemm, c.width
	for p := range c.panels {
		rows, out := d[p*deltaChunk*width:][:deltaChunk*width], w.out[p*deltaChunk*width:]
		tall := g.tileRows
		if sum := c.set.rows.sumSquares(rows[c.a*width : c.b*width]); sum-sum != 0 {
			tall = 1
		}
		for t := c.a; t < c.b; t += tall {
			end := min(t+tall, c.b)
			g.tile(end-t, end, w.mix[t*gemmDepth:], rows, out[t*width:], width, 1, true)
		}
	}
}

// store writes the rows of out.
func (c *deltaPart) store(head int) {
	d, width := c.shape, c.width
	stride := d.ValueHeads * d.ValueDim
	to := c.out[c.token*stride+head*d.ValueDim:]
	for p := range c.panels {
		c.set.delta.scaleRows(to[p*width:], stride, c.w.out[(p*deltaChunk+c.a)*width:], width, c.w.ones, c.b-c.a, min(width, d.ValueDim-p*width))
	}
}

// leave makes the state behind the full chunk.
func (c *deltaPart) leave(m, next deltaMemory) {
	w, g, width, d := c.w, &c.set.gemm, c.width, c.shape
	const last = deltaChunk - 1
	if &next.s[0] != &m.s[0] {
		copy(next.s, m.s)
	}
	c.set.rows.scale(next.s, w.decays[last-c.a])
	for p := range c.panels {
		c.set.delta.scaleRows(w.leaving, width, m.d[p*deltaChunk*width:], width, c.between(last), deltaChunk, width)
		g.tile(d.KeyDim, deltaChunk, w.keys, w.leaving, next.s[p*d.KeyDim*width:], width, 1, true)
	}
}
