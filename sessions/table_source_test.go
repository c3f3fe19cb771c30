package sessions

import (
	"testing"

	"quantscope/analysis/landscape"
)

// TestTableOfUnknownTypes: what a tensor of a type that this program does not
// know takes is not known, and not nothing.
func TestTableOfUnknownTypes(t *testing.T) {
	st := &State{Tensors: []Tensor{
		{Name: "a", DType: "BF16", Rows: 4, Cols: 8},
		{ID: 1, Name: "b", DType: "F32", Rows: 4, Cols: 8},
		{ID: 2, Name: "c", DType: "X9", Rows: 4, Cols: 8},
	}}
	table := st.Table()
	source := table.Arms[len(table.Arms)-1]
	for i, want := range []int64{64, 128, -1} {
		if table.Items[i].SourceBytes != want || source.Bytes[i] != want {
			t.Errorf("%s: %d bytes, %d under the source's arm, want %d", st.Tensors[i].Name, table.Items[i].SourceBytes, source.Bytes[i], want)
		}
	}
	if source.BitsPerWeight != 24 {
		t.Errorf("%g bits a weight, want 24", source.BitsPerWeight)
	}
	if got := landscape.SourceBits(table.Items[2:]); got != 0 {
		t.Errorf("%g bits a weight of nothing known", got)
	}
}
