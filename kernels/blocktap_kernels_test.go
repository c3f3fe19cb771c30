package kernels

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// What the generator of assembly takes for granted.
func TestBlockLayouts(t *testing.T) {
	var p blockParams
	var s blockSums
	var r blockRange
	for _, c := range []struct{ got, want uintptr }{
		{unsafe.Offsetof(p.step), 0}, {unsafe.Offsetof(p.inverse), 4}, {unsafe.Offsetof(p.offset), 8}, {unsafe.Offsetof(p.bins), 12}, {unsafe.Sizeof(p), 16},
		{unsafe.Offsetof(s.w2), 0}, {unsafe.Offsetof(s.q2), 64}, {unsafe.Offsetof(s.wq), 128}, {unsafe.Offsetof(s.e2), 192}, {unsafe.Offsetof(s.worst), 256},
		{unsafe.Offsetof(r.lo), 0}, {unsafe.Offsetof(r.hi), 4}, {unsafe.Offsetof(r.amax), 8}, {unsafe.Offsetof(r.odd), 12}, {unsafe.Sizeof(r), 16},
	} {
		if c.got != c.want {
			t.Errorf("%d, want %d", c.got, c.want)
		}
	}
}

// blockInput turns bytes into groups of finite elements with parameters that
// the families could have chosen: the first one by its own rule, the others
// scaled away from there so that elements are clipped.
func blockInput(raw []byte, rule blockRule, group int) (w []float32, params []blockParams) {
	w = make([]float32, len(raw)/4/group*group)
	for i := range w {
		b := binary.LittleEndian.Uint32(raw[4*i:])
		if b&^signF32 >= infF32 {
			b &^= 1 << 30
		}
		w[i] = math.Float32frombits(b)
	}
	for at := 0; at < len(w); at += group {
		r := finiteRange(w[at : at+group])
		var c blockChoice
		switch rule {
		case ruleE2M1:
			mxfp4Chooser(CT32).choose(nil, r, &c)
		case ruleE2M1Down:
			mxfp4Chooser(ModelOpt).choose(nil, r, &c)
		case ruleE4M3:
			fp8Chooser(ModelOpt).choose(nil, r, &c)
		case ruleE4M3BF16:
			fp8Chooser(CT).choose(nil, r, &c)
		case ruleE4M3Times:
			fp8Chooser(DeepSeek).choose(nil, r, &c)
		default:
			k := int4Chooser{rule: rule, symmetric: rule == ruleIntSym, conv: map[blockRule]Convention{ruleIntMin: Own, ruleIntSym: Own, ruleIntZero: CT32, ruleIntZeroBF16: CT}[rule]}
			f := float32(1)
			if len(params)%3 == 1 {
				f = 0.6
			}
			k.fit(r.lo*f, r.hi*f, &c)
		}
		params = append(params, c.blockParams)
	}
	return w, params
}

// blockSeed is random bytes for groups of f32 numbers of many magnitudes, with
// ties and zeros among them.
func blockSeed(seed uint64, elements int) []byte {
	rng := rand.New(rand.NewPCG(seed, 3))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 6, 448, 464, 0.25, -0.75, 1.75, 3.5, 5, 2.5, 7.5, -8, 0x1p-149, -0x1p-149, 0x1p-126, math.MaxFloat32, -math.MaxFloat32}
	raw := make([]byte, 4*elements)
	for i := range elements {
		x := float32(rng.NormFloat64())
		switch seed % 4 {
		case 1:
			x = float32(float64(x) * math.Exp2(float64(rng.IntN(12)-6)))
		case 2:
			x = float32(math.Round(float64(x)*8) / 8)
		case 3:
			x = float32(float64(x) * math.Exp2(float64(rng.IntN(250)-125)))
		}
		if rng.IntN(16) == 0 && seed%4 != 0 {
			x = special[rng.IntN(len(special))]
		}
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(x))
	}
	return raw
}

// FuzzBlockEncode holds every set's kernel against the reference, rule by rule:
// codes, bins, sums and largest errors, bit for bit.
func FuzzBlockEncode(f *testing.F) {
	for seed := range uint64(8) {
		for rule := range uint8(rules) {
			f.Add(blockSeed(seed, 16*12), rule, uint8(seed), seed%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, rule8, group8 uint8, fresh bool) {
		rule, group := blockRule(rule8%uint8(rules)), 16*(1+int(group8%4))
		w, params := blockInput(raw, rule, group)
		var start blockSums
		if !fresh {
			for i := range 8 {
				start.w2[i], start.q2[i], start.wq[i], start.e2[i], start.worst[i] = float64(i), 0.1, -3, 1e-9, 1e-3*float64(i)
			}
		}
		wantCodes, wantBins, want := make([]byte, len(w)*rule.bits()/8), make([]byte, len(w)), start
		blockEncodeRef(rule, w, group, params, wantCodes, wantBins, &want)
		for _, set := range Available() {
			codes, codesIntact := guarded(len(wantCodes))
			bins, binsIntact := guarded(len(wantBins))
			sums := start
			set.blocks.encode(rule, w, group, params, codes, bins, &sums)
			if !codesIntact() || !binsIntact() {
				t.Fatalf("%s rule %d wrote outside of its output", set.Name, rule)
			}
			if string(codes) != string(wantCodes) {
				t.Fatalf("%s rule %d: codes: %s", set.Name, rule, firstDiff(codes, wantCodes))
			}
			if string(bins) != string(wantBins) {
				i := 0
				for bins[i] == wantBins[i] {
					i++
				}
				t.Fatalf("%s rule %d: bins: %s; element %v, parameters %+v", set.Name, rule, firstDiff(bins, wantBins), w[i], params[i/group])
			}
			if sums != want {
				t.Fatalf("%s rule %d: sums\n%v, want\n%v", set.Name, rule, sums, want)
			}
		}
	})
}

// FuzzBlockCount holds every set's histograms against the reference.
func FuzzBlockCount(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, 23, 24, 31, 32, 63, 64, 255, 256, 511, 512, 513, 1023, 1024, 2048, 5000} {
		raw := make([]byte, n)
		for i := range raw {
			raw[i] = byte(rng.Uint32())
		}
		for kind := range uint8(countKinds) {
			f.Add(raw, kind)
		}
	}
	// A value must come often for the counters of much weight to be used.
	for v := range 256 {
		f.Add(bytes.Repeat([]byte{byte(v)}, 3000), uint8(v))
		f.Add(bytes.Repeat([]byte{byte(v), byte(v), byte(v), byte(v), 0x5a}, 700), uint8(v/8))
	}
	f.Fuzz(func(t *testing.T, raw []byte, kind8 uint8) {
		kind := countKind(kind8 % uint8(countKinds))
		data, _ := guarded(len(raw)) // behind it stand other bytes
		for i, b := range raw {
			if data[i] = b; kind == countErrors {
				data[i] = b % ErrorBins
			}
		}
		want := [countBins]int64{3, 1 << 40, 0, 5}
		start := want
		countRef(kind, data, &want)
		for _, set := range Available() {
			got := start
			set.blocks.count(kind, data, &got)
			if got != want {
				t.Fatalf("%s: kind %d of %d bytes: %v, want %v", set.Name, kind, len(data), got, want)
			}
		}
	})
}

