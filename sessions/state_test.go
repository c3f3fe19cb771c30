package sessions

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A record that is older than the one that is there does not replace it, in
// whatever order batches and records in them come.
func TestApplyKeepsTheNewestRecord(t *testing.T) {
	record := func(seq int64, tensor int, relL2 float64) Record {
		return Record{Seq: seq, Variant: 0, Tensor: tensor, RelL2: relL2}
	}
	s := &State{Tensors: make([]Tensor, 2)}
	s.Apply(Batch{Variants: []Variant{{ID: 0, Name: "f1"}}, Records: []Record{record(5, 0, 0.5), record(6, 1, 0.6)}, LastSeq: 6, LastUS: 60})
	s.Apply(Batch{Records: []Record{record(4, 0, 0.4), record(9, 1, 0.9), record(8, 1, 0.8)}, LastSeq: 4, LastUS: 40})
	if diff := cmp.Diff([][]Record{{record(5, 0, 0.5), record(9, 1, 0.9)}}, s.Records); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if s.LastSeq != 6 || s.LastUS != 60 {
		t.Errorf("the state went back to event %d at %d µs", s.LastSeq, s.LastUS)
	}
	s.Apply(Batch{Records: []Record{record(7, 0, 0.7)}, LastSeq: 10, LastUS: 100})
	if s.Records[0][0].RelL2 != 0.7 || s.LastSeq != 10 {
		t.Errorf("a newer record is not taken: %+v", s.Records[0][0])
	}
}
