package kernels

import (
	"math"
	"testing"
)

func TestDecodeTables(t *testing.T) {
	g := golden(t, "golden/codecs_byte_tables.safetensors")
	for _, c := range []struct {
		name   string
		decode func(byte) float32
	}{
		{"e4m3fn_to_f32", E4M3ToF32},
		{"e5m2_to_f32", E5M2ToF32},
		{"e8m0fnu_to_f32", E8M0ToF32},
		{"e2m1_to_f32", E2M1ToF32},
	} {
		for i, want := range need(t, g, c.name).f32() {
			if got := c.decode(byte(i)); !sameF32(got, want) {
				t.Errorf("%s: code %#x is %v, want %v", c.name, i, got, want)
			}
		}
	}
}

// f8Codec is an encoder with its column in the reference data and the code
// that stands for NaN where the payload and the sign are free.
var f8Codecs = []struct {
	name   string
	encode func(float32) byte
	decode func(byte) float32
}{
	{"e4m3fn_torch_cast", CastE4M3, E4M3ToF32},
	{"e4m3fn_saturated", F32ToE4M3, E4M3ToF32},
	{"e5m2_torch_cast", CastE5M2, E5M2ToF32},
	{"e5m2_saturated", F32ToE5M2, E5M2ToF32},
}

func checkF8(t *testing.T, name string, x float32, got, want byte, decode func(byte) float32) {
	t.Helper()
	gv, wv := decode(got), decode(want)
	if got != want && !(gv != gv && wv != wv) {
		t.Errorf("%s(%v, bits %#x) = %#x, want %#x", name, x, math.Float32bits(x), got, want)
	}
}

func TestEncodeEveryBF16(t *testing.T) {
	g := golden(t, "golden/codecs_bf16_exhaustive.safetensors")
	for _, c := range f8Codecs {
		for i, want := range need(t, g, c.name).data {
			x := BF16ToF32(uint16(i))
			checkF8(t, c.name, x, c.encode(x), want, c.decode)
		}
	}
	// The peers' E2M1 agree but for −0 and NaN, where ours is
	// compressed-tensors'.
	for i, want := range need(t, g, "e2m1_compressed_tensors").data {
		if x := BF16ToF32(uint16(i)); F32ToE2M1(x) != want {
			t.Errorf("F32ToE2M1(%v, bf16 %#x) = %d, want %d", x, i, F32ToE2M1(x), want)
		}
	}
	for i, want := range need(t, g, "e2m1_modelopt").data {
		if x := BF16ToF32(uint16(i)); x == x && F32ToE2M1(x) != want {
			t.Errorf("F32ToE2M1(%v, bf16 %#x) = %d, want %d", x, i, F32ToE2M1(x), want)
		}
	}
}

func TestEncodeF32Grid(t *testing.T) {
	g := golden(t, "golden/codecs_f32_rounding.safetensors")
	y := need(t, g, "y").f32()
	for _, c := range f8Codecs {
		want := need(t, g, "y_"+c.name).data
		for i, x := range y {
			checkF8(t, c.name, x, c.encode(x), want[i], c.decode)
		}
	}
	bf16, f16 := need(t, g, "bf16_bits").u16(), need(t, g, "f16_bits").u16()
	for i, b := range need(t, g, "f32_bits").i32() {
		x := math.Float32frombits(uint32(b))
		if got := F32ToBF16(x); got != bf16[i] && !(x != x && BF16ToF32(got) != BF16ToF32(got)) {
			t.Errorf("F32ToBF16(%v) = %#x, want %#x", x, got, bf16[i])
		}
		if got := F32ToF16(x); got != f16[i] && !(x != x && F16ToF32(got) != F16ToF32(got)) {
			t.Errorf("F32ToF16(%v) = %#x, want %#x", x, got, f16[i])
		}
	}

	g = golden(t, "golden/codecs_e2m1_grid.safetensors")
	code := need(t, g, "code_compressed_tensors").data
	for i, x := range need(t, g, "x").f32() {
		if got := F32ToE2M1(x); got != code[i] {
			t.Errorf("F32ToE2M1(%v) = %d, want %d", x, got, code[i])
		}
	}

	g = golden(t, "golden/codecs_e8m0_cast.safetensors")
	code = need(t, g, "torch").data
	for i, x := range need(t, g, "x").f32() {
		if got := F32ToE8M0(x); x > 0 && x <= math.MaxFloat32 && got != code[i] {
			t.Errorf("F32ToE8M0(%v) = %d, want %d", x, got, code[i])
		}
	}
}

