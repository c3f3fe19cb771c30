package layout

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"quantscope/kernels"
)

// Words of the configs of GPTQ and AWQ.
const (
	gptqFile = "quantize_config.json" // where GPTQ's config stands in older checkpoints

	formatGPTQ   = "gptq"    // zero points are stored minus 1
	formatGPTQv2 = "gptq_v2" // and as they are
	formatMarlin = "marlin"
	versionGEMM  = "gemm"
	versionGEMV  = "gemv"
)

// awqVersions are the words that AWQ's orders of codes are known by; none is gemm.
var awqVersions = []string{"", versionGEMM, versionGEMV}

// wordsJSON is what the configs of GPTQ and AWQ say beyond bits and group_size.
type wordsJSON struct {
	Checkpoint string          `json:"checkpoint_format"`
	Marlin     bool            `json:"is_marlin_format"`
	Version    json.RawMessage `json:"version"` // gemm, gemv; a number in other methods' configs
	Symmetric  *bool           `json:"sym"`
	ZeroPoint  *bool           `json:"zero_point"`
	Order      *bool           `json:"desc_act"`
	PackDType  string          `json:"pack_dtype"`
	Dynamic    json.RawMessage `json:"dynamic"`
}

// wordArgs is what a config says of the modules of GPTQ and AWQ.
type wordArgs struct {
	bits       int
	group      *int
	checkpoint string // checkpoint_format; "" where it is not stated
	version    string
	packed     string // pack_dtype
	marlin     bool
	symmetric  *bool
	zeroPoint  *bool
	order      *bool // desc_act
}

// readWords takes over what a config of GPTQ or AWQ says.
func (c *config) readWords(q *quantJSON) error {
	w := &q.wordsJSON
	c.words = wordArgs{
		bits: q.Bits, group: q.GroupSize, checkpoint: strings.ToLower(w.Checkpoint), packed: w.PackDType, marlin: w.Marlin,
		symmetric: w.Symmetric, zeroPoint: w.ZeroPoint, order: w.Order,
	}
	if c.words.checkpoint == "" && c.method == GPTQ {
		c.words.checkpoint = strings.ToLower(q.Format)
	}
	if len(w.Version) > 0 && string(w.Version) != "null" {
		if err := json.Unmarshal(w.Version, &c.words.version); err != nil {
			return fmt.Errorf("version %s is no word", w.Version)
		}
		c.words.version = strings.ToLower(c.words.version)
	}
	if c.words.version == "" && c.method == AWQ {
		c.words.version = strings.ToLower(q.Format)
	}
	if err := c.addDynamic(w.Dynamic); err != nil {
		return fmt.Errorf("dynamic: %w", err)
	}
	return nil
}

// override is what GPTQModel's dynamic says of the modules that a pattern
// matches.
type override struct {
	skips  bool // they are not quantized
	bits   *int
	group  *int
	sym    *bool
	order  *bool
	format string // of the checkpoint; "" where it is not changed
}

// overrideJSON is the value of a pattern.
type overrideJSON struct {
	Bits      *int   `json:"bits"`
	Group     *int   `json:"group_size"`
	Symmetric *bool  `json:"sym"`
	Order     *bool  `json:"desc_act"`
	Format    string `json:"checkpoint_format"`
	Old       string `json:"format"`
	Method    string `json:"method"`
}

// dynamicSection is what entries of the patterns of dynamic stand in.
const dynamicSection = "dynamic"

// addDynamic adds the patterns of dynamic in the order of the file: the first
// that matches from the start of a module's name decides. One that begins with
// -: leaves modules out; +: may stand before the others.
func (c *config) addDynamic(raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fmt.Errorf("%.40s is no object", raw)
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		pattern, _ := key.(string)
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		var o overrideJSON
		if err := json.Unmarshal(value, &o); err != nil {
			return fmt.Errorf("%q: %w", pattern, err)
		}
		x := &override{bits: o.Bits, group: o.Group, sym: o.Symmetric, order: o.Order, format: strings.ToLower(o.Format)}
		if x.format == "" {
			x.format = strings.ToLower(o.Old)
		}
		if x.format == "" && o.Method != "" && !strings.EqualFold(o.Method, GPTQ) {
			x.format = strings.ToLower(o.Method)
		}
		expr := pattern
		if rest, ok := strings.CutPrefix(pattern, "-:"); ok {
			expr, x.skips = rest, true
		} else if rest, ok := strings.CutPrefix(pattern, "+:"); ok {
			expr = rest
		}
		e := newEntry(c.file, dynamicSection, "re:"+expr, exactOrRegex)
		e.Pattern, e.override = pattern, x
		c.entries = append(c.entries, e)
	}
	return nil
}

// wordsOf is what the config says of one module, with what dynamic changes.
func (o *opener) wordsOf(g *group) (wordArgs, error) {
	w := o.config.words
	matched := o.index.find(nil, namesOf(g.name, false), true)
	v := o.config.cover(matched, true)
	for i := range o.config.entries {
		e := &o.config.entries[i]
		if e.override == nil {
			continue
		}
		if e == v.dynamic {
			break
		}
		if e.Unread != "" && !e.override.skips { // what is packed was not left out
			return w, fmt.Errorf("the pattern %q of dynamic in %s may be about it, and cannot be held against names here: %s: %w", e.Pattern, e.File, e.Unread, kernels.ErrUnsupported)
		}
	}
	if v.dynamic == nil || v.dynamic.override.skips {
		return w, nil
	}
	x := v.dynamic.override
	if x.bits != nil {
		w.bits = *x.bits
	}
	if x.group != nil {
		w.group = x.group
	}
	if x.sym != nil {
		w.symmetric = x.sym
	}
	if x.order != nil {
		w.order = x.order
	}
	if x.format != "" {
		w.checkpoint = x.format
	}
	return w, nil
}
