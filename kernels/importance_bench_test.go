package kernels

import (
	"fmt"
	"testing"
)

// BenchmarkWeighted measures methods that weigh errors, with the whole record,
// codes and parameters written, on one thread.
func BenchmarkWeighted(b *testing.B) {
	m := gaussianBF16(1024, 4096, 1)
	importance := make([]float32, m.Cols)
	for i := range importance {
		importance[i] = 1 + float32(i*7919%251)/16
	}
	for _, set := range Available() {
		for _, spec := range []Spec{
			{Format: "nvfp4"}, {Format: "mxfp4", Convention: CT32}, {Format: "int4-g128", Convention: Own}, {Format: "int4-g128-sym", Convention: Own},
			{Format: "int4-g128", Convention: CT32}, {Format: "int4-g32", Convention: Own},
		} {
			spec.Method = imatrix
			b.Run(fmt.Sprintf("%s/%s/%v", set.Name, spec.Format, spec.Convention), func(b *testing.B) {
				b.SetBytes(int64(len(m.Data)))
				amax, err := set.AbsMax(m)
				if err != nil {
					b.Fatal(err)
				}
				var out Output
				for b.Loop() {
					p, err := set.BeginWeighted(spec, m.Element, m.Rows, m.Cols, amax, importance)
					if err != nil {
						b.Fatal(err)
					}
					n := p.Sizes(m.Rows)
					out.Codes, out.Scales, out.Mins = resize(out.Codes, n.Codes), resize(out.Scales, n.Scales), resize(out.Mins, n.Mins)
					if err := p.Rows(m.Data, &out); err != nil {
						b.Fatal(err)
					}
					if _, err := p.Finish(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*float64(m.Rows*m.Cols)/b.Elapsed().Seconds()/1e6, "Mweights/s")
			})
		}
	}
}

// BenchmarkCodebook measures the choice of a codebook and the codes behind it.
func BenchmarkCodebook(b *testing.B) {
	m := gaussianBF16(1024, 4096, 1)
	set := Best()
	amax, err := set.AbsMax(m)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		spec := Spec{Format: "code2"}
		if spec.Codebook, err = set.ChooseCodebook(spec, m, amax, nil); err != nil {
			b.Fatal(err)
		}
		p, err := set.Begin(spec, m.Element, m.Rows, m.Cols, amax)
		if err != nil {
			b.Fatal(err)
		}
		if err := p.Rows(m.Data, nil); err != nil {
			b.Fatal(err)
		}
		if _, err := p.Finish(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*float64(m.Rows*m.Cols)/b.Elapsed().Seconds()/1e6, "Mweights/s")
}
