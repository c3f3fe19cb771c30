package kernels

import (
	"testing"
	"time"
)

// BenchmarkConvert converts 16 Mi elements, more than caches hold, on one
// thread. bytes/s count what is read and what is written; "memcpy" is that
// rate over the one at which copying reads and writes in the same run.
func BenchmarkConvert(b *testing.B) {
	const n = 1 << 24
	floats, stored := make([]float32, n), make([]byte, 4*n)
	for i := range floats {
		floats[i] = float32(i%4096-2048) / 512
	}
	if err := EncodeFloats(stored[:2*n], BF16, floats); err != nil {
		b.Fatal(err)
	}
	run := func(name string, bytes int, convert func() error) {
		b.Run(name, func(b *testing.B) {
			copied := MeasureMemcpy(1<<26, 30*time.Millisecond)
			b.SetBytes(int64(bytes))
			for b.Loop() {
				if err := convert(); err != nil {
					b.Fatal(err)
				}
			}
			rate := float64(bytes) * float64(b.N) / b.Elapsed().Seconds()
			copied = max(copied, MeasureMemcpy(1<<26, 30*time.Millisecond))
			b.ReportMetric(rate/(2*copied), "memcpy")
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Melements/s")
		})
	}
	for _, s := range Available() {
		for _, d := range decoders {
			run(s.Name+"/decode-"+d.name, 4*n+n*d.bits/8, func() error { return d.decode(s, floats, stored[:n*d.bits/8]) })
		}
		for _, e := range encoders {
			if e.bits < 32 {
				run(s.Name+"/encode-"+e.name, 4*n+n*e.bits/8, func() error { return e.encode(s, stored[:n*e.bits/8], floats) })
			}
		}
		run(s.Name+"/round-bf16", 8*n, func() error { s.RoundBF16(floats); return nil })
		run(s.Name+"/pack-nibbles", n+n/2, func() error { return s.PackNibbles(stored[:n/2], stored[n:2*n]) })
		run(s.Name+"/unpack-nibbles", n+n/2, func() error { return s.UnpackNibbles(stored[n:2*n], stored[:n/2]) })
	}
}
