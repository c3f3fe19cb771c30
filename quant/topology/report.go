package topology

import (
	"fmt"
	"slices"
	"strings"
)

// head decides whether the head shares the embedding's weights, and reports a
// head that is missing or of no use.
func (r *resolver) head() {
	embedded := false
	headName := ""
	for i := range r.Roles {
		role := &r.Roles[i]
		if !primary(role.Param) || role.MTP {
			continue
		}
		switch {
		case role.Kind == Head:
			r.HeadStored, headName = true, r.Tensors[i].Name
		case role.Kind == Embedding && role.Projection == "":
			embedded = true
		}
	}
	stated, tied := r.Config.TiedStated, r.Config.Tied
	why := fmt.Sprintf("tie_word_embeddings is %t", tied)
	if !stated && r.family.tied != tieUnknown {
		stated, tied = true, r.family.tied == tieYes
		why = fmt.Sprintf("tie_word_embeddings is not in the config, which means %t for model type %s", tied, r.Family)
	}
	r.Tied = tied
	switch {
	case !stated && !r.HeadStored && embedded && r.generates():
		r.Tied = true
		r.findf(HeadUnknown, "lm_head.weight", "no head is stored and tie_word_embeddings is not known: taken as tied")
	case stated && !tied && !r.HeadStored && r.generates() && (embedded || r.Config.TiedStated):
		r.findf(HeadMissing, "lm_head.weight", "lm_head.weight is missing, yet %s", why)
	case tied && r.HeadStored:
		r.findf(HeadStoredTwice, headName, "a head is stored, yet %s: loaders use the embedding instead", why)
	}
	if r.Config.Present && !embedded && r.Layers > 0 {
		r.findf(EmbeddingMissing, "", "no token embedding is stored")
	}
}

// generates says whether the architecture has a head at all.
func (r *resolver) generates() bool {
	if len(r.Config.Architectures) == 0 {
		return true
	}
	return slices.ContainsFunc(r.Config.Architectures, func(a string) bool {
		return strings.Contains(a, "CausalLM") || strings.Contains(a, "ConditionalGeneration") || strings.Contains(a, "LMHead")
	})
}

// report adds what is missing, too many or of the wrong shape.
func (r *resolver) report() {
	if !r.Config.Present && len(r.Config.Notes) == 0 {
		r.findf(ConfigMissing, "", "no config.json: family unknown, sizes derived from names and shapes")
	}
	for _, n := range r.Config.Notes {
		id := ConfigValue
		if slices.Contains(r.Config.ropeNotes, n) {
			id = RopeOriginalMissing
		}
		if r.Config.Present {
			n = "config.json: " + n
		} else {
			n += "; sizes derived from names and shapes"
		}
		r.findf(id, "", "%s", n)
	}
	r.reportLayers()
	r.reportExperts()
	r.reportGeometry()
}

func (r *resolver) reportLayers() {
	var beyond, stored []int
	for _, l := range r.layers {
		switch {
		case l.layer < 0 || l.mtp:
		case l.layer >= r.Layers:
			beyond = append(beyond, l.layer)
		default:
			stored = append(stored, l.layer)
		}
	}
	slices.Sort(stored)
	if len(stored) > 0 || r.Config.Layers > 0 {
		if missing := gaps(stored, r.Layers); missing != "" {
			r.findf(LayersMissing, "", "%d of %s not stored: %s", r.Layers-len(stored), counted(r.Layers, "decoder layer"), missing)
		}
	}
	if len(beyond) > 0 {
		r.findf(LayersBeyond, "", "layer %d lies beyond the %d layers that the config declares, and nothing marks it as MTP (%s like it)", slices.Min(beyond), r.Layers, counted(len(beyond), "layer"))
	}
	if d := r.Config.MTPLayers; d != r.MTPLayers {
		switch {
		case r.MTPLayers == 0:
			r.findf(MTPMissing, "", "the config declares %s, none is stored", counted(d, "MTP layer"))
		case d > 0:
			r.findf(MTPCount, "", "the config declares %s, the checkpoint stores %d", counted(d, "MTP layer"), r.MTPLayers)
		case r.Config.Present && !r.family.mtp:
			r.findf(MTPUndeclared, "", "the checkpoint stores %s, the config declares none", counted(r.MTPLayers, "MTP layer"))
		}
	}
}

// gaps lists what a sorted list leaves out of 0 … n-1, as ranges.
func gaps(stored []int, n int) string {
	const most = 5
	var parts []string
	next := 0
	for _, l := range append(slices.Clone(stored), n) {
		if l > next {
			if len(parts) == most {
				return strings.Join(parts, ", ") + ", …"
			}
			if l-1 == next {
				parts = append(parts, fmt.Sprint(next))
			} else {
				parts = append(parts, fmt.Sprintf("%d–%d", next, l-1))
			}
		}
		next = l + 1
	}
	return strings.Join(parts, ", ")
}

