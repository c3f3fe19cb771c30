package topology

import "bytes"

// lookup finds what the tables say of a name; the family's own table goes first.
func (f *family) lookup(p path) (Role, form, bool) {
	if p.vision {
		return Role{Kind: Vision, Layer: -1, Expert: -1, Param: p.param}, plain, true
	}
	e, ok := f.entry(p)
	if !ok {
		return Role{}, plain, false
	}
	r := Role{Kind: e.kind, Layer: p.layer, Expert: p.expert, Projection: e.proj, Param: p.param, MTP: p.mtp}
	if e.param != "" {
		r.Param = e.param
	}
	return r, e.form, true
}

func (f *family) entry(p path) (entry, bool) {
	if p.mtp {
		if e, ok := mtpOnly[string(p.module)]; ok {
			return e, true
		}
	}
	if p.layer < 0 {
		if e, ok := outside[string(p.module)]; ok && !p.mtp {
			return e, true
		}
		return blockEntry(p)
	}
	if e, ok := f.exact[string(p.module)]; ok {
		return e, true
	}
	if e, ok := layerLeaves[string(p.module)]; ok {
		return e, true
	}
	if layerNorms[string(p.module)] {
		return norm(string(p.module)), true
	}
	return blockEntry(p)
}

// blockEntry knows the parts of attention and feed-forward blocks.
func blockEntry(p path) (entry, bool) {
	block, rest, _ := bytes.Cut(p.module, dot)
	switch {
	case attentionBlocks[string(block)]:
		return attentionEntry(rest, p.param)
	case mlpBlocks[string(block)]:
		return mlpEntry(block, rest, p)
	case string(block) == "experts" || string(block) == "router":
		return mlpEntry(nil, p.module, p)
	case sharedBlocks[string(block)]:
		return sharedEntry(rest)
	}
	return entry{}, false
}

var dot = []byte{'.'}

func attentionEntry(rest []byte, param string) (entry, bool) {
	if len(rest) == 0 || string(rest) == "attn" {
		switch param { // scales of the KV cache stand on the block itself
		case "q_scale", "k_scale", "v_scale":
			return attn(param[:1]), true
		}
		return entry{}, false
	}
	e, ok := attentionLeaves[string(rest)]
	return e, ok
}

func mlpEntry(block, rest []byte, p path) (entry, bool) {
	head, tail, _ := bytes.Cut(rest, dot)
	switch {
	case string(head) == "experts" && p.expert >= 0:
		leaf, ok := bytes.CutPrefix(tail, []byte("#."))
		proj := feedForward[string(leaf)]
		return entry{kind: Expert, proj: proj}, ok && proj != ""
	case string(head) == "experts", string(head) == "switch_mlp": // MLX's name for all experts of a layer
		return stackedEntry(tail)
	case sharedBlocks[string(head)]:
		return sharedEntry(tail)
	}
	if e, ok := routerLeaves[string(rest)]; ok {
		return e, true
	}
	switch string(block) {
	case "moe":
		if e, ok := stackedEntry(rest); ok {
			return e, true
		}
	case "block_sparse_moe":
		if string(rest) == "input_linear" || string(rest) == "output_linear" {
			return stackedEntry(rest)
		}
	}
	if len(rest) == 0 {
		switch p.param {
		case "e_score_correction_bias", "router_bias", "expert_bias":
			return entry{kind: Router}, true
		}
		return entry{}, false
	}
	if e, ok := denseOnly[string(rest)]; ok {
		return e, true
	}
	proj := feedForward[string(rest)]
	if rest[0] == 'w' && string(block) != "feed_forward" && string(block) != "ffn" {
		proj = "" // w1, w2 and w3 mean different things elsewhere
	}
	return entry{kind: MLP, proj: proj}, proj != ""
}

func sharedEntry(rest []byte) (entry, bool) {
	proj := feedForward[string(rest)]
	if proj == "" {
		switch string(rest) {
		case "input_linear":
			proj = "gate_up"
		case "output_linear":
			proj = "down"
		}
	}
	return entry{kind: SharedExpert, proj: proj}, proj != ""
}

// stackedEntry knows tensors of all experts of a layer: gate_up_proj, and with
// the parameter joined on by an underscore gate_up_proj_bias, _blocks, ….
func stackedEntry(leaf []byte) (entry, bool) {
	if proj, ok := stackedExperts[string(leaf)]; ok {
		return entry{kind: Expert, proj: proj, form: stacked}, true
	}
	i := bytes.Index(leaf, []byte("_proj_"))
	if i < 0 {
		return entry{}, false
	}
	proj, ok := stackedExperts[string(leaf[:i+len("_proj")])]
	param := string(leaf[i+len("_proj_"):])
	if _, known := params[param]; !ok || !known {
		return entry{}, false
	}
	return entry{kind: Expert, proj: proj, param: param, form: stacked}, true
}
