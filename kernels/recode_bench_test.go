package kernels

import (
	"math"
	"testing"
	"time"
)

// BenchmarkRecode measures the choice of a codebook for an FP4 matrix, recoding with
// the whole record, and both, on one thread. bytes/s are those of the codes; "memcpy"
// is that rate over the one of copy() on the same data in the same run.
func BenchmarkRecode(b *testing.B) {
	m := fp4Of(b, gaussianBF16(2048, 4096, 1), Spec{Format: "nvfp4"})
	dst := make([]byte, len(m.Codes))
	for _, set := range Available() {
		r, err := set.ChooseRecoding(m, "sym", nil)
		if err != nil {
			b.Fatal(err)
		}
		for name, f := range map[string]func() error{
			"choose": func() error { _, err := set.ChooseRecoding(m, "sym", nil); return err },
			"recode": func() error { _, err := set.Recode(dst, m, r); return err },
		} {
			b.Run(set.Name+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(m.Codes)))
				copyRate := math.Inf(-1)
				for range 5 {
					start := time.Now()
					copy(dst, m.Codes)
					copyRate = max(copyRate, float64(len(dst))/time.Since(start).Seconds())
				}
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
				rate := float64(b.N) * float64(len(dst)) / b.Elapsed().Seconds()
				b.ReportMetric(2*rate/1e6, "Mweights/s")
				b.ReportMetric(rate/copyRate, "memcpy")
			})
		}
	}
}
