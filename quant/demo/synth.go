package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

// Synth describes a checkpoint of random weights in the demo's layout
// (glm4_moe), for load tests and demonstrations.
type Synth struct {
	// Layers counts MoE layers. A dense layer 0 comes in addition, so that
	// the model has Layers+1 layers and exactly Layers·Experts·3 routed-expert
	// matrices; a model of one MoE layer has that layer alone.
	Layers       int
	Experts      int    // routed experts of each MoE layer; there is one shared expert more
	Hidden       int    // 0: 64
	Intermediate int    // rows of an expert's gate and up projection; 0: 64. The dense layer has three times as many.
	Seed         uint64 // of all weights
	Plants       []Plant
	ShardBytes   int64 // most tensor bytes of a shard that has more than one tensor; 0: 512 MiB. There are always two shards or more.
}

// Weights are Gaussian with the deviation that Hugging Face's configurations
// call initializer_range; norms are 1.
const synthStd = 0.02

const (
	defaultShard = 512 << 20
	synthVocab   = 1024 // the demo's tokenizer goes with it

	// Limits of a synthetic model, well above any real one's.
	maxLayers  = 10_000
	maxExperts = 200_000 // in all layers together
	maxWidth   = 1 << 20
)

// withDefaults fills in what is 0 and refuses what is out of bounds.
func (s Synth) withDefaults() (Synth, error) {
	s.Hidden = cmp.Or(s.Hidden, 64)
	s.Intermediate = cmp.Or(s.Intermediate, 64)
	s.ShardBytes = cmp.Or(s.ShardBytes, defaultShard)
	for _, v := range []struct {
		name string
		n    int
		most int
	}{
		{"layers", s.Layers, maxLayers}, {"experts", s.Experts, maxExperts},
		{"hidden", s.Hidden, maxWidth}, {"intermediate", s.Intermediate, maxWidth},
	} {
		if v.n < 1 || v.n > v.most {
			return s, fmt.Errorf("synth: %s is %d, want 1 to %d", v.name, v.n, v.most)
		}
	}
	if s.Layers > maxExperts/s.Experts {
		return s, fmt.Errorf("synth: %d layers of %d experts are more than %d experts", s.Layers, s.Experts, maxExperts)
	}
	if s.ShardBytes < 1 {
		return s, fmt.Errorf("synth: shards of %d bytes", s.ShardBytes)
	}
	return s, nil
}

// dense is the number of layers without experts.
func (s Synth) dense() int {
	if s.Layers == 1 {
		return 0
	}
	return 1
}

// heads is the attention's geometry: heads of 32, or of 128 in wide models,
// half as many for keys and values.
func (s Synth) heads() (query, key, width int) {
	width = 32
	if s.Hidden >= 1024 {
		width = 128
	}
	query = max(1, s.Hidden/width)
	if query%2 == 0 {
		return query, query / 2, width
	}
	return query, 1, width
}

// fill says what a tensor holds.
type fill uint8

const (
	gaussian fill = iota
	ones
)

type synthTensor struct {
	checkpoint.Spec
	fill    fill
	size    int64 // bytes
	role    topology.Role
	planted *planted // nil: nothing is planted
}

// tensors are all tensors of the model, layer after layer.
func (s Synth) tensors() ([]synthTensor, error) {
	var all []synthTensor
	role := topology.Role{Layer: -1, Expert: -1, Param: "weight"} // of what comes next; only those of matrices say more
	add := func(name string, f fill, shape ...int) {
		t := synthTensor{Spec: checkpoint.Spec{Name: name, DType: checkpoint.BF16}, fill: f, role: role}
		for _, d := range shape {
			t.Shape = append(t.Shape, int64(d))
		}
		all = append(all, t)
	}
	matrix := func(prefix, projection string, kind topology.Kind, rows, cols int) {
		role.Kind, role.Projection = kind, projection
		add(prefix+projection+"_proj.weight", gaussian, rows, cols)
		role.Kind, role.Projection = topology.Unknown, ""
	}
	mlp := func(prefix string, kind topology.Kind, rows int) {
		matrix(prefix, "gate", kind, rows, s.Hidden)
		matrix(prefix, "up", kind, rows, s.Hidden)
		matrix(prefix, "down", kind, s.Hidden, rows)
	}
	query, key, width := s.heads()
	add("model.embed_tokens.weight", gaussian, synthVocab, s.Hidden)
	for l := range s.Layers + s.dense() {
		layer := fmt.Sprintf("model.layers.%d.", l)
		role.Layer = l
		add(layer+"input_layernorm.weight", ones, s.Hidden)
		for _, m := range []struct {
			name       string
			rows, cols int
		}{{"q", query * width, s.Hidden}, {"k", key * width, s.Hidden}, {"v", key * width, s.Hidden}, {"o", s.Hidden, query * width}} {
			matrix(layer+"self_attn.", m.name, topology.Attention, m.rows, m.cols)
		}
		add(layer+"self_attn.q_norm.weight", ones, width)
		add(layer+"self_attn.k_norm.weight", ones, width)
		add(layer+"post_attention_layernorm.weight", ones, s.Hidden)
		if l < s.dense() {
			mlp(layer+"mlp.", topology.MLP, 3*s.Intermediate)
			continue
		}
		add(layer+"mlp.gate.weight", gaussian, s.Experts, s.Hidden)
		add(layer+"mlp.gate.e_score_correction_bias", gaussian, s.Experts)
		all[len(all)-1].DType = checkpoint.F32
		for e := range s.Experts {
			role.Expert = e
			mlp(fmt.Sprintf("%smlp.experts.%d.", layer, e), topology.Expert, s.Intermediate)
		}
		role.Expert = -1
		mlp(layer+"mlp.shared_experts.", topology.SharedExpert, s.Intermediate)
	}
	role.Layer = -1
	add("model.norm.weight", ones, s.Hidden)
	add("lm_head.weight", gaussian, synthVocab, s.Hidden)

	total := int64(0)
	for i := range all {
		size, ok := all[i].Size()
		if !ok || size > math.MaxInt64-total {
			return nil, fmt.Errorf("synth: tensor %q: size overflows", all[i].Name)
		}
		all[i].size = size
		total += size
	}
	return all, s.plant(all)
}

