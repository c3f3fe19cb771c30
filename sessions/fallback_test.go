package sessions

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFallbacksByShareOfParameters: per variant, requested and effective, most
// parameters first; an event about a tensor without a record counts for nothing, and
// of two about one tensor the newer counts.
func TestFallbacksByShareOfParameters(t *testing.T) {
	job, _ := fakeJob(4)
	q := followed(job)
	st := &State{Tensors: job.Tensors, Variants: []Variant{{Name: "f1+x", Effective: "f1+x"}, {ID: 1, Name: "recipe:mix"}}, Recipes: []*RecipeRun{q.recipe.as(1)}}
	st.Tensors[3].Rows = 24 // 768 of 1,536 parameters
	st.Records = [][]Record{make([]Record, 4), make([]Record, 4)}
	for v := range st.Records {
		for i := range st.Records[v] {
			st.Records[v][i] = Record{Seq: int64(1 + 4*v + i), Variant: v, Tensor: i}
		}
	}
	st.Records[0][2] = failedRecord(0, 2, 1)
	st.Records[0][2].Seq = 3
	st.Records[1][2] = Record{} // kept
	fall := func(v, t int, requested, effective, why, message string) {
		st.Log = append(st.Log, Event{Kind: EventFallback, Variant: v, Tensor: t, Requested: requested, Effective: effective, Why: why, Message: message})
	}
	fall(0, 0, "", "f1", "", "m: tensor \"a\": f1 in place of f1+x: too few: 3 tokens") // as older files have it
	fall(0, 2, "f1+x", "f1", "no", "")                                                  // failed
	fall(0, 3, "f1+x", "f0", "old", "")
	fall(0, 3, "f1+x", "f1", "too few: 3 tokens", "")
	fall(1, 3, "recipe:mix", "bf16", "shape", "")
	fall(0, 9, "f1+x", "f1", "nothing", "")
	got := st.Fallbacks()
	want := []Fallback{
		{0, "f1+x", "f1", "too few: 3 tokens", []int{0, 3}, 1024, 1024. / 1536},
		{1, "f1", "bf16", "shape", []int{3}, 768, 768. / 1280},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	shares := st.EffectiveShares(1)
	if diff := cmp.Diff([]EffectiveShare{
		{"f1", "bf16", 1, 768, 0.5, "shape"}, {"f1", "f1", 1, 256, 1. / 6, ""}, {"f2", "f2", 1, 256, 1. / 6, ""}, {"source", "source", 1, 256, 1. / 6, ""},
	}, shares); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sum := 0.0
	for _, s := range shares {
		sum += s.ShareParams
	}
	if math.Abs(sum-1) > 1e-12 {
		t.Errorf("shares sum to %v", sum)
	}
	if len(st.EffectiveShares(7)) != 0 {
		t.Error("a variant that there is not has shares")
	}
}
