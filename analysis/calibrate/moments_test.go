package calibrate

import (
	"reflect"
	"slices"
	"testing"

	"quantscope/analysis/model"
	"quantscope/quant/topology"
)

// TestInputOf: maps that read the same rows name the same input.
func TestInputOf(t *testing.T) {
	at := func(k topology.Kind, expert int, projection string) model.Place {
		return model.Place{Kind: k, Layer: 4, Expert: expert, Projection: projection}
	}
	const mlp, experts, both = model.BehindMLP, model.BehindExperts, model.BehindBoth
	q, router := at(topology.Attention, -1, "q"), at(topology.Router, -1, "")
	for _, c := range []struct {
		p    model.Place
		has  model.Behind
		want model.Place
	}{
		{at(topology.Attention, -1, "q"), mlp, q}, {at(topology.Attention, -1, "k"), experts, q}, {at(topology.Attention, -1, "v"), experts, q},
		{at(topology.Attention, -1, "q_a"), experts, q}, {at(topology.Attention, -1, "kv_a"), experts, q},
		{at(topology.Attention, -1, "q_b"), experts, at(topology.Attention, -1, "q_b")},
		{at(topology.Attention, -1, "kv_b"), experts, at(topology.Attention, -1, "kv_b")},
		{at(topology.Attention, -1, "o"), mlp, at(topology.Attention, -1, "o")},
		{at(topology.MLP, -1, "up"), mlp, at(topology.MLP, -1, "gate")}, {at(topology.MLP, -1, "down"), mlp, at(topology.MLP, -1, "down")},
		{at(topology.MLP, -1, "up"), experts, router},
		{at(topology.Expert, 7, "gate"), experts, router}, {at(topology.Expert, 7, "up"), experts, router}, {router, experts, router},
		{at(topology.Expert, 7, "down"), experts, at(topology.Expert, 7, "down")},
		{at(topology.SharedExpert, -1, "up"), experts, router}, {at(topology.SharedExpert, -1, "down"), experts, at(topology.SharedExpert, -1, "down")},
		{at(topology.MTPExtra, -1, "eh_proj"), experts, at(topology.MTPExtra, -1, "eh_proj")},
		{at(topology.MLP, -1, "up"), both, at(topology.MLP, -1, "gate")}, {router, both, router},
		{at(topology.Expert, 7, "gate"), both, model.ExpertsInput(4)}, {at(topology.Expert, 7, "up"), both, model.ExpertsInput(4)},
		{at(topology.Expert, 7, "down"), both, at(topology.Expert, 7, "down")},
		{at(topology.Mixing, -1, "per_layer_input_gate"), mlp, at(topology.Mixing, -1, "per_layer_input_gate")},
		{at(topology.Head, -1, ""), mlp, at(topology.Head, -1, "")},
	} {
		if got := model.InputOf(c.p, c.has); got != c.want {
			t.Errorf("%s reads %s, want %s", c.p, got, c.want)
		}
	}
}

// TestRankBound: T ≥ moe_intermediate·n_experts/top_k, of the layer that needs most.
func TestRankBound(t *testing.T) {
	demo := openModel(t, "demo").spec // 16 experts of 128 channels, two a token
	if got, want := NewRankBound(demo, 1023), (RankBound{Inner: 128, Experts: 16, TopK: 2, Tokens: 1023, Need: 1024}); got != want || got.Met() {
		t.Errorf("%+v, want %+v and not met", got, want)
	}
	if b := NewRankBound(demo, 1024); !b.Met() {
		t.Errorf("%+v is not met", b)
	}
	odd := model.Spec{Layers: []model.Layer{{}, {MoE: &model.MoE{FeedForward: model.FeedForward{Inner: 5}, Experts: 7, TopK: 4}}}}
	odd.MTP = []model.Layer{{MoE: &model.MoE{FeedForward: model.FeedForward{Inner: 3}, Experts: 9, TopK: 3}}}
	if b := NewRankBound(&odd, 8); b.Need != 9 || b.Inner != 5 || b.Met() {
		t.Errorf("%+v, want 35/4 rounded up", b)
	}
	odd.MTP[0].MoE.TopK = 1
	if b := NewRankBound(&odd, 8); b.Need != 27 || b.Inner != 3 {
		t.Errorf("%+v, want the MTP layer's", b)
	}
	if b := NewRankBound(openModel(t, "llama_tied").spec, 1); b.Need != 0 || !b.Met() {
		t.Errorf("a dense model needs %+v", b)
	}
}

// TestSpread: how tokens are shared out, and who was given none or too few.
func TestSpread(t *testing.T) {
	list := []Counts{{Layer: 1, Expert: []int64{0, 7, 100, 64}}, {Layer: 2, Expert: []int64{63, 64, 0, 65}}}
	if got := list[0].Inactive(); !slices.Equal(got, []int{0}) {
		t.Errorf("inactive %v", got)
	}
	if got := list[0].Deficient(64); !slices.Equal(got, []int{1}) {
		t.Errorf("deficient %v", got)
	}
	if got, want := SpreadOf(list, 64), (Spread{8, 2, 2, 0, 63.5, 100}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := SpreadOf(list[:1], 64); got.Median != 35.5 {
		t.Errorf("%+v", got)
	}
	if got := SpreadOf([]Counts{{Expert: []int64{3, 1, 2}}}, 1); got != (Spread{3, 0, 0, 1, 2, 3}) {
		t.Errorf("%+v", got)
	}
	if got := SpreadOf(nil, 64); got != (Spread{}) {
		t.Errorf("%+v", got)
	}
}