// FuzzBlockLoad holds every set's decoding and ranges against the reference.
func FuzzBlockLoad(f *testing.F) {
	for seed := range uint64(8) {
		for e := range uint8(3) {
			f.Add(blockSeed(seed, 16*9), e, uint8(seed))
		}
	}
	f.Add([]byte("\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80\x00\x80"), uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, raw []byte, e8, group8 uint8) {
		e, group := []Element{BF16, F16, F32}[e8%3], 16*(1+int(group8%9))
		groups := len(raw) / e.Size() / group
		n := groups * group
		want, ranges := make([]float32, n), make([]blockRange, groups)
		blockLoadRef(e, raw, want, group, ranges)
		for _, set := range Available() {
			got, gotRanges := make([]float32, n+1), make([]blockRange, groups+1)
			got[n], gotRanges[groups] = 42, blockRange{lo: 42}
			set.blocks.load(e, raw[:n*e.Size()], got[:n], group, gotRanges[:groups])
			for i, w := range want {
				if !sameF32(got[i], w) {
					t.Fatalf("%s: element %d is %v, want %v", set.Name, i, got[i], w)
				}
			}
			if got[n] != 42 || gotRanges[groups] != (blockRange{lo: 42}) {
				t.Fatalf("%s wrote outside of its output", set.Name)
			}
			for i, r := range ranges {
				g := gotRanges[i]
				if r.amax >= infF32 {
					if g.amax < infF32 {
						t.Fatalf("%s: group %d is finite, want it not", set.Name, i)
					}
					continue
				}
				if math.Float32bits(g.lo) != math.Float32bits(r.lo) || math.Float32bits(g.hi) != math.Float32bits(r.hi) || g.amax != r.amax || g.odd {
					t.Fatalf("%s: group %d spans %+v, want %+v", set.Name, i, g, r)
				}
			}
		}
	})
}

// FuzzBlockMass holds every set's sums of clipped mass against the reference.
func FuzzBlockMass(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(blockSeed(seed, 16*6), float64(seed%3)-1, 0.5*float64(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte, mid, limit float64) {
		w, _ := blockInput(raw, ruleE2M1, 16)
		start := [8]float64{1, 0.1, 0, 4}
		want := start
		blockMassRef(w, mid, limit, &want)
		for _, set := range Available() {
			got := start
			set.blocks.mass(w, mid, limit, &got)
			if got != want {
				t.Fatalf("%s: %v, want %v", set.Name, got, want)
			}
		}
	})
}

// FuzzRangeError holds every set's errors of int4 ranges against the reference.
func FuzzRangeError(f *testing.F) {
	for seed := range uint64(12) {
		for rule := range uint8(4) {
			f.Add(blockSeed(seed, 16*8), rule, uint8(seed))
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte, rule8, group8 uint8) {
		rule, group := ruleIntMin+blockRule(rule8%4), 16*(1+int(group8%8))
		w, params := blockInput(raw, rule, group)
		for i := range params {
			part := w[i*group : (i+1)*group]
			norm := rangeNorm(finiteRange(part).amax)
			if group8%2 == 1 {
				norm = min(norm*0x1p20, math.MaxFloat32) // errors beyond the table of powers
			}
			start := [][16]float32{{1, 0.1, 0, 4}, {2}, {}, {3}}[:1+int(group8%4)]
			candidates := make([]blockParams, len(start))
			for j := range candidates {
				candidates[j] = params[(i+j)%len(params)]
			}
			want := slices.Clone(start)
			rangeErrorRef(rule, part, candidates, norm, want)
			for _, set := range Available() {
				got := slices.Clone(start)
				set.blocks.rangeError(rule, part, candidates, norm, got)
				for j := range want {
					for lane := range want[j] {
						if !sameF32(got[j][lane], want[j][lane]) {
							t.Fatalf("%s rule %d: candidate %d: lane %d is %v, want %v; %+v", set.Name, rule, j, lane, got[j][lane], want[j][lane], candidates[j])
						}
					}
				}
			}
		}
	})
}
