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

// reportGeometry compares attention's weights with the sizes that the config gives a
// layer: not for low-rank attention, nor where sizes are by layer in ways of a
// family's own.
func (r *resolver) reportGeometry() {
	c := &r.Config
	if c.Heads == 0 || c.HeadDim == 0 || c.Hidden == 0 || c.KVLoRA > 0 || c.QLoRA > 0 {
		return
	}
	for _, key := range []string{"share_q_dim", "num_attention_heads_per_layer"} {
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
		text, ok := c.misfit(m)
		if ok {
			continue
		}
		if wrong++; first == "" {
			first, message = m.Tensor, text
		}
	}
	if wrong > 0 {
		r.findf(Geometry, first, "%s (%s like it)", message, counted(wrong, "attention weight"))
	}
}

// misfit says how a weight of attention differs from the config's sizes; true where
// it does not, or nothing is known of it.
func (c *Config) misfit(m *Matrix) (string, bool) {
	queries, keys, dim := c.AttentionSizes(m.Role.Layer)
	linear := c.LayerType(m.Role.Layer) == LinearAttention
	sides, ok := "outputs", false
	want := 0
	switch p := m.Role.Projection; {
	case p == "o":
		if sides, want = "inputs", queries*dim; linear {
			if want = c.Linear.Values(); !c.Linear.Known() {
				return "", true
			}
		}
		ok = m.Rows == c.Hidden && m.Cols == want
	case linear:
		if want = c.linearOutputs(p); want == 0 {
			return "", true
		}
		ok = m.Cols == c.Hidden && m.Rows == want
	case p == "q": // twice as many where the output is gated, as in qwen3_next
		want = queries * dim
		ok = m.Cols == c.Hidden && (m.Rows == want || m.Rows == 2*want)
	case p == "k" || p == "v":
		want = keys * dim
		ok = m.Cols == c.Hidden && m.Rows == want
	default:
		return "", true
	}
	return fmt.Sprintf("%d × %d, but the config makes it %d %s and hidden_size %d", m.Rows, m.Cols, want, sides, c.Hidden), ok
}

// linearOutputs is how many outputs a projection of linear attention has, 0 where it
// is none or nobody knows.
func (c *Config) linearOutputs(projection string) int {
	l := c.Linear
	if !l.Known() {
		return 0
	}
	switch projection {
	case "qkvz":
		return 2*l.Keys() + 2*l.Values()
	case "qkv":
		return 2*l.Keys() + l.Values()
	case "z":
		return l.Values()
	case "ba":
		return 2 * l.ValueHeads
	case "a", "b":
		return l.ValueHeads
	}
	return 0
}
