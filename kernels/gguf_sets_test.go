package kernels

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// ggufDecoded are the types that DecodeGGUF knows.
func ggufDecoded() (types []GGUFType) {
	for t := range GGUFType(64) {
		if t.Decodes() {
			types = append(types, t)
		}
	}
	return types
}

// checkGGUF decodes the whole blocks of raw as every type with every set.
func checkGGUF(t *testing.T, raw []byte, off int) {
	t.Helper()
	for _, typ := range ggufDecoded() {
		block, bytes := typ.Block()
		n := min(len(raw)/bytes, 40)
		src := raw[:n*bytes]
		want := make([]float32, n*block)
		if err := DecodeGGUF(want, typ, src); err != nil {
			t.Fatal(err)
		}
		for _, s := range Available() {
			got, intact := guardedFloats(len(want), off)
			if err := s.DecodeGGUF(got, typ, src); err != nil {
				t.Fatal(err)
			}
			for i := range got {
				if !alike(got[i], want[i]) {
					t.Fatalf("%s: %s element %d of %d is %v, want %v", s.Name, typ, i, len(got), got[i], want[i])
				}
			}
			if !intact() {
				t.Fatalf("%s: %s wrote outside of its %d elements", s.Name, typ, len(got))
			}
		}
	}
}

func TestGGUFOfSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 9))
	for i := range 60 {
		raw := make([]byte, 7+60*i)
		for j := range raw {
			raw[j] = byte(rng.Uint32())
		}
		checkGGUF(t, raw[i%7:], i%17)
	}
	// Every byte in every place: 256 blocks of each type that are all the same byte.
	for b := range 256 {
		raw := make([]byte, 3*210)
		for j := range raw {
			raw[j] = byte(b)
		}
		checkGGUF(t, raw, b%9)
	}
	for _, s := range Available() {
		for _, typ := range []GGUFType{GGUFI8, 41, 42, 1 << 30} {
			if err := s.DecodeGGUF(make([]float32, 32), typ, make([]byte, 32)); err == nil {
				t.Errorf("%s decodes %s", s.Name, typ)
			}
		}
		for _, c := range [][2]int{{31, 18}, {32, 17}, {32, 36}, {64, 18}, {0, 18}} {
			if err := s.DecodeGGUF(make([]float32, c[0]), GGUFQ4_0, make([]byte, c[1])); err == nil {
				t.Errorf("%s takes %d bytes for %d elements", s.Name, c[1], c[0])
			}
		}
		if err := s.DecodeGGUF(nil, GGUFQ4_0, nil); err != nil {
			t.Errorf("%s: no elements: %v", s.Name, err)
		}
	}
}

func FuzzGGUFOfSets(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add(make([]byte, 1000), uint8(3))
	rng := rand.New(rand.NewPCG(6, 11))
	for i := range uint8(12) {
		raw := make([]byte, 700+60*int(i))
		for j := range raw {
			raw[j] = byte(rng.Uint32())
		}
		f.Add(raw, i)
	}
	f.Fuzz(func(t *testing.T, raw []byte, off uint8) { checkGGUF(t, raw, int(off%17)) })
}

// BenchmarkGGUF reports the weights/s of a thread that decodes panels, beside the
// definition's.
func BenchmarkGGUF(b *testing.B) {
	const n = 1 << 15
	dst := make([]float32, n)
	for _, typ := range ggufDecoded() {
		block, bytes := typ.Block()
		src := make([]byte, n/block*bytes)
		rng := rand.New(rand.NewPCG(6, 10))
		for i := range src {
			src[i] = byte(rng.Uint32()) &^ 0x40 // no scale is huge
		}
		for _, s := range Available() {
			b.Run(fmt.Sprintf("%s/%s", typ, s.Name), func(b *testing.B) {
				benchDecode(b, n, func() error { return s.DecodeGGUF(dst, typ, src) })
			})
		}
	}
}

// benchDecode reports the best rate of decoding n weights.
func benchDecode(b *testing.B, n int, decode func() error) {
	var failed error
	best := bestOf(b, func() { failed = errors.Join(failed, decode()) })
	if failed != nil {
		b.Fatal(failed)
	}
	b.ReportMetric(float64(n)/best.Seconds()/1e9, "Gweights/s")
}

// Any bytes for any number of elements are decoded, or refused where they do not fit.
func FuzzGGUFDecode(f *testing.F) {
	f.Add([]byte{}, uint32(0), uint16(0))
	f.Add(make([]byte, 66), uint32(16), uint16(256))
	f.Add(make([]byte, 67), uint32(35), uint16(256))
	f.Add(make([]byte, 36), uint32(40), uint16(65))
	f.Fuzz(func(t *testing.T, raw []byte, number uint32, n uint16) {
		typ := GGUFType(number)
		block, size := typ.Block()
		fits := typ.Decodes() && int(n)%block == 0 && int(n)/block*size == len(raw)
		if err := DecodeGGUF(make([]float32, n), typ, raw); (err == nil) != fits {
			t.Errorf("%s, %d bytes for %d elements: %v", typ, len(raw), n, err)
		}
		turned := append([]byte(nil), raw...)
		if err := errors.Join(SwapGGUF(typ, turned), SwapGGUF(typ, turned)); err == nil && string(turned) != string(raw) {
			t.Errorf("%s: turned twice, %x is %x", typ, raw, turned)
		}
	})
}

func TestGGUFDecodingAllocatesNothing(t *testing.T) {
	for _, typ := range ggufDecoded() {
		block, size := typ.Block()
		dst, src := make([]float32, block), make([]byte, size)
		for _, s := range Available() {
			if n := testing.AllocsPerRun(3, func() { _ = s.DecodeGGUF(dst, typ, src) }); n > 0 {
				t.Errorf("%s: %s: %v allocations", s.Name, typ, n)
			}
		}
	}
}