// shards deals tensors out in order. Within a shard the wide dtype comes
// first, then names in order, as other writers of the format do.
func (s Synth) shards(all []synthTensor) [][]synthTensor {
	var shards [][]synthTensor
	start, size := 0, int64(0)
	for i, t := range all {
		if i > start && size+t.size > s.ShardBytes {
			shards = append(shards, all[start:i])
			start, size = i, 0
		}
		size += t.size
	}
	shards = append(shards, all[start:])
	if len(shards) == 1 {
		half := middle(all)
		shards = [][]synthTensor{all[:half], all[half:]}
	}
	for _, shard := range shards {
		slices.SortFunc(shard, func(a, b synthTensor) int {
			return cmp.Or(cmp.Compare(b.DType.Bits(), a.DType.Bits()), cmp.Compare(a.Name, b.Name))
		})
	}
	return shards
}

// middle is where to cut tensors in two parts of about the same size, neither
// of them empty.
func middle(all []synthTensor) int {
	half, size := totalBytes(all)/2, int64(0)
	for i, t := range all[:len(all)-1] {
		if size += t.size; size >= half {
			return i + 1
		}
	}
	return len(all) - 1
}

func totalBytes(all []synthTensor) (n int64) {
	for _, t := range all {
		n += t.size
	}
	return n
}

// config is the config.json that goes with the weights.
func (s Synth) config() ([]byte, error) {
	query, key, width := s.heads()
	return json.MarshalIndent(struct {
		Architectures     []string `json:"architectures"`
		ModelType         string   `json:"model_type"`
		VocabSize         int      `json:"vocab_size"`
		HiddenSize        int      `json:"hidden_size"`
		Intermediate      int      `json:"intermediate_size"`
		MoEIntermediate   int      `json:"moe_intermediate_size"`
		Layers            int      `json:"num_hidden_layers"`
		Heads             int      `json:"num_attention_heads"`
		KeyHeads          int      `json:"num_key_value_heads"`
		HeadDim           int      `json:"head_dim"`
		PartialRotary     float64  `json:"partial_rotary_factor"`
		RopeTheta         float64  `json:"rope_theta"`
		RMSNormEps        float64  `json:"rms_norm_eps"`
		Activation        string   `json:"hidden_act"`
		AttentionBias     bool     `json:"attention_bias"`
		QKNorm            bool     `json:"use_qk_norm"`
		RoutedExperts     int      `json:"n_routed_experts"`
		SharedExperts     int      `json:"n_shared_experts"`
		ExpertsPerToken   int      `json:"num_experts_per_tok"`
		FirstDense        int      `json:"first_k_dense_replace"`
		NormTopK          bool     `json:"norm_topk_prob"`
		RoutedScaling     float64  `json:"routed_scaling_factor"`
		Groups            int      `json:"n_group"`
		TopKGroup         int      `json:"topk_group"`
		NextTokenLayers   int      `json:"num_nextn_predict_layers"`
		MaxPositions      int      `json:"max_position_embeddings"`
		TieWordEmbeddings bool     `json:"tie_word_embeddings"`
		EOS               []int    `json:"eos_token_id"`
		Pad               int      `json:"pad_token_id"`
		DType             string   `json:"torch_dtype"`
	}{
		Architectures: []string{"Glm4MoeForCausalLM"}, ModelType: "glm4_moe", VocabSize: synthVocab,
		HiddenSize: s.Hidden, Intermediate: 3 * s.Intermediate, MoEIntermediate: s.Intermediate,
		Layers: s.Layers + s.dense(), Heads: query, KeyHeads: key, HeadDim: width,
		PartialRotary: 0.5, RopeTheta: 10000, RMSNormEps: 1e-5, Activation: "silu", QKNorm: true,
		RoutedExperts: s.Experts, SharedExperts: 1, ExpertsPerToken: min(2, s.Experts), FirstDense: s.dense(),
		NormTopK: true, RoutedScaling: 1, Groups: 1, TopKGroup: 1, MaxPositions: 1024,
		EOS: []int{0, 1}, Pad: 0, DType: "bfloat16",
	}, "", "  ")
}
