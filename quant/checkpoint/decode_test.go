package checkpoint

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"quantscope/kernels"
)

// sameF32 holds all NaNs equal and nothing else that differs in a bit.
func sameF32(a, b float32) bool {
	return a != a && b != b || math.Float32bits(a) == math.Float32bits(b)
}

// allCodes is every 8-bit code in order, which is every 4-bit code too.
func allCodes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// The byte formats decode to what torch and ml_dtypes say of every code.
func TestDecodeByteTables(t *testing.T) {
	c := mustOpen(t, "testdata/codecs_byte_tables.safetensors")
	for table, dt := range map[string]DType{"e4m3fn_to_f32": F8E4M3, "e5m2_to_f32": F8E5M2, "e8m0fnu_to_f32": F8E8M0, "e2m1_to_f32": F4} {
		w, ok := c.Lookup(table)
		if !ok {
			t.Fatalf("%s is not there", table)
		}
		raw := make([]byte, w.Size)
		if err := c.ReadAt(context.Background(), w, 0, raw); err != nil {
			t.Fatal(err)
		}
		want := make([]float32, w.Elements())
		if err := DecodeF32(want, F32, raw); err != nil {
			t.Fatal(err)
		}
		codes := allCodes()
		if dt == F4 { // code i in both nibbles of byte i, then each value twice
			codes = codes[:16]
			for i := range codes {
				codes[i] |= byte(i) << 4
			}
		}
		got := make([]float32, len(codes)*8/dt.Bits())
		if err := DecodeF32(got, dt, codes); err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if k := i * len(want) / len(got); !sameF32(v, want[k]) {
				t.Errorf("%s: code %#x is %v, want %v", dt, k, v, want[k])
			}
		}
	}
}

// The FNUZ formats have one exponent more of bias than the others, so every
// code that is finite there has half the value, but for 0x80, which is NaN.
// Their largest values come from codes that are not finite there
// (arXiv:2206.02915, section 3).
func TestDecodeFNUZ(t *testing.T) {
	for _, f := range []struct {
		dt      DType
		other   func(byte) float32
		largest float32
		least   float32
	}{
		{F8E4M3FNUZ, kernels.E4M3ToF32, 240, 0x1p-10},
		{F8E5M2FNUZ, kernels.E5M2ToF32, 57344, 0x1p-17},
	} {
		got := make([]float32, 256)
		if err := DecodeF32(got, f.dt, allCodes()); err != nil {
			t.Fatal(err)
		}
		for c, v := range got {
			half := f.other(byte(c)) / 2
			if finite := half-half == 0; c != 0x80 && finite && !sameF32(v, half) {
				t.Errorf("%s: code %#x is %v, want %v", f.dt, c, v, half)
			}
			if isNaN := v != v; isNaN != (c == 0x80) {
				t.Errorf("%s: code %#x is %v", f.dt, c, v)
			}
		}
		if got[0x7F] != f.largest || got[0xFF] != -f.largest || got[1] != f.least || got[0x40] != 1 {
			t.Errorf("%s: largest %v and %v, least %v, one %v", f.dt, got[0x7F], got[0xFF], got[1], got[0x40])
		}
	}
}

