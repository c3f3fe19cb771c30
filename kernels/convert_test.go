package kernels

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The conversions, by what they turn into what; bits are those of a stored
// element.
var (
	decoders = []struct {
		name   string
		bits   int
		decode func(s Set, dst []float32, src []byte) error
		scalar func(src []byte, i int) float32
	}{
		{"bf16", 16, func(s Set, dst []float32, src []byte) error { return s.DecodeFloats(dst, BF16, src) },
			func(src []byte, i int) float32 { return BF16ToF32(binary.LittleEndian.Uint16(src[2*i:])) }},
		{"f16", 16, func(s Set, dst []float32, src []byte) error { return s.DecodeFloats(dst, F16, src) },
			func(src []byte, i int) float32 { return F16ToF32(binary.LittleEndian.Uint16(src[2*i:])) }},
		{"f32", 32, func(s Set, dst []float32, src []byte) error { return s.DecodeFloats(dst, F32, src) },
			func(src []byte, i int) float32 {
				return math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
			}},
		{"e4m3", 8, Set.DecodeE4M3, func(src []byte, i int) float32 { return E4M3ToF32(src[i]) }},
		{"e2m1", 4, Set.DecodeE2M1, func(src []byte, i int) float32 { return E2M1ToF32(src[i/2] >> (i % 2 * 4)) }},
	}
	encoders = []struct {
		name   string
		bits   int
		encode func(s Set, dst []byte, src []float32) error
		scalar func(x float32) uint32
	}{
		{"bf16", 16, func(s Set, dst []byte, src []float32) error { return s.EncodeFloats(dst, BF16, src) },
			func(x float32) uint32 { return uint32(F32ToBF16(x)) }},
		{"f16", 16, func(s Set, dst []byte, src []float32) error { return s.EncodeFloats(dst, F16, src) },
			func(x float32) uint32 { return uint32(F32ToF16(x)) }},
		{"f32", 32, func(s Set, dst []byte, src []float32) error { return s.EncodeFloats(dst, F32, src) }, math.Float32bits},
		{"bf16 in place", 32, func(s Set, dst []byte, src []float32) error {
			x := append([]float32{7, 7}, src...)
			x = append(x, 7, 7)
			s.RoundBF16(x[2 : 2+len(src)])
			if x[0] != 7 || x[1] != 7 || x[2+len(src)] != 7 || x[3+len(src)] != 7 {
				return errors.New("rounded what was not given")
			}
			return Reference().EncodeFloats(dst, F32, x[2:2+len(src)])
		}, func(x float32) uint32 { return math.Float32bits(roundBF16(x)) }},
		{"e4m3", 8, Set.EncodeE4M3, func(x float32) uint32 { return uint32(F32ToE4M3(x)) }},
		{"e2m1", 4, Set.EncodeE2M1, func(x float32) uint32 { return uint32(F32ToE2M1(x)) }},
	}
)

// storedBytes is the length of n elements.
func storedBytes(n, bits int) int { return ceilDiv(n*bits, 8) }

// guardedFloats is a slice of n numbers between canaries, off elements further
// in than their end, and a check that these still stand.
func guardedFloats(n, off int) (inner []float32, intact func() bool) {
	const pad, mark = 32, -98765
	whole := make([]float32, n+2*pad+off)
	for i := range whole {
		whole[i] = mark
	}
	return whole[pad+off : pad+off+n : pad+off+n], func() bool {
		for i, x := range whole {
			if (i < pad+off || i >= pad+off+n) && x != mark {
				return false
			}
		}
		return true
	}
}

// checkDecoders decodes raw with every set and compares all bits with the
// scalar functions.
func checkDecoders(t *testing.T, raw []byte, off int) {
	t.Helper()
	before := bytes.Clone(raw)
	for _, d := range decoders {
		n := len(raw) * 8 / d.bits
		if d.bits == 4 && len(raw) > 0 {
			n -= off & 1
		}
		src := raw[:storedBytes(n, d.bits)]
		for _, s := range Available() {
			dst, intact := guardedFloats(n, off)
			if err := d.decode(s, dst, src); err != nil {
				t.Fatal(err)
			}
			for i, got := range dst {
				if want := d.scalar(src, i); math.Float32bits(got) != math.Float32bits(want) {
					t.Fatalf("%s: %s element %d of %d is %x, want %x", s.Name, d.name, i, n, math.Float32bits(got), math.Float32bits(want))
				}
			}
			if !intact() || !bytes.Equal(raw, before) {
				t.Fatalf("%s: %s wrote outside of its %d elements", s.Name, d.name, n)
			}
		}
	}
}

