package kernels

import "math"

// The method imatrix of NVFP4 is a sweep whose errors are weighed: of all 126
// E4M3 scales the one with the least error, of equals the smallest. What is
// compared is the sum of nvfp4_search.go with a factor for each element,
//
//	p[k] = ((d[k]²·v[k] + d[k+4]²·v[k+4]) + …     each product rounded
//
// where v[i] is the importance of the element's column, multiplied by the power
// of two that brings the largest of the block to 1…2, and u[i] is no more than
// 2⁶⁰. A block whose columns all count the same is left to the plain sweep, and
// so is one without importance.

// weighTile is how many blocks stand together in nvfp4Weights.
const weighTile = 16

// nvfp4Weights are the factors of the blocks of a row in tiles of sixteen blocks:
// the factor of element i of block b is tiles[b/16][i*16+b%16]. Behind the last
// block stands the factor 1.
type nvfp4Weights struct {
	tiles [][BlockNVFP4 * weighTile]float32
	at    int // the block of the row that comes next

	moved [][BlockNVFP4 * weighTile]float32 // tiles of a run that does not begin with one
}

// newNVFP4Weights takes the importance of the columns of a row.
func newNVFP4Weights(importance []float32) *nvfp4Weights {
	blocks := ceilDiv(len(importance), BlockNVFP4)
	v := &nvfp4Weights{tiles: make([][BlockNVFP4 * weighTile]float32, ceilDiv(blocks, weighTile))}
	factors := groupFactors(importance, BlockNVFP4)
	for b := range len(v.tiles) * weighTile {
		tile := &v.tiles[b/weighTile]
		for i := range BlockNVFP4 {
			factor := float32(1)
			switch at := b*BlockNVFP4 + i; {
			case at < len(factors):
				factor = factors[at]
			case b < blocks: // there is no such element, and it must not tell the block from an even one
				factor = factors[len(factors)-1]
			}
			tile[i*weighTile+b%weighTile] = factor
		}
	}
	return v
}

// groupFactors are the factors of columns: importance times the power of two that
// brings the largest of each group to 1…2, so that only ratios within a group
// matter and nothing overflows. A group whose columns all have the same, or none,
// has the factor 1.
func groupFactors(importance []float32, group int) []float32 {
	factors := make([]float32, len(importance))
	for from := 0; from < len(factors); from += group {
		part := importance[from:min(from+group, len(importance))]
		largest, even := float32(0), true
		for _, x := range part {
			largest, even = max(largest, x), even && x == part[0]
		}
		exponent := math.Ilogb(float64(largest))
		for i, x := range part {
			factors[from+i] = 1
			if !even {
				factors[from+i] = float32(math.Ldexp(float64(x), -exponent))
			}
		}
	}
	return factors
}

// block gives the factors of a block of the row; even says that all are 1.
func (v *nvfp4Weights) block(b int) (f nvfp4Block, even bool) {
	tile := &v.tiles[b/weighTile]
	even = true
	for i := range f {
		f[i] = tile[i*weighTile+b%weighTile]
		even = even && f[i] == 1
	}
	return f, even
}

// run are the tiles for a run of n blocks that begins with block v.at.
func (v *nvfp4Weights) run(n int) [][BlockNVFP4 * weighTile]float32 {
	first, shift := v.at/weighTile, v.at%weighTile
	if shift == 0 {
		return v.tiles[first:]
	}
	v.moved = resize(v.moved, ceilDiv(n, weighTile))
	moved := v.moved
	for t := range moved {
		for i := range BlockNVFP4 {
			row := moved[t][i*weighTile : (i+1)*weighTile]
			here := v.tiles[first+t][i*weighTile : (i+1)*weighTile]
			done := copy(row, here[shift:])
			if first+t+1 < len(v.tiles) {
				copy(row[done:], v.tiles[first+t+1][i*weighTile:])
			}
		}
	}
	return moved
}

// farthest is the largest magnitude of u that is told from infinity: beyond it
// all scales do equally badly.
const (
	farthestUnits = 0x1p60
	farthestSteps = 0x1p50 // the same of quotients, whose errors are multiplied by scale²
)

