package kernels

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// searchCase is a job and the blocks whose scales it chooses.
type searchCase struct {
	job *nvfp4Job
	src []byte
}

// newSearchCase makes a case of whole blocks; elements that are not finite
// become 0. top is the largest magnitude that the job believes in, 0 for that
// of the blocks; global is the stored scale, 0 for the one that follows.
func newSearchCase(e Element, conv Convention, search nvfp4Search, x []float32, top, global float32) searchCase {
	x = slices.Clone(x[:len(x)/BlockNVFP4*BlockNVFP4])
	c := searchCase{job: new(nvfp4Job), src: make([]byte, len(x)*e.Size())}
	for i, v := range x {
		if v-v != 0 {
			x[i] = 0
		}
	}
	if err := EncodeFloats(c.src, e, x); err != nil {
		panic(err)
	}
	for i := 0; i < len(c.src); i += e.Size() { // the encoding may have overflowed
		if loadElement(e, c.src[i:])-loadElement(e, c.src[i:]) != 0 {
			clear(c.src[i : i+e.Size()])
		}
	}
	if top == 0 {
		top = math.Float32frombits(finiteAbsMaxRef(e, c.src))
	}
	c.job.start(e, conv, search, top, global)
	return c
}

// checkChoose compares the choices of every set with the reference's.
func (c searchCase) check(t *testing.T) {
	t.Helper()
	j := c.job
	n := len(c.src) / (BlockNVFP4 * j.element.Size())
	amax := make([]uint32, n)
	if done := blockAmaxRef(j.element, c.src, amax); done != n {
		t.Fatalf("block %d is not finite", done)
	}
	scales, choices := make([]byte, n), make([]byte, n)
	nvfp4ChooseRef(j, c.src, amax, scales, choices)
	for _, set := range Available()[1:] {
		src, srcIntact := guarded(len(c.src))
		copy(src, c.src)
		got, scalesIntact := guarded(n)
		gotChoices, choicesIntact := guarded(n)
		set.chooseNVFP4(j, src, amax, got, gotChoices)
		if !srcIntact() || !bytes.Equal(src, c.src) || !scalesIntact() || !choicesIntact() {
			t.Fatalf("%s wrote outside of its output", set.Name)
		}
		if !bytes.Equal(got, scales) {
			t.Errorf("%s %v %v %+v: scales: %s", set.Name, j.element, j.conv, j.search, firstDiff(got, scales))
		}
		if !bytes.Equal(gotChoices, choices) {
			t.Errorf("%s %v %v %+v: choices: %s", set.Name, j.element, j.conv, j.search, firstDiff(gotChoices, choices))
		}
	}
}

var testSearches = func() (s []nvfp4Search) {
	for m := NVFP4MSE; m <= NVFP4FourOverSix; m++ {
		search, _ := m.search()
		s = append(s, search)
	}
	// Lists in no order, with repetitions, with the first in the middle, and
	// as long as bins reach.
	return append(s,
		nvfp4Search{multipliers: []float32{1.3, 0.9, 0.9, 2, 1, 1, 0.25, 1.3}, first: 4, top: MaxE4M3},
		nvfp4Search{multipliers: []float32{1}, top: MaxE4M3},
		nvfp4Search{multipliers: []float32{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8}, first: 15, top: MaxE4M3},
	)
}()

// searchShapes draw one element each.
func searchShapes(rng *rand.Rand) []func() float64 {
	return []func() float64{
		rng.NormFloat64,
		func() float64 { return rng.NormFloat64() * math.Exp(2*rng.NormFloat64()) },
		func() float64 { return 2*rng.Float64() - 1 },
		func() float64 { return float64(e2m1Values[rng.IntN(16)]) },
		func() float64 { return float64(e2m1Values[rng.IntN(16)]) * (1 + 0x1p-9*float64(rng.IntN(3)-1)) },
		func() float64 { return float64(rng.IntN(49)-24) / 4 }, // on every boundary
		func() float64 { return math.Copysign(1, rng.NormFloat64()) },
		func() float64 { return float64(rng.IntN(16)/15) * rng.NormFloat64() },
		func() float64 { return 0 },
	}
}

