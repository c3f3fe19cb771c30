package plan

import (
	"strings"
	"testing"

	"quantscope/quant/topology"
)

// What is rarely quantized is named where a pattern matches it, and what cannot be.
func TestKindsTargeted(t *testing.T) {
	var s shapes
	s.add("model.visual.blocks.0.attn.qkv.weight", 96, 32)
	s.add("model.language_model.embed_tokens.weight", 64, 64)
	s.add("model.language_model.layers.0.self_attn.q_proj.weight", 64, 64)
	s.add("model.language_model.layers.0.self_attn.o_proj.weight", 64, 40)
	s.add("model.language_model.layers.0.per_layer_input_gate.weight", 16, 64)
	s.add("model.language_model.layers.0.self_attn.novel_proj.weight", 64, 64)
	s = append(s, topology.Named{Name: "model.language_model.layers.0.mlp.up_proj.weight", DType: "F8_E4M3", Shape: []int64{64, 64}})
	s.add("lm_head.weight", 64, 64)
	config := func(tied string) string {
		return `{"model_type":"qwen3_vl","tie_word_embeddings":` + tied + `,"vision_config":{},"text_config":{"model_type":"qwen3_vl_text","hidden_size":64,"num_hidden_layers":1}}`
	}
	for _, c := range []struct {
		target, tied, layout, id string
		severity                 Severity
		part                     string
	}{
		{"*.q_proj", "false", "", "", "", ""},
		{"lm_head", "false", "", "", "", ""},
		{"lm_head", "true", "", TiedTargeted, Error, "a head that shares the embedding's weights"},
		{"*embed_tokens", "true", "", TiedTargeted, Error, "an embedding that is the head as well"},
		{"*embed_tokens", "false", "", EmbedTargeted, Error, "an embedding: model.language_model.embed_tokens.weight"},
		{"*.visual.*", "false", "", VisionTargeted, Error, "model.visual.blocks.0.attn.qkv.weight"},
		{"*.per_layer_input_gate", "false", "", MixingTargeted, Error, "mixes the residual stream"},
		{"*.novel_proj", "false", "", UnknownTargeted, Warning, "whose role is not known"},
		{"*.up_proj", "false", "", NotASource, Error, "in F8_E4M3, of which nothing can be quantized"},
		{"*.o_proj", "false", "", RowBlocks, Warning, "64×40: 40 inputs are no multiple of 16"},
		{"*.o_proj", "false", "modelopt", RowBlocks, Error, "40 inputs are no multiple of 16, which nvfp4 in layout modelopt needs"},
	} {
		m := s.model(t, config(c.tied))
		p := resolved(t, m, parse(t, "groups:\n  - scheme: nvfp4\n    targets: ['"+c.target+"']\n"), Options{Layout: c.layout})
		f := p.found(c.id)
		switch {
		case c.id == "":
			if p.Err() != nil {
				t.Errorf("%s: %v", c.target, p.Err())
			}
		case f == nil || f.Severity != c.severity || !strings.Contains(f.Message, c.part):
			t.Errorf("%s: %+v", c.target, p.Findings)
		}
	}
}

// Experts whose orientation cannot be told are in no matrix; that they are there is
// said all the same.
func TestUnresolvedStacks(t *testing.T) {
	var s shapes
	s.add("model.layers.0.self_attn.q_proj.weight", 16, 16)
	s.add("model.layers.0.mlp.experts.gate_up_proj", 4, 16, 64)
	s.add("model.layers.0.mlp.experts.down_proj", 4, 32, 16)
	m := s.model(t, `{"model_type":"novel_moe","hidden_size":16,"num_hidden_layers":1,"num_experts":4,"num_experts_per_tok":1,"moe_intermediate_size":32,"tie_word_embeddings":true}`)
	if len(m.Unresolved) == 0 {
		t.Fatal("resolved")
	}
	p := resolved(t, m, parse(t, "groups:\n  - {scheme: nvfp4, targets: ['*.q_proj']}\n"), Options{})
	if f := p.found(FusedMissed); f == nil || !strings.Contains(f.Message, "reaches 4.0 % of the parameters of linear maps; 96.0 %") { // 256 of 256 + 4·3·16·32
		t.Errorf("%+v", p.Findings)
	}
	p = resolved(t, m, parse(t, "groups:\n  - {scheme: nvfp4, targets: ['*.q_proj', '*.experts.gate_up_proj']}\n"), Options{})
	if f := p.found(TargetNoMatch); f == nil || !strings.Contains(f.Message, "whose layout is not known") {
		t.Errorf("%+v", p.Findings)
	}
}

// A recipe that was made for another checkpoint is worth a look.
func TestOtherSource(t *testing.T) {
	ck, m := openDemo(t)
	for source, want := range map[string]bool{"0123456789abcdef": true, ck.Identity().String(): false} {
		p, err := New(ck, m, parse(t, "source: '"+source+"'\ngroups:\n  - {scheme: nvfp4, targets: ['*.layers.[1-4].mlp.experts.*']}\n"), Options{})
		if err != nil || (p.found(OtherSource) != nil) != want || p.Err() != nil {
			t.Errorf("%s: %v %+v", source, err, p.Findings)
		}
	}
}
