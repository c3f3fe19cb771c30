package sessions

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
)

// summaryState is two tensors with simple figures, one that is not finite, one
// that failed and one that is to come.
func summaryState() *State {
	rec := func(tensor int, rel2, cos, w2 float64, blocks, shallow, deep int64, shallowL2, deepL2 float64) Record {
		return Record{Seq: int64(tensor + 1), Tensor: tensor, Rel2: rel2, RelL2: math.Sqrt(rel2), Cos: cos, W2: w2, Elements: 16 * blocks,
			Blocks: blocks, Shallow: shallow, Deep: deep, ShallowL2: shallowL2, DeepL2: deepL2, ScaleHigh: 2, ScaleLow: 1, MaxAbsErr: rel2}
	}
	st := &State{
		Tensors:  []Tensor{{ID: 0, Name: "a"}, {ID: 1, Name: "b"}, {ID: 2, Name: "c"}, {ID: 3, Name: "d"}, {ID: 4, Name: "e"}},
		Variants: []Variant{{Name: "v", Effective: "v", BitsPerWeight: 4.5}, {ID: 1, Name: "none", Effective: "none"}},
		Records:  [][]Record{make([]Record, 5), make([]Record, 5)},
	}
	st.Records[0][0] = rec(0, 0.01, 0.995, 10, 100, 50, 10, 0.5, 0.1)
	st.Records[0][1] = rec(1, 0.04, 0.98, 30, 300, 30, 0, 0.1, 0)
	st.Records[0][2] = rec(2, math.Inf(1), math.NaN(), math.Inf(1), 100, 0, 0, math.NaN(), 0)
	st.Records[0][3] = failedRecord(0, 3, 7)
	st.Records[0][3].Seq = 9
	return st
}

func TestSummarize(t *testing.T) {
	s := Summarize(summaryState(), 0)
	near := func(name string, got Figure, want float64) {
		t.Helper()
		if math.Abs(float64(got)-want) > 1e-12 {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	near("mean_rel2", s.MeanRel2, 0.025)
	near("mean_rel_l2", s.MeanRelL2, 0.15)
	near("worst_rel_l2", s.WorstRelL2, 0.2)
	near("worst_over_mean", s.WorstOverMean, 0.2/0.15)
	near("cos_min", s.CosMin, 0.98)
	near("cos_max", s.CosMax, 0.995)
	near("shallow_blocks", s.ShallowBlocks, 80.0/500)
	near("deep_blocks", s.DeepBlocks, 10.0/500)
	near("shallow_l2", s.ShallowL2, (0.5*10+0.1*30)/40)
	near("deep_l2", s.DeepL2, 1.0/40)
	counts := []int64{s.Tensors, s.Failed, s.Pending, s.LeftOut, s.NonFinite, s.ScalesClamped, s.ScalesClampedHigh, s.ScalesClampedLow, s.Blocks}
	if want := []int64{3, 1, 1, 1, 7, 9, 6, 3, 500}; !reflect.DeepEqual(counts, want) {
		t.Errorf("counts %v, want %v", counts, want)
	}
	if s.WorstTensor != "b" {
		t.Errorf("worst %q", s.WorstTensor)
	}

	none := Summarize(summaryState(), 1)
	for name, f := range map[string]Figure{"mean_rel2": none.MeanRel2, "worst_over_mean": none.WorstOverMean, "cos_min": none.CosMin, "deep_blocks": none.DeepBlocks, "deep_l2": none.DeepL2} {
		if !math.IsNaN(float64(f)) {
			t.Errorf("%s of nothing is %v", name, f)
		}
	}
	if none.Pending != 5 || none.WorstTensor != "" {
		t.Errorf("%+v", none)
	}
	if got := Summarize(summaryState(), 2); !reflect.DeepEqual(got, Summary{}) {
		t.Errorf("a variant that is not there: %+v", got)
	}
}

// TestSummaryKeys are those that others rely on.
func TestSummaryKeys(t *testing.T) {
	b, err := json.Marshal(Summarize(summaryState(), 1))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields("variant tensors mean_rel2 mean_rel_l2 worst_tensor worst_over_mean cos_min cos_max shallow_blocks deep_blocks deep_l2 scales_clamped nonfinite effective") {
		if !strings.Contains(string(b), `"`+key+`":`) {
			t.Errorf("no %s in %s", key, b)
		}
	}
	if !strings.Contains(string(b), `"mean_rel2":"NaN"`) {
		t.Errorf("%s", b)
	}
}

func TestFigures(t *testing.T) {
	for _, v := range []float64{0, math.Copysign(0, -1), 1, -1.5, 1e-320, math.MaxFloat64, 0.1, math.Inf(1), math.Inf(-1), math.NaN(), 1e21, 5e-324} {
		b, err := json.Marshal(Figure(v))
		if err != nil {
			t.Fatal(err)
		}
		var back Figure
		if err := json.Unmarshal(b, &back); err != nil {
			t.Fatal(err)
		}
		if math.Float64bits(float64(back)) != math.Float64bits(v) && !math.IsNaN(v) || math.IsNaN(v) != math.IsNaN(float64(back)) {
			t.Errorf("%v is written %s and read %v", v, b, back)
		}
	}
	var f Figure
	if err := json.Unmarshal([]byte(`"nonsense"`), &f); err == nil {
		t.Error("nonsense is a figure")
	}
}
