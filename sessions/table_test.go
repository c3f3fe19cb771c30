package sessions

import (
	"math"
	"testing"

	"quantscope/analysis/landscape"
	"quantscope/kernels"
)

// TestTable: what arms and items are made of, by hand.
func TestTable(t *testing.T) {
	tap := bigTap(4)
	older := NewRecord(0, 0, &tap)
	tap.SetMoments(kernels.Moments{SumW: 1, SumW3: 2, SumW4: 90})
	record := NewRecord(0, 0, &tap)
	record.Seq, older.Seq = 1, 2
	st := &State{
		Tensors: []Tensor{{Name: "a", DType: "BF16", Rows: 3, Cols: 40}, {ID: 1, Name: "b", DType: "F32", Rows: 40, Cols: 3}},
		Variants: []Variant{
			{Name: "nvfp4", BitsPerWeight: 4.5}, {ID: 1, Name: "int4-g128", BitsPerWeight: 4.25}, {ID: 2, Name: "of another program"},
		},
		Records: [][]Record{{record, {}}, {older, {Seq: 3, Failed: true}}, {older, {}}},
	}
	table := st.Table()
	// Codes of half a byte in whole bytes a row; a scale byte a row and 16 columns begun and one global
	// scale, or two of two bytes a row and 128 columns begun.
	for i, want := range [][2]int64{{60 + 3*3 + 4, 80 + 40*1 + 4}, {60 + 3*4, 80 + 40*4}, {-1, -1}, {240, 480}} {
		a := &table.Arms[i]
		if a.Bytes[0] != want[0] || a.Bytes[1] != want[1] {
			t.Errorf("%s takes %v, want %v", a.Name, a.Bytes, want)
		}
	}
	states := [][2]landscape.State{
		{landscape.Measured, landscape.Pending}, {landscape.Measured, landscape.Failed}, {landscape.Measured, landscape.Pending}, {landscape.Measured, landscape.Measured},
	}
	for i, want := range states {
		a := &table.Arms[i]
		if a.Samples[0].State != want[0] || a.Samples[1].State != want[1] {
			t.Errorf("%s: %v and %v, want %v", a.Name, a.Samples[0].State, a.Samples[1].State, want)
		}
	}
	// An older record does not take away what another knows.
	if it := &table.Items[0]; it.Amax != record.Amax || it.Std != record.Std || it.Kurtosis != record.Kurtosis || math.IsNaN(it.Std) {
		t.Errorf("%+v", it)
	}
	if it := &table.Items[1]; !math.IsNaN(it.Amax) || !math.IsNaN(it.Std) || !math.IsNaN(it.Kurtosis) {
		t.Errorf("nothing is measured of %+v", it)
	}
	if s := table.Arms[3].Samples[1]; table.Arms[3].Name != SourceArm || s.Rel2 != 0 || s.Cos != 1 {
		t.Errorf("the source loses something: %+v", s)
	}
	s := &table.Arms[0].Samples[0]
	got := []float64{s.Rel2, s.RelL2, s.Cos, s.W2, s.E2, float64(s.Blocks), float64(s.ScaleHigh), float64(s.ScaleLow), float64(s.Shallow), float64(s.Deep), s.ShallowL2, s.DeepL2}
	r := &record
	for i, want := range []float64{r.Rel2, r.RelL2, r.Cos, r.W2, r.E2, float64(r.Blocks), float64(r.ScaleHigh), float64(r.ScaleLow), float64(r.Shallow), float64(r.Deep), r.ShallowL2, r.DeepL2} {
		if got[i] != want {
			t.Errorf("figure %d is %v, want %v", i, got[i], want)
		}
	}
}
