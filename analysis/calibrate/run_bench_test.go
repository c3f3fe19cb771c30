package calibrate

import (
	"testing"
	"time"
)

// BenchmarkRun calibrates and quantizes the 240 experts of the demo on all of its
// text, codes written and synced.
func BenchmarkRun(b *testing.B) {
	ref := demoReference(b)
	variants := []string{"int4-g128+gptq", "nvfp4+imatrix"}
	if testing.Short() { // that it runs at all
		variants = variants[:1]
	}
	for _, v := range variants {
		b.Run(v, func(b *testing.B) {
			s := setup(b, ref, v, "", 0)
			weights := int64(0)
			for i := range s.Matrices {
				weights += int64(s.Matrices[i].Rows) * int64(s.Matrices[i].Cols)
			}
			var spent time.Duration
			for b.Loop() {
				began := time.Now()
				into(b, s, b.TempDir(), Sink{})
				spent += time.Since(began)
			}
			each := spent.Seconds() / float64(b.N)
			b.ReportMetric(float64(s.Corpus.Tokens())*float64(len(ref.Arch.Layers)+len(ref.Arch.MTP))/each/1e3, "ktoken-layers/s")
			b.ReportMetric(float64(weights)/each/1e6, "Mweights/s")
		})
	}
}
