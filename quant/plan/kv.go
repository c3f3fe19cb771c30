package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"

	"quantscope/quant/topology"
)

// kvBytes is what one element of keys and values takes. Scales of fp8 are one a
// layer and not counted.
var kvBytes = map[string]int64{"bf16": 2, "f16": 2, "fp8": 1}

// layerCache is what one layer keeps of a token.
type layerCache struct {
	mtp                bool
	k, v, qkv, kv      int64 // outputs of the projections
	latent, linear, ix bool
	packed             bool // its sides do not say how many outputs there are
}

// keysAndValues is what a rank keeps of Options.KVTokens tokens, and what is to be
// known of that number.
func (p *planner) keysAndValues(class *loaderClass) (int64, []string, error) {
	notes := newNotes()
	if p.o.KVTokens == 0 || !class.body && !class.mtp {
		return 0, nil, nil
	}
	layers := p.caches()
	c := &p.model.Config
	per := kvBytes[p.o.KVFormat]
	shared := p.number("num_kv_shared_layers")
	total := int64(0)
	for _, l := range slices.Sorted(maps.Keys(layers)) {
		is := layers[l]
		switch {
		case is.mtp && !class.mtp, !is.mtp && !class.body:
			continue
		case is.linear:
			notes.add(p.linearNote())
			continue
		case !is.mtp && shared > 0 && int64(l) >= int64(p.model.Layers)-shared:
			notes.add(fmt.Sprintf("the last %d layers use the keys and values of layers before them", shared))
			continue
		}
		elements := p.cacheRows(&is, notes)
		tokens := p.o.KVTokens
		if w := p.window(l, is.mtp); w > 0 && w < tokens {
			tokens = w
			notes.add(fmt.Sprintf("layers with a sliding window keep %d tokens; counted for one sequence", w))
		}
		bytes := elements * per
		if is.ix {
			if d := p.number("index_head_dim"); d > 0 {
				bytes += d + 4*((d+127)/128)
				notes.add(fmt.Sprintf("keys of the indexer, %d FP8 values with a scale for 128, are in it", d))
			}
		}
		hi, n := bits.Mul64(uint64(bytes), uint64(tokens))
		if hi != 0 || n > math.MaxInt64-uint64(total) {
			return 0, nil, fmt.Errorf("keys and values of %d tokens are more bytes than can be counted", p.o.KVTokens)
		}
		total += int64(n)
	}
	if c.KVLoRA > 0 && p.o.Ranks > 1 {
		notes.add("every rank keeps the whole latent of low-rank attention")
	}
	return total, notes.list, nil
}

// caches gathers what each layer projects.
func (p *planner) caches() map[int]layerCache {
	layers := map[int]layerCache{}
	m := p.model
	for i := range m.Tensors {
		r := &m.Roles[i]
		if r.Kind != topology.Attention || r.Layer < 0 || !holdsCodes(r) && r.Projection != "a_log" {
			continue
		}
		is := layers[r.Layer]
		is.mtp = r.MTP
		rows := int64(0)
		switch {
		case p.first[i] < p.first[i+1]:
			rows = int64(m.Matrices[p.first[i]].Rows)
		case len(m.Tensors[i].Shape) > 0:
			rows = m.Tensors[i].Shape[0]
			is.packed = is.packed || r.Projection == "k" || r.Projection == "qkv"
		}
		switch r.Projection {
		case "k":
			is.k = rows
		case "v":
			is.v = rows
		case "qkv":
			is.qkv = rows
		case "kv":
			is.kv = rows
		case "kv_a", "qkv_a":
			is.latent = true
		case "conv", "a_log", "qkvz":
			is.linear = true
		case "indexer.k":
			is.ix = true
		}
		layers[r.Layer] = is
	}
	return layers
}

