package kernels

import (
	"math"
	"testing"
)

// What libraries say of the same inputs, where they agree. They part at −0
// (ml_dtypes code 8, the others 0) and at NaN; F32ToE2M1 says which it follows.
func TestE2M1Peers(t *testing.T) {
	minusZero := func(x float32) bool { return x == 0 && math.Signbit(float64(x)) }
	check := func(name string, x float32, want byte) {
		t.Helper()
		if x != x {
			return
		}
		if minusZero(x) && want == 8 {
			want = 0
		}
		if got := F32ToE2M1(x); got != want {
			t.Errorf("%s: F32ToE2M1(%v, bits %#x) = %d, want %d", name, x, math.Float32bits(x), got, want)
		}
	}
	g := golden(t, "golden/codecs_bf16_exhaustive.safetensors")
	all := need(t, g, "e2m1_ml_dtypes").data
	if len(all) != 1<<16 {
		t.Fatalf("%d codes for the bf16 numbers", len(all))
	}
	for i, want := range all {
		check("e2m1_ml_dtypes", BF16ToF32(uint16(i)), want)
	}
	g = golden(t, "golden/codecs_e2m1_grid.safetensors")
	x := need(t, g, "x").f32()
	for _, name := range []string{"code_ml_dtypes", "code_modelopt"} {
		codes := need(t, g, name).data
		if len(codes) != len(x) {
			t.Fatalf("%s: %d codes for %d numbers", name, len(codes), len(x))
		}
		for i, want := range codes {
			check(name, x[i], want)
		}
	}
}

// ModelOpt's table of values differs by its +0 for code 8, which decoding its
// tensors follows.
func TestE2M1ValuesOfModelOpt(t *testing.T) {
	want := need(t, golden(t, "golden/codecs_byte_tables.safetensors"), "e2m1_to_f32_modelopt").f32()
	if len(want) != 16 {
		t.Fatalf("%d values", len(want))
	}
	codes := make([]byte, 8)
	for i := range codes {
		codes[i] = byte(2*i) | byte(2*i+1)<<4
	}
	got := make([]float32, 16)
	if err := DequantizeNVFP4(got, codes, []byte{F32ToE4M3(1)}, 1, ModelOpt, 1, 16); err != nil {
		t.Fatal(err)
	}
	for c := range want {
		if math.Float32bits(got[c]) != math.Float32bits(want[c]) {
			t.Errorf("code %d decodes to %v, want %v", c, got[c], want[c])
		}
		if v := E2M1ToF32(byte(c)); v != want[c] { // ±0 are equal here
			t.Errorf("code %d is %v, want %v", c, v, want[c])
		}
	}
}

// ml_dtypes' cast to E8M0, for positive finite numbers and NaN. It gives NaN for
// 0 and for negative numbers, where F32ToE8M0 gives torch's codes.
func TestE8M0OfMLDtypes(t *testing.T) {
	g := golden(t, "golden/codecs_e8m0_cast.safetensors")
	codes, compared := need(t, g, "ml_dtypes").data, 0
	for i, x := range need(t, g, "x").f32() {
		if !(x > 0 && x <= math.MaxFloat32) && x == x {
			continue
		}
		compared++
		if got := F32ToE8M0(x); got != codes[i] {
			t.Errorf("F32ToE8M0(%v) = %d, want %d", x, got, codes[i])
		}
	}
	if compared < len(codes)/2 {
		t.Errorf("only %d of %d are compared", compared, len(codes))
	}
}