// Every 16-bit float survives the way to f32 and back; so does every code of
// the small formats.
func TestCodecsRoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		if x := BF16ToF32(h); x == x && F32ToBF16(x) != h {
			t.Errorf("bf16 %#x came back as %#x", h, F32ToBF16(x))
		} else if x != x && BF16ToF32(F32ToBF16(x)) == BF16ToF32(F32ToBF16(x)) {
			t.Errorf("bf16 NaN %#x came back as a number", h)
		}
		if x := F16ToF32(h); x == x && F32ToF16(x) != h {
			t.Errorf("f16 %#x came back as %#x", h, F32ToF16(x))
		} else if x != x && F16ToF32(F32ToF16(x)) == F16ToF32(F32ToF16(x)) {
			t.Errorf("f16 NaN %#x came back as a number", h)
		}
	}
	for i := range 256 {
		c := byte(i)
		if x := E4M3ToF32(c); x == x && (F32ToE4M3(x) != c || CastE4M3(x) != c) {
			t.Errorf("e4m3 %#x came back as %#x", c, F32ToE4M3(x))
		}
		if x := E5M2ToF32(c); x == x && CastE5M2(x) != c {
			t.Errorf("e5m2 %#x came back as %#x", c, CastE5M2(x))
		}
		if x := E8M0ToF32(c); x == x && F32ToE8M0(x) != c {
			t.Errorf("e8m0 %d came back as %d", c, F32ToE8M0(x))
		}
	}
}

// The value table gives the value of the code table, without −0.
func TestNearestE2M1(t *testing.T) {
	for i, c := range e2m1Codes {
		if want := e2m1Values[c]; e2m1Nearest[i] != want || math.Signbit(float64(e2m1Nearest[i])) != (want < 0) {
			t.Fatalf("cell %d: value %v for code %d", i, e2m1Nearest[i], c)
		}
	}
}

func TestIntegerCodecs(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		x          float32
		int4, int8 int8
	}{
		{0, 0, 0}, {0.5, 0, 0}, {1.5, 2, 2}, {-2.5, -2, -2}, {7.49, 7, 7}, {7.5, 7, 8}, {-8.5, -8, -8}, {-9, -8, -9},
		{127.5, 7, 127}, {-1e9, -8, -128}, {inf, 7, 127}, {-inf, -8, -128}, {float32(math.NaN()), 0, 0},
	} {
		if got := F32ToInt4(c.x); got != c.int4 {
			t.Errorf("F32ToInt4(%v) = %d, want %d", c.x, got, c.int4)
		}
		if got := F32ToInt8(c.x); got != c.int8 {
			t.Errorf("F32ToInt8(%v) = %d, want %d", c.x, got, c.int8)
		}
	}
	for v := int8(-8); v < 8; v++ {
		if got := Int4ToInt8(byte(v) & 15); got != v {
			t.Errorf("Int4ToInt8(%#x) = %d, want %d", byte(v)&15, got, v)
		}
	}
}

func TestSlices(t *testing.T) {
	want := []float32{0, -1.5, 0x1p-20, 300, float32(math.Inf(-1))}
	for _, e := range []Element{BF16, F16, F32} {
		raw := make([]byte, len(want)*e.Size())
		got := make([]float32, len(want))
		if err := EncodeFloats(raw, e, want); err != nil {
			t.Fatal(err)
		}
		if err := DecodeFloats(got, e, raw); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%v: element %d is %v, want %v", e, i, got[i], want[i])
			}
		}
		if DecodeFloats(got, e, raw[1:]) == nil || EncodeFloats(raw[1:], e, want) == nil {
			t.Errorf("%v: a short slice was accepted", e)
		}
	}
	if DecodeFloats(nil, 9, nil) == nil {
		t.Error("an unknown element was accepted")
	}
	x := []float32{1.00390625, -3}
	if RoundBF16(x); x[0] != 1 || x[1] != -3 {
		t.Errorf("rounded to %v", x)
	}
}