func (r *resolver) reportExperts() {
	r.reportCounts()
	union := uint8(0)
	for _, have := range r.experts {
		union |= have
	}
	want := hasUp | hasDown | union&hasGate // some families have no gate
	incomplete, first := 0, -1
	for i := range r.Roles {
		role := &r.Roles[i]
		key := expertKey{role.Layer, role.Expert}
		have, ok := r.experts[key]
		if role.Kind != Expert || !ok || have&reported != 0 || have&want == want {
			continue
		}
		r.experts[key] |= reported
		if incomplete++; first < 0 {
			first = i
		}
	}
	if first >= 0 {
		role := &r.Roles[first]
		which := fmt.Sprintf("expert %d", role.Expert)
		if role.Layer >= 0 {
			which += fmt.Sprintf(" of layer %d", role.Layer)
		}
		r.findf(ExpertIncomplete, r.Tensors[first].Name, "%s has no %s (%s not whole)", which,
			lacking(want&^r.experts[expertKey{role.Layer, role.Expert}]), counted(incomplete, "expert"))
	}
}

func lacking(missing uint8) string {
	var words []string
	for _, p := range []string{"gate", "up", "down"} {
		if missing&projectionBits(p) != 0 {
			words = append(words, p)
		}
	}
	return strings.Join(words, " and no ")
}

// reportCounts compares each layer's experts with the config.
func (r *resolver) reportCounts() {
	var wrong, absent, extra []int
	have := 0
	for _, l := range r.layers {
		if l.layer < 0 {
			continue
		}
		if l.experts > 0 && r.Config.Experts > 0 && l.experts != r.Config.Experts {
			if len(wrong) == 0 {
				have = l.experts
			}
			wrong = append(wrong, l.layer)
		}
		if moe, known := r.Config.MoELayer(l.layer); known && !l.mtp && l.layer < r.Layers {
			switch {
			case moe && l.experts == 0:
				absent = append(absent, l.layer)
			case !moe && l.experts > 0:
				extra = append(extra, l.layer)
			}
		}
	}
	if len(wrong) > 0 {
		r.findf(ExpertCount, "", "layer %d has %d experts, the config says %d (%s like it)", wrong[0], have, r.Config.Experts, counted(len(wrong), "layer"))
	}
	if len(absent) > 0 {
		r.findf(ExpertsMissing, "", "layer %d has no routed experts, the config says it has (%s like it)", absent[0], counted(len(absent), "layer"))
	}
	if len(extra) > 0 {
		r.findf(ExpertsExtra, "", "layer %d has routed experts, the config says it is dense (%s like it)", extra[0], counted(len(extra), "layer"))
	}
}

// reportGeometry compares q, k, v and o with heads and head_dim, where every
// layer has the same: not for low-rank attention, nor with sizes by layer.
func (r *resolver) reportGeometry() {
	c := &r.Config
	if c.Heads == 0 || c.HeadDim == 0 || c.Hidden == 0 || c.KVLoRA > 0 || c.QLoRA > 0 {
		return
	}
	for _, key := range []string{"per_layer_config", "attention_other_setting", "global_head_dim", "num_global_key_value_heads", "share_q_dim", "num_attention_heads_per_layer"} {
		if c.Text[key] != nil {
			return
		}
	}
	wrong, first, message := 0, "", ""
	for k := range r.Matrices {
		m := &r.Matrices[k]
		if m.Role.Kind != Attention || r.forms[r.MatrixTensor[k]] != plain {
			continue
		}
		var ok bool
		var side string
		var got, want int
		switch m.Role.Projection {
		case "q": // twice as many where the output is gated, as in qwen3_next
			side, got, want = "outputs", m.Rows, c.QOut()
			ok = m.Cols == c.Hidden && (got == want || got == 2*want)
		case "k", "v":
			side, got, want = "outputs", m.Rows, c.KVOut()
			ok = m.Cols == c.Hidden && got == want
		case "o":
			if c.linearAttention() {
				continue
			}
			side, got, want = "inputs", m.Cols, c.QOut()
			ok = m.Rows == c.Hidden && got == want
		default:
			continue
		}
		if ok {
			continue
		}
		if wrong++; first == "" {
			first = m.Tensor
			message = fmt.Sprintf("%d × %d, but the config makes it %d %s and hidden_size %d", m.Rows, m.Cols, want, side, c.Hidden)
		}
	}
	if wrong > 0 {
		r.findf(Geometry, first, "%s (%s like it)", message, counted(wrong, "attention weight"))
	}
}

// linearAttention says whether some layers have an output projection of their
// own size.
func (c *Config) linearAttention() bool { return c.Text["linear_num_value_heads"] != nil }