// cacheRows is how many elements a rank keeps of a token in a layer.
func (p *planner) cacheRows(is *layerCache, notes *notes) int64 {
	c := &p.model.Config
	switch {
	case is.latent:
		return int64(c.KVLoRA + c.QKRope)
	case is.kv > 0:
		notes.add("keys and values that layers compress are counted uncompressed: an upper bound")
		return is.kv
	}
	k, v := is.k, is.v
	if is.qkv > 0 && k == 0 || is.packed && c.KVOut() > 0 {
		k, v = int64(c.KVOut()), int64(c.KVOut())
	}
	if v == 0 {
		v = k // one projection for both
	}
	if k > 0 && p.heads(k) == 0 {
		notes.add("the number of heads of keys and values is not known: every rank is counted with all")
	}
	return p.headRows(k) + p.headRows(v)
}

// window is the sliding window of a layer, 0 where it sees all tokens. The rules are
// those of transformers' configs: layer_types; a period (below), whose last layer sees
// all; max_window_layers; and all layers where there is a window and no rule.
func (p *planner) window(layer int, mtp bool) int64 {
	text := p.model.Config.Text
	size := p.number("sliding_window")
	if size == 0 || mtp || !p.windowUsed() {
		return 0
	}
	if types, ok := text["layer_types"].([]any); ok && len(types) > 0 {
		if layer < len(types) && types[layer] == "sliding_attention" {
			return size
		}
		return 0
	}
	slides := true
	switch period := p.windowPeriod(); {
	case period > 0:
		slides = (int64(layer)+1)%period != 0
	case text["max_window_layers"] != nil:
		slides = int64(layer) >= p.number("max_window_layers")
	}
	if slides {
		return size
	}
	return 0
}

// windowUsed is what use_sliding_window says. Families whose configs have that word
// do without the window where it is missing.
func (p *planner) windowUsed() bool {
	if used, ok := p.model.Config.Text["use_sliding_window"].(bool); ok {
		return used
	}
	family := p.model.Config.TextModelType
	return !strings.HasPrefix(family, "qwen2") && !strings.HasPrefix(family, "qwen3") && family != "smollm3"
}

// windowPeriods are what transformers takes where a config has neither layer_types
// nor sliding_window_pattern, as Gemma 3's first ones.
var windowPeriods = map[string]int64{
	"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "gemma3n_text": 5,
	"cohere2": 4, "exaone4": 4, "olmo3": 4, "gpt_oss": 2,
}

// windowPeriod is after how many layers one comes that sees all, 0 where nothing says.
// A pattern may be written in letters, LLLG.
func (p *planner) windowPeriod() int64 {
	if letters, ok := p.model.Config.Text["sliding_window_pattern"].(string); ok {
		return int64(len(letters))
	}
	if n := p.number("sliding_window_pattern"); n > 0 {
		return n
	}
	return windowPeriods[p.model.Config.TextModelType]
}

// linearNote says what linear attention keeps in place of keys and values: of
// gated delta nets an f32 state of value heads × key width × value width, and the
// inputs of the convolution.
func (p *planner) linearNote() string {
	hv, hk := p.number("linear_num_value_heads"), p.number("linear_num_key_heads")
	dv, dk, width := p.number("linear_value_head_dim"), p.number("linear_key_head_dim"), p.number("linear_conv_kernel_dim")
	const limit = 1 << 20
	if hv*dk*dv*width == 0 || max(hv, hk, dv, dk, width) > limit {
		return "layers with linear attention keep a state of a size that the config does not say; it is not counted"
	}
	ranks := int64(p.o.Ranks)
	state := 4*hv*dk*dv + 2*(2*hk*dk+hv*dv)*(width-1)
	return fmt.Sprintf("layers with linear attention keep %d bytes a layer and sequence on a rank, not counted", divided(state, ranks))
}

// number is a count in the config, 0 where there is none.
func (p *planner) number(key string) int64 {
	n, ok := p.model.Config.Text[key].(json.Number)
	if !ok {
		return 0
	}
	v, err := n.Int64()
	if err != nil || v < 0 || v > 1<<40 {
		return 0
	}
	return v
}

// notes keeps each note once.
type notes struct {
	list []string
	seen map[string]bool
}

func newNotes() *notes { return &notes{seen: map[string]bool{}} }

func (n *notes) add(text string) {
	if !n.seen[text] {
		n.seen[text] = true
		n.list = append(n.list, text)
	}
}
