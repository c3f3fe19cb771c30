package topology

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Rope holds the rotary position parameters of a config.
type Rope struct {
	Type        string  // as written; "" and "default" mean no scaling
	Factor      float64 // 0 where the config does not say
	Theta       float64
	Partial     float64 // share of a head's channels that rotate; 1 where the config does not say
	OriginalMax int     // original_max_position_embeddings
}

// scaled says whether positions are scaled at all.
func (r Rope) scaled() bool {
	switch r.Type {
	case "", "default", "none", "axial", "mrope":
		return false
	}
	return true
}

// String is "none", or the type and the factor as in "yarn x4".
func (r Rope) String() string {
	switch {
	case !r.scaled():
		return "none"
	case r.Factor == 0:
		return r.Type
	}
	return fmt.Sprintf("%s x%g", r.Type, r.Factor)
}

// RopeScaling is what stretches the positions: "none", "yarn x4", or by layer
// type "full_attention linear x4, sliding_attention none".
func (c *Config) RopeScaling() string {
	if len(c.RopeByType) == 0 {
		return c.Rope.String()
	}
	var parts []string
	for t, r := range c.RopeByType {
		parts = append(parts, t+" "+r.String())
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// RotaryDim is the number of channels of a head that rotate.
func (c *Config) RotaryDim() int {
	if c.QKRope > 0 {
		return c.QKRope
	}
	return int(float64(c.HeadDim) * c.Rope.Partial)
}

func (r *reader) rope() {
	c := r.cfg
	base := Rope{Theta: r.real(r.obj, "rope_theta"), Partial: r.partial(r.obj, 1)}
	if base.Theta == 0 {
		base.Theta = r.real(r.obj, "rotary_emb_base")
	}
	c.Rope = base
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		section, ok := r.obj[key].(object)
		if !ok {
			continue
		}
		if nested := ropeSections(section); len(nested) > 0 {
			c.RopeByType = map[string]Rope{}
			for _, t := range slices.Sorted(maps.Keys(nested)) {
				c.RopeByType[t] = r.ropeOf(nested[t], base, key+"."+t)
			}
			continue
		}
		c.Rope = r.ropeOf(section, base, key)
	}
}

// ropeSections are the objects of a section that is split by layer type.
func ropeSections(section object) map[string]object {
	nested := map[string]object{}
	for t, v := range section {
		if s, ok := v.(object); ok {
			nested[t] = s
		}
	}
	return nested
}

func (r *reader) ropeOf(s object, base Rope, where string) Rope {
	rope := base
	for _, key := range []string{"rope_type", "type"} {
		if _, word := s[key].(string); s[key] != nil && !word {
			r.unreadf("%s.%s: %s is no word", where, key, brief(s[key]))
		}
	}
	if rope.Type = stringOf(s["rope_type"]); rope.Type == "" {
		rope.Type = stringOf(s["type"])
	}
	rope.Factor = r.real(s, "factor")
	if t := r.real(s, "rope_theta"); t > 0 {
		rope.Theta = t
	}
	rope.Partial = r.partial(s, base.Partial)
	if v, ok := s["original_max_position_embeddings"]; ok && v != nil {
		n, err := countOf(v, maxPositions)
		if err != nil {
			r.unreadf("%s.original_max_position_embeddings: %v", where, err)
		}
		rope.OriginalMax = n
	}
	if rope.OriginalMax == 0 {
		rope.OriginalMax = r.size(maxPositions, "original_max_position_embeddings")
	}
	switch rope.Type {
	case "yarn", "llama3", "longrope", "su":
		if rope.OriginalMax == 0 {
			r.notef("%s: rope type %s without original_max_position_embeddings", where, rope.Type)
			r.cfg.ropeNotes = append(r.cfg.ropeNotes, r.cfg.Notes[len(r.cfg.Notes)-1])
		}
	}
	return rope
}

// real reads a positive number; lists, one value a layer, are left to Text.
func (r *reader) real(s object, key string) float64 {
	num, ok := s[key].(json.Number)
	if !ok {
		if _, list := s[key].([]any); s[key] != nil && !list {
			r.unreadf("%s: %s is not a number", key, brief(s[key]))
		}
		return 0
	}
	f, err := num.Float64()
	if err != nil || f < 0 {
		r.unreadf("%s: %s is no positive number", key, num)
		return 0
	}
	return f
}

// partial reads the share of a head that rotates.
func (r *reader) partial(s object, otherwise float64) float64 {
	for _, key := range []string{"partial_rotary_factor", "rotary_pct"} {
		f := r.real(s, key)
		if f > 1 {
			r.unreadf("%s: %g is more than 1", key, f)
			continue
		}
		if f > 0 {
			return f
		}
	}
	return otherwise
}
