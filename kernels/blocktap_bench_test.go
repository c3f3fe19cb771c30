package kernels

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"
)

// BenchmarkBlocks measures each format and method with the whole tap record,
// codes and scales written, on one thread, whole matrices. bytes/s are source
// bytes; "memcpy" is that rate over the one of copy() on the same data in the
// same run. Where a round would take long it takes fewer rows.
func BenchmarkBlocks(b *testing.B) {
	whole := gaussianBF16(2048, 14336, 1)
	dst := make([]byte, len(whole.Data))
	for _, set := range Available() {
		for _, spec := range blockSpecs() {
			m := whole
			if slices.Contains(Weighted(spec.Format), spec.Method) {
				continue // BenchmarkWeighted has those that weigh errors
			}
			switch {
			case set.Name == Reference().Name:
				m.Rows = 8
			case spec.Method == "range":
				m.Rows = 128
			}
			m.Data = m.Data[:m.Rows*m.Cols*2]
			b.Run(fmt.Sprintf("%s/%s/%dx%d", set.Name, specName(spec), m.Rows, m.Cols), func(b *testing.B) {
				b.SetBytes(int64(len(m.Data)))
				copyRate := math.Inf(-1)
				for range 3 {
					start := time.Now()
					copy(dst, whole.Data)
					copyRate = max(copyRate, float64(len(whole.Data))/time.Since(start).Seconds())
				}
				var out *Output
				for b.Loop() {
					amax := float32(0)
					if spec.NeedsAmax() {
						var err error
						if amax, err = set.AbsMax(m); err != nil {
							b.Fatal(err)
						}
					}
					p, err := set.Begin(spec, m.Element, m.Rows, m.Cols, amax)
					if err != nil {
						b.Fatal(err)
					}
					if out == nil {
						n := p.Sizes(m.Rows)
						out = &Output{Codes: make([]byte, n.Codes), Scales: make([]byte, n.Scales), Mins: make([]byte, n.Mins)}
					}
					if err := p.Rows(m.Data, out); err != nil {
						b.Fatal(err)
					}
					if _, err := p.Finish(); err != nil {
						b.Fatal(err)
					}
				}
				perSecond := float64(b.N) / b.Elapsed().Seconds()
				b.ReportMetric(perSecond*float64(m.Rows*m.Cols)/1e6, "Mweights/s")
				b.ReportMetric(perSecond*float64(len(m.Data))/copyRate, "memcpy")
			})
		}
	}
}