func TestDecodeWide(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		dt   DType
		raw  []byte
		want []float32
	}{
		{BF16, []byte{0x80, 0x3F, 0x20, 0xC0, 0x00, 0x80}, []float32{1, -2.5, float32(math.Copysign(0, -1))}},
		{F16, []byte{0x00, 0x3C, 0xFF, 0x7B, 0x01, 0x00, 0x00, 0xFC}, []float32{1, 65504, 0x1p-24, float32(math.Inf(-1))}},
		{I16, []byte{0xFF, 0xFF, 0x00, 0x80}, []float32{-1, -32768}},
		{U16, []byte{0xFF, 0xFF}, []float32{65535}},
		{F32, le.AppendUint32(nil, math.Float32bits(1.5)), []float32{1.5}},
		{I32, le.AppendUint32(nil, 1<<31), []float32{-1 << 31}},
		{U32, le.AppendUint32(nil, 1<<32-1), []float32{1 << 32}},
		{F64, le.AppendUint64(nil, math.Float64bits(1+0x1p-24)), []float32{1}}, // halfway, to even
		{I64, le.AppendUint64(nil, 1<<63), []float32{-1 << 63}},
		{U64, le.AppendUint64(nil, 1<<24+1), []float32{1 << 24}}, // halfway, to even
		{Bool, []byte{0, 1}, []float32{0, 1}},
		{I8, []byte{0x80, 0x7F}, []float32{-128, 127}},
		{U8, []byte{0xFF}, []float32{255}},
		{F4, nil, []float32{}},
	} {
		got := make([]float32, len(c.want))
		if err := DecodeF32(got, c.dt, c.raw); err != nil {
			t.Errorf("%s: %v", c.dt, err)
		}
		for i := range got {
			if !sameF32(got[i], c.want[i]) {
				t.Errorf("%s: element %d is %v, want %v", c.dt, i, got[i], c.want[i])
			}
		}
	}
}

func TestDecodeRefused(t *testing.T) {
	if err := DecodeF32(make([]float32, 1), C64, make([]byte, 8)); !errors.Is(err, ErrUnsupported) {
		t.Errorf("C64: %v", err)
	}
	if err := DecodeF32(nil, 0, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("no dtype: %v", err)
	}
	for d := F64; int(d) < len(dtypes); d++ {
		if d == C64 {
			continue
		}
		for _, n := range []int{0, 16*d.Bits()/8 - 1, 16*d.Bits()/8 + 1} {
			if err := DecodeF32(make([]float32, 16), d, make([]byte, n)); err == nil {
				t.Errorf("%s: 16 elements decoded from %d bytes", d, n)
			}
		}
	}
}

func TestAppendElement(t *testing.T) {
	le := binary.LittleEndian
	for _, c := range []struct {
		dt   DType
		raw  []byte
		want string
	}{
		{U64, le.AppendUint64(nil, math.MaxUint64), "18446744073709551615"},
		{I64, le.AppendUint64(nil, 1<<63), "-9223372036854775808"},
		{U32, le.AppendUint32(nil, math.MaxUint32), "4294967295"},
		{I32, le.AppendUint32(nil, 1<<31), "-2147483648"},
		{U16, []byte{0xFF, 0xFF}, "65535"},
		{I16, []byte{0x00, 0x80}, "-32768"},
		{U8, []byte{0xFF}, "255"},
		{I8, []byte{0x80}, "-128"},
		{Bool, []byte{0, 1}, "false true"},
		{F64, le.AppendUint64(nil, math.Float64bits(0.1)), "0.1"},
		{F32, le.AppendUint32(nil, math.Float32bits(0.1)), "0.1"},
		{BF16, []byte{0xC0, 0x7F, 0x80, 0x7F}, "NaN +Inf"},
		{F4, []byte{0x8F}, "-6 -0"},
		{C64, le.AppendUint32(le.AppendUint32(nil, math.Float32bits(1)), math.Float32bits(-2)), "(1-2i)"},
	} {
		var got []string
		for i := range len(c.raw) * 8 / c.dt.Bits() {
			text, err := AppendElement(nil, c.dt, c.raw, i)
			if err != nil {
				t.Errorf("%s: %v", c.dt, err)
			}
			got = append(got, string(text))
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s, want %s", c.dt, s, c.want)
		}
	}
	for _, i := range []int{-1, 2} {
		if _, err := AppendElement(nil, U16, make([]byte, 5), i); err == nil {
			t.Errorf("element %d of 2 was there", i)
		}
	}
	if _, err := AppendElement(nil, 0, make([]byte, 5), 0); err == nil {
		t.Error("an element without a dtype was there")
	}
}

func BenchmarkDecodeF32(b *testing.B) {
	const n = 1 << 16
	dst := make([]float32, n)
	for _, dt := range []DType{BF16, F16, F32, F8E4M3, F4} {
		raw := make([]byte, n*dt.Bits()/8)
		b.Run(dt.String(), func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				if err := DecodeF32(dst, dt, raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