// checkEncoders encodes x with every set and compares with the scalar
// functions.
func checkEncoders(t *testing.T, x []float32) {
	t.Helper()
	for _, e := range encoders {
		want := make([]byte, storedBytes(len(x), e.bits))
		for i, v := range x {
			c := e.scalar(v)
			for b := 0; b < max(e.bits, 8); b += 8 {
				want[i*e.bits/8+b/8] |= byte(c >> b << (i * e.bits % 8))
			}
		}
		for _, s := range Available() {
			got, intact := guarded(len(want))
			if err := e.encode(s, got, x); err != nil {
				t.Fatalf("%s: %s: %v", s.Name, e.name, err)
			}
			if !bytes.Equal(got, want) {
				for i := range x {
					if at := i * e.bits / 8; got[at] != want[at] {
						t.Fatalf("%s: %s of %x (element %d of %d): byte %#x, want %#x", s.Name, e.name, math.Float32bits(x[i]), i, len(x), got[at], want[at])
					}
				}
				t.Fatalf("%s: %s: %s", s.Name, e.name, firstDiff(got, want))
			}
			if !intact() {
				t.Fatalf("%s: %s wrote outside of its %d elements", s.Name, e.name, len(x))
			}
		}
	}
}

// checkNibblePacking packs and unpacks with every set.
func checkNibblePacking(t *testing.T, codes []byte) {
	t.Helper()
	want := make([]byte, ceilDiv(len(codes), 2))
	for i, c := range codes {
		want[i/2] |= c & 15 << (4 * (i % 2))
	}
	for _, s := range Available() {
		packed, intact := guarded(len(want))
		if err := s.PackNibbles(packed, codes); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(packed, want) || !intact() {
			t.Fatalf("%s: %d codes packed: %s, intact %v", s.Name, len(codes), firstDiff(packed, want), intact())
		}
		got, intact := guarded(len(codes))
		if err := s.UnpackNibbles(got, packed); err != nil {
			t.Fatal(err)
		}
		for i, c := range codes {
			if got[i] != c&15 {
				t.Fatalf("%s: code %d of %d is %d, want %d", s.Name, i, len(codes), got[i], c&15)
			}
		}
		if !intact() {
			t.Fatalf("%s: unpacking %d codes wrote outside", s.Name, len(codes))
		}
	}
}

// Every stored pattern of 16, 8 and 4 bits, NaN payloads included; neighbours
// in memory differ, so that no lane can stand for another.
func TestDecodeEveryPattern(t *testing.T) {
	raw := make([]byte, 1<<17)
	for i := range 1 << 16 {
		binary.LittleEndian.PutUint16(raw[2*i:], uint16(i))
	}
	checkDecoders(t, raw, 0)
	checkNibblePacking(t, raw)
}

// Every upper half of an f32 with the lower halves around which rounding turns.
func TestEncodeAroundEveryBF16(t *testing.T) {
	for _, low := range []uint32{0, 1, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xffff} {
		x := make([]float32, 1<<16)
		for i := range x {
			x[i] = math.Float32frombits(uint32(i)<<16 | low)
		}
		checkEncoders(t, x)
	}
}

// Every length around the steps of the assembly, at odd places of memory.
func TestConvertLengths(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	raw := make([]byte, 400)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	x := make([]float32, 200)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * 4)
	}
	for n := range 140 {
		off := n % 9
		checkDecoders(t, raw[off:off+n], off)
		checkEncoders(t, x[off:off+n])
		checkNibblePacking(t, raw[off:off+n])
	}
}

func TestConvertRefusesLengths(t *testing.T) {
	for _, s := range Available() {
		for i, err := range []error{
			s.DecodeE4M3(make([]float32, 3), make([]byte, 4)),
			s.EncodeE4M3(make([]byte, 3), make([]float32, 4)),
			s.DecodeE2M1(make([]float32, 3), make([]byte, 1)),
			s.EncodeE2M1(make([]byte, 3), make([]float32, 4)),
			s.PackNibbles(make([]byte, 1), make([]byte, 3)),
			s.UnpackNibbles(make([]byte, 4), make([]byte, 1)),
			s.DecodeFloats(make([]float32, 3), BF16, make([]byte, 5)),
			s.EncodeFloats(make([]byte, 5), F32, make([]float32, 1)),
		} {
			if !errors.Is(err, ErrShape) {
				t.Errorf("%s: case %d: %v", s.Name, i, err)
			}
		}
	}
}

