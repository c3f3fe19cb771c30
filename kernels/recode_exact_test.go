package kernels

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// With steps of 1 every sum is a whole number of quarters, so that errors are exact and
// equal ones are equal. Histograms of a few values have many: the first counts, by
// values ascending.
func TestChooseRecodingTies(t *testing.T) {
	var ordered []uint16 // by values ascending
	for i := range 15 {
		for k := i + 1; k < 15; k++ {
			for l := k + 1; l < 15; l++ {
				for n := l + 1; n < 15; n++ {
					ordered = append(ordered, 1<<e2m1Ascending[i]|1<<e2m1Ascending[k]|1<<e2m1Ascending[l]|1<<e2m1Ascending[n])
				}
			}
		}
	}
	ties := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 12))
		var histogram [16]int
		for range 1 + seed%9 {
			histogram[rng.IntN(16)] += rng.IntN(4)
		}
		var codes []byte
		for code, n := range histogram {
			codes = append(codes, bytes.Repeat([]byte{byte(code)}, n)...)
		}
		if len(codes)%2 != 0 {
			codes = append(codes, 3)
			histogram[3]++
		}
		m := FP4{Format: "mxfp4", Convention: CT32, Rows: 1, Cols: len(codes), Scales: bytes.Repeat([]byte{127}, ceilDiv(len(codes), 32))}
		rng.Shuffle(len(codes), func(i, k int) { codes[i], codes[k] = codes[k], codes[i] })
		for i := 0; i < len(codes); i += 2 {
			m.Codes = append(m.Codes, codes[i]|codes[i+1]<<4)
		}
		errs, biases := map[uint16]int{}, map[uint16]int{} // in quarters, in halves
		l2, sym := -1, -1
		var wantL2, wantSym uint16
		for _, mask := range ordered {
			for code, n := range histogram {
				v, near := int(2*e2m1Values[code]), int(2*nearestTo(mask, float64(e2m1Values[code]), 1))
				errs[mask] += n * (near - v) * (near - v)
				biases[mask] += n * (near - v)
			}
			if l2 >= 0 && errs[mask] == l2 {
				ties++
			}
			if l2 < 0 || errs[mask] < l2 {
				l2, wantL2 = errs[mask], mask
			}
			if v := Codebook(mask); v[0] == -v[3] && v[1] == -v[2] && (sym < 0 || errs[mask] < sym) {
				sym, wantSym = errs[mask], mask
			}
		}
		band, nearest, within := 50*sym, -1, false
		var wantAsym uint16
		for _, mask := range ordered {
			off := abs(errs[mask] - sym)
			if mirrorBook(mask) == mask {
				continue
			}
			switch {
			case 2500*off <= band && (!within || biases[mask] > biases[wantAsym]):
				wantAsym, within = mask, true
			case !within && 2500*off > band && (nearest < 0 || off < nearest):
				wantAsym, nearest = mask, off
			}
		}
		for method, want := range map[string]uint16{"l2": wantL2, "sym": wantSym, "asym": wantAsym, "mirror": mirrorBook(wantAsym)} {
			got, err := Best().ChooseRecoding(m, method, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got.Codebook != want {
				t.Errorf("seed %d, %s of %v: %v with an error of %d, want %v with %d", seed, method, histogram, Codebook(got.Codebook), errs[got.Codebook], Codebook(want), errs[want])
			}
		}
	}
	if ties < 1000 {
		t.Errorf("only %d equal errors", ties)
	}
}

func abs(x int) int { return max(x, -x) }

// FuzzRecode recodes bytes of the fuzzer in rows of any width, and holds codes and
// record against plain loops, in place and not.
func FuzzRecode(f *testing.F) {
	f.Add([]byte{0x80, 0x7f, 1, 2, 3}, uint16(70), uint16(3), uint8(0))
	f.Add([]byte{0xff, 0xfe, 0xfd, 0x00, 0x08}, uint16(257), uint16(1000), uint8(5))
	f.Add([]byte{0x7e, 0x88, 0x80}, uint16(31), uint16(77), uint8(2))
	masks, all := allBooks(), fp4Specs()
	f.Fuzz(func(t *testing.T, raw []byte, cols, book uint16, kind uint8) {
		if len(raw) == 0 {
			return
		}
		spec := all[int(kind)%len(all)][0]
		m := randomFP4(rand.New(rand.NewPCG(1, 1)), spec, 2, int(cols%300))
		at := 0
		for _, b := range [][]byte{m.Codes, m.Scales} {
			for i := range b {
				b[i] = raw[at%len(raw)] + byte(at/len(raw))
				at++
			}
		}
		r := Recoding{Codebook: masks[int(book)%len(masks)], L2: 0.1, Sym: 0.2}
		dst, intact := guarded(len(m.Codes))
		got, err := Best().Recode(dst, m, r)
		if err != nil {
			t.Fatal(err)
		}
		if !intact() {
			t.Fatal("wrote outside of its output")
		}
		want, unclear := recodePlain(&m, dst, r)
		sameRecoding(t, spec.Format, got, want, unclear)
		own := m
		own.Codes = slices.Clone(m.Codes)
		if tap, err := Best().Recode(own.Codes, own, r); err != nil || tap != got || !bytes.Equal(own.Codes, dst) {
			t.Fatalf("in place: %v, %+v, want %+v", err, tap, got)
		}
		for i := range dst { // what pads a row stays
			if row := ceilDiv(m.Cols, 2); m.Cols%2 != 0 && i%row == row-1 && (dst[i]^m.Codes[i])&0xf0 != 0 {
				t.Fatalf("byte %d was %#x and is %#x", i, m.Codes[i], dst[i])
			}
		}
	})
}