// drawBlocks makes blocks of every shape and many sizes below 1.
func drawBlocks(rng *rand.Rand, blocks int) []float32 {
	shapes := searchShapes(rng)
	x := make([]float32, blocks*BlockNVFP4)
	for b := range blocks {
		shape := shapes[rng.IntN(len(shapes))]
		size := 1.0
		switch rng.IntN(4) {
		case 0:
			size = math.Exp2(-float64(rng.IntN(20)))
		case 1:
			size = rng.Float64()
		}
		for i := range BlockNVFP4 {
			x[b*BlockNVFP4+i] = float32(size * shape())
		}
		if rng.IntN(4) == 0 {
			x[b*BlockNVFP4+rng.IntN(BlockNVFP4)] *= float32(math.Exp2(4 * rng.Float64()))
		}
	}
	return x
}

// Every set chooses what the reference chooses, in every lane, for any number
// of blocks.
func TestNVFP4Choose(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	for _, e := range []Element{BF16, F16, F32} {
		for conv := ModelOpt; conv <= CT; conv++ {
			for _, search := range testSearches {
				for n := range 36 {
					newSearchCase(e, conv, search, drawBlocks(rng, n), 0, 0).check(t)
				}
				x := drawBlocks(rng, 500)
				newSearchCase(e, conv, search, x, 0, 0).check(t)
				// Global scales that push block scales to both ends, and out
				// of the range in which searches multiply.
				for _, global := range []float32{1e-30, 1e-4, 0.001, 0.02, 1, 300, 1e4, 1e30, 0x1p-120, 0x1p101} {
					newSearchCase(e, conv, search, x, 0, global).check(t)
				}
				// Magnitudes at the ends of f32, and far from the global scale.
				for _, size := range []float64{0x1p-149, 0x1p-126, 0x1p-90, 0x1p-14, 0x1p90, 0x1p124} {
					y := make([]float32, len(x))
					for i, v := range x {
						y[i] = float32(size * float64(v))
					}
					newSearchCase(e, conv, search, y, 0, 0).check(t)
					newSearchCase(e, conv, search, y, 1, 0).check(t)
				}
			}
		}
	}
}

// nearTies makes blocks between two choices: the one of an element's neighbours
// in f32 at which the choice changes, and those around it. There the errors of
// two scales differ in their last places, so that the order of operations
// shows.
func (c searchCase) nearTies(rng *rand.Rand, blocks int) []float32 {
	j := c.job
	choose := func(w *nvfp4Block) byte {
		var amax float32
		for _, v := range w {
			amax = max(amax, float32(math.Abs(float64(v))))
		}
		scale, _ := j.choose(w, amax)
		return scale
	}
	const around = 4
	var x []float32
	for range 20 * blocks { // there may be no choice
		if len(x) >= blocks*BlockNVFP4 {
			break
		}
		w := nvfp4Block(drawBlocks(rng, 1))
		i := rng.IntN(BlockNVFP4)
		w[i] = 0
		for range 4 { // beside a boundary, which the scale may still be that of
			edge := float32([]float64{0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5}[rng.IntN(7)]) * e4m3Values[choose(&w)] / j.unit
			if edge < 0.2 {
				w[rng.IntN(BlockNVFP4)] = math.Float32frombits(math.Float32bits(edge) + uint32(rng.IntN(3)) - 1)
			}
		}
		low, high := uint32(0), math.Float32bits(float32(0.2+rng.Float64()))
		at := func(bits uint32) byte {
			w[i] = math.Float32frombits(bits)
			return choose(&w)
		}
		first := at(low)
		if at(high) == first {
			continue
		}
		for high-low > 1 {
			if mid := low + (high-low)/2; at(mid) == first {
				low = mid
			} else {
				high = mid
			}
		}
		for k := high - min(high, around); k < high+around; k++ {
			w[i] = math.Float32frombits(k)
			x = append(x, w[:]...)
		}
	}
	return x
}