// chooseWeighted is chooseOfAll for weighed errors. u is in units.
func (j *nvfp4Job) chooseWeighted(u *nvfp4Block, amax float32, f *nvfp4Block) (scale byte, choice int) {
	start := j.scaleCode(j.rawScale(amax))
	for i, x := range u {
		u[i] = min(x, j.farthest())
	}
	largest := float32(amax * j.unit)
	switch {
	case amax == 0 && j.allZero:
		return start, -sweepLowest
	case amax == 0:
		return 1, -sweepLowest
	case j.vanishes(largest):
		scale = 1
	default:
		scale = j.bestWeighted(u, f, start)
	}
	offset := int(scale) - int(start)
	return scale, min(max(offset, sweepLowest), sweepLowest+MultBins-1) - sweepLowest
}

// farthest bounds u.
func (j *nvfp4Job) farthest() float32 {
	if j.divide {
		return math.MaxFloat32
	}
	return farthestUnits
}

// bestWeighted is bestFrom for weighed errors. Downwards it looks as far as the
// clipping of the one element allows that counts most: its term is one of the
// sum's. Upwards the elements below half a step bound it as in bestFrom.
func (j *nvfp4Job) bestWeighted(u, f *nvfp4Block, start byte) (scale byte) {
	scale = start
	best := j.weightedError(u, f, start)
	if j.divide { // steps at the end of the range are not monotonic in all they do
		for s := byte(1); s < nanE4M3; s++ {
			if e := j.weightedError(u, f, s); e < best || e == best && s < scale {
				best, scale = e, s
			}
		}
		return scale
	}
	heaviest := 0
	for i := range u {
		if float32(float32(u[i]*u[i])*f[i]) > float32(float32(u[heaviest]*u[heaviest])*f[heaviest]) {
			heaviest = i
		}
	}
	for s := start - 1; s >= 1; s-- {
		d := max(u[heaviest]-MaxE2M1*e4m3Values[s], 0)
		if float32(float32(d*d)*f[heaviest]) > best {
			break
		}
		if e := j.weightedError(u, f, s); e <= best {
			best, scale = e, s
		}
	}
	for s := start + 1; s < nanE4M3; s++ {
		if e := j.weightedError(u, f, s); e < best {
			best, scale = e, s
		}
		if (s-start)&3 == 3 && smallWeightedError(u, f, s) >= best {
			break
		}
	}
	return scale
}

// weightedError is blockError with a factor for each term.
func (j *nvfp4Job) weightedError(u, f *nvfp4Block, scale byte) float32 {
	if j.divide {
		return j.weightedErrorDividing(u, f, scale)
	}
	s, r := e4m3Values[scale&127], e4m3Quarters[scale&127]
	var p [4]float32
	for i, x := range u {
		d := offGrid(x, s, r)
		p[i&3] += float32(float32(d*d) * f[i])
	}
	return (p[0] + p[1]) + (p[2] + p[3])
}

// weightedErrorDividing is blockErrorDividing with a factor for each term, of
// quotients up to 2⁵⁰.
func (j *nvfp4Job) weightedErrorDividing(w, f *nvfp4Block, scale byte) float32 {
	step, square := j.steps[scale&127], e4m3Squares[scale&127]
	if step == 0 {
		return float32(math.Inf(1))
	}
	var p [4]float32
	for i, v := range w {
		x := min(v/step, farthestSteps)
		d := x - nearestE2M1(x)
		p[i&3] += float32(float32(d*d) * f[i])
	}
	return float32(((p[0] + p[1]) + (p[2] + p[3])) * square)
}

// smallWeightedError is smallError with a factor for each term.
func smallWeightedError(u, f *nvfp4Block, scale byte) float32 {
	half := e4m3Values[scale&127] / 2
	var p [4]float32
	for i, v := range u {
		if d := min(v, half-v); d > 0 {
			p[i&3] += float32(float32(d*d) * f[i])
		}
	}
	return (p[0] + p[1]) + (p[2] + p[3])
}
