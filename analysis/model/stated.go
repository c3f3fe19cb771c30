package model

import (
	"encoding/json"
	"fmt"
)

// stated refuses what config.json says and cannot mean. To whoever only looks at a
// checkpoint it is a note and as good as not said; a pass with what is usual in its
// place would be of another model, and finite.
func (b *builder) stated() {
	text := b.cfg.Text
	if v := text["head_dim"]; v != nil && fmt.Sprint(v) != fmt.Sprint(b.cfg.HeadDim) {
		b.refuse("head_dim is %v", v)
	}
	b.theta("", text)
	for _, key := range []string{"rope_parameters", "rope_scaling"} {
		switch section := text[key].(type) {
		case nil:
		case map[string]any:
			b.theta(key+".", section)
			for name, of := range section {
				if nested, ok := of.(map[string]any); ok {
					b.theta(key+"."+name+".", nested)
				}
			}
		default:
			b.refuse("%s is no object", key)
		}
	}
	if len(b.cfg.Unread) > 0 {
		b.refuse("%s", b.cfg.Unread[0])
	}
}

// theta refuses a base of rotary frequencies that is none, and a share of a head that
// is nothing; pairs that do not turn are what the proportional rope has.
func (b *builder) theta(where string, section map[string]any) {
	const share = "partial_rotary_factor"
	if n, ok := section[share].(json.Number); ok && number(n) == 0 && section["rope_type"] != "proportional" {
		b.refuse("%s%s is %s", where, share, n)
	}
	v := section["rope_theta"]
	if _, list := v.([]any); list && where == "" {
		return // of values a layer: for families that read them, see unsupported
	}
	if v == nil {
		return
	}
	n, ok := v.(json.Number)
	if x, err := n.Float64(); !ok || err != nil || x <= 0 {
		b.refuse("%srope_theta is %v", where, v)
	}
}