func TestNVFP4ChooseNearTies(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 3))
	for conv := ModelOpt; conv <= CT; conv++ {
		for _, search := range testSearches {
			for _, global := range []float32{0.0123, 1, 77} {
				c := newSearchCase(F32, conv, search, nil, 1, global)
				newSearchCase(F32, conv, search, c.nearTies(rng, 800), 1, global).check(t)
			}
		}
	}
}

func FuzzNVFP4Choose(f *testing.F) {
	rng := rand.New(rand.NewPCG(12, 2))
	for mode := range 12 * len(testSearches) {
		for _, n := range []int{1, 17, 40} {
			raw := make([]byte, 4*n*BlockNVFP4)
			for i, v := range drawBlocks(rng, n) {
				binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
			}
			f.Add(raw, uint8(mode), float32(rng.IntN(2))*float32(math.Exp2(10*rng.NormFloat64())))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, mode uint8, global float32) {
		x := make([]float32, min(len(raw)/4, 48*BlockNVFP4))
		for i := range x {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		e, conv := []Element{BF16, F16, F32}[mode%3], Convention(mode/3%4)
		if checkGlobal(global, conv) != nil {
			global = 0
		}
		newSearchCase(e, conv, testSearches[int(mode/12)%len(testSearches)], x, 0, global).check(t)
	})
}

// What the definition of a search's error says about ties: for a rounded
// reciprocal r of a scale that is no power of two, no product u·r is a boundary
// of E2M1, whose odd parts are 1, 3, 5 and 7.
func TestNVFP4NoTies(t *testing.T) {
	for c := 1; c < nanE4M3; c++ {
		mantissa := func(x float32) uint32 {
			m := math.Float32bits(x)&(1<<23-1) | 1<<23
			return m >> bits.TrailingZeros32(m)
		}
		r := float32(e4m3Quarters[c] / 4)
		if mantissa(e4m3Values[c]) != 1 && mantissa(r) <= 7 {
			t.Errorf("the reciprocal of %v is %v", e4m3Values[c], r)
		}
	}
}

// BenchmarkNVFP4Choose measures the choice of scales alone, a run of blocks at
// a time as a pass does. "memcpy" is its rate over the one of copy().
func BenchmarkNVFP4Choose(b *testing.B) {
	const rows, cols = 1024, 14336
	m := gaussianBF16(rows, cols, 1)
	blocks := rows * cols / BlockNVFP4
	amax := make([]uint32, blocks)
	blockAmaxRef(BF16, m.Data, amax)
	scales, choices := make([]byte, blocks), make([]byte, blocks)
	dst := make([]byte, len(m.Data))
	for _, set := range Available() {
		for method := NVFP4MSE; method <= NVFP4FourOverSix; method++ {
			b.Run(fmt.Sprintf("%s/%v/%dx%d", set.Name, method, rows, cols), func(b *testing.B) {
				j := new(nvfp4Job)
				search, _ := method.search()
				j.start(BF16, ModelOpt, search, set.finiteAbsMax(m), 0)
				b.SetBytes(int64(len(m.Data)))
				copyRate := math.Inf(-1)
				for range 3 {
					start := time.Now()
					copy(dst, m.Data)
					copyRate = max(copyRate, float64(len(m.Data))/time.Since(start).Seconds())
				}
				for b.Loop() {
					for i := 0; i < blocks; i += nvfp4Chunk {
						end := i + nvfp4Chunk
						set.chooseNVFP4(j, m.Data[32*i:32*end], amax[i:end], scales[i:end], choices[i:end])
					}
				}
				perSecond := float64(b.N) / b.Elapsed().Seconds()
				b.ReportMetric(perSecond*float64(rows*cols)/1e6, "Mweights/s")
				b.ReportMetric(perSecond*float64(len(m.Data))/copyRate, "memcpy")
			})
		}
	}
}