// What the libraries give, through every set.
func TestConvertGoldens(t *testing.T) {
	g := golden(t, "golden/codecs_bf16_exhaustive.safetensors")
	x := make([]float32, 1<<16)
	for i := range x {
		x[i] = BF16ToF32(uint16(i))
	}
	e4m3 := need(t, g, "e4m3fn_saturated").data
	e2m1 := need(t, g, "e2m1_compressed_tensors").data
	table := need(t, golden(t, "golden/codecs_byte_tables.safetensors"), "e4m3fn_to_f32").f32()
	rounding := golden(t, "golden/codecs_f32_rounding.safetensors")
	bf16, f16 := need(t, rounding, "bf16_bits").data, need(t, rounding, "f16_bits").data
	var y []float32
	for _, b := range need(t, rounding, "f32_bits").i32() {
		y = append(y, math.Float32frombits(uint32(b)))
	}
	for _, s := range Available() {
		codes, packed, nibbles := make([]byte, len(x)), make([]byte, len(x)/2), make([]byte, len(x))
		values, b, h := make([]float32, 256), make([]byte, 2*len(y)), make([]byte, 2*len(y))
		if err := errors.Join(
			s.EncodeE4M3(codes, x), s.EncodeE2M1(packed, x), s.UnpackNibbles(nibbles, packed),
			s.DecodeE4M3(values, allBytes()), s.EncodeFloats(b, BF16, y), s.EncodeFloats(h, F16, y),
		); err != nil {
			t.Fatal(err)
		}
		for i := range x {
			checkF8(t, s.Name+" e4m3", x[i], codes[i], e4m3[i], E4M3ToF32)
			if nibbles[i] != e2m1[i] {
				t.Fatalf("%s: e2m1 of %v is %d, want %d", s.Name, x[i], nibbles[i], e2m1[i])
			}
		}
		for i, want := range table {
			if !sameF32(values[i], want) {
				t.Errorf("%s: e4m3 code %#x is %v, want %v", s.Name, i, values[i], want)
			}
		}
		for i, v := range y {
			if v == v && (!bytes.Equal(b[2*i:2*i+2], bf16[2*i:2*i+2]) || !bytes.Equal(h[2*i:2*i+2], f16[2*i:2*i+2])) {
				t.Errorf("%s: 16 bits of %x: bf16 %x, want %x; f16 %x, want %x", s.Name, v, b[2*i:2*i+2], bf16[2*i:2*i+2], h[2*i:2*i+2], f16[2*i:2*i+2])
			}
		}
	}
}

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

func FuzzConvert(f *testing.F) {
	rng := rand.New(rand.NewPCG(12, 12))
	for n := range 67 {
		raw := make([]byte, 4*n)
		for i := range n {
			binary.LittleEndian.PutUint32(raw[4*i:], rng.Uint32())
		}
		f.Add(raw, uint8(n))
	}
	for _, x := range []float32{0, float32(math.Copysign(0, -1)), 1e-45, 0x1p-126, math.MaxFloat32, float32(math.Inf(-1)), float32(math.NaN()), 448, 464, 0.25, 5, 65520} {
		f.Add(bytes.Repeat(binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)), 40), uint8(3))
	}
	// Every lane has what is rounded or kept in a way of its own: NaNs by sign and
	// payload, and ties of each format with a neighbour to either side.
	for n := range 24 {
		raw := make([]byte, 0, 4*160)
		for len(raw) < cap(raw) {
			v := rng.Uint32() & signF32
			switch rng.IntN(4) {
			case 0:
				v |= infF32 | 1<<rng.IntN(23) // NaN
			case 1:
				v |= infF32 - uint32(rng.IntN(2)) // the ends
			default:
				// a mantissa that ends in a 1 below the last place of bf16, f16, E4M3 or E2M1, an
				// exponent for which the format may be subnormal, and one place more or less
				below := []int{15, 12, 19, 21}[rng.IntN(4)] + rng.IntN(3)
				v |= uint32(127-26+rng.IntN(44))<<23 | rng.Uint32()&(1<<23-1)>>below<<below | 1<<min(below, 22)
				v += uint32(rng.IntN(3)) - 1
			}
			raw = binary.LittleEndian.AppendUint32(raw, v)
		}
		f.Add(raw, uint8(n))
	}
	f.Fuzz(func(t *testing.T, raw []byte, off uint8) {
		raw = raw[:len(raw)&^3]
		checkDecoders(t, raw, int(off%9))
		checkNibblePacking(t, raw)
		x := make([]float32, len(raw)/4)
		decodeF32Ref(x, raw)
		checkEncoders(t, x)
	})
}

// Each set in assembly has a conversion of its own for everything; a set that
// fell back to the reference would pass every other test.
func TestConvertSetsAreDistinct(t *testing.T) {
	ref := fmt.Sprintf("%p %p", Reference().convert.decodeBF16, Reference().gemm.tile)
	for _, s := range Available()[1:] {
		if got := fmt.Sprintf("%p %p", s.convert.decodeBF16, s.gemm.tile); got == ref {
			t.Errorf("%s has the reference's kernels", s.Name)
		}
	}
}
