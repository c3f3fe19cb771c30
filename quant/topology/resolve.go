package topology

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// ErrTensors is wrapped by errors about what Resolve was given.
var ErrTensors = errors.New("topology")

// FromConfig reads a config and resolves the tensors against it. No config, or
// a broken one, is a finding: everything is then derived from names and shapes.
func FromConfig(config []byte, tensors []Named) (*Model, error) {
	if len(config) == 0 {
		return Resolve(Config{}, tensors)
	}
	cfg, err := ParseConfig(config)
	if err != nil {
		cfg = Config{Notes: []string{err.Error()}}
	}
	return Resolve(cfg, tensors)
}

// Resolve finds the role of every tensor. It fails on a name that stands twice
// and on shapes that are negative or overflow, which no reader lets through;
// everything else that is odd is in the model's findings.
func Resolve(cfg Config, tensors []Named) (*Model, error) {
	m := &Model{Config: cfg, Tensors: tensors, Roles: make([]Role, len(tensors)), Params: map[Kind]int64{}, TopK: cfg.TopK}
	if m.Family = cfg.ModelType; m.Family == "" {
		m.Family = "unknown"
	}
	r := &resolver{Model: m, family: familyOf(&cfg), forms: make([]form, len(tensors)), numel: make([]int64, len(tensors))}
	if err := r.check(); err != nil {
		return nil, err
	}
	r.roles()
	r.mtpLayers()
	r.dimensions()
	r.matrices()
	r.countLayers()
	r.countParams()
	r.head()
	r.report()
	m.Summary = r.summary()
	return m, nil
}

// resolver is the work of one Resolve.
type resolver struct {
	*Model
	family *family
	forms  []form
	numel  []int64 // elements as stored, by tensor

	hidden int64 // inputs of a layer; 0 where neither config nor shapes say
	inner  int64 // width of one routed expert, from the config; 0 where it does not say

	index map[string]int // of each name

	layers  []layerCount // by first appearance
	layerAt map[int]int  // index in layers
	experts map[expertKey]uint8
}

func (r *resolver) findf(id, tensor, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{Tensor: tensor, Message: fmt.Sprintf(format, args...), ID: id})
}

func (r *resolver) check() error {
	r.index = make(map[string]int, len(r.Tensors))
	for i := range r.Tensors {
		t := &r.Tensors[i]
		if _, ok := r.index[t.Name]; ok {
			return fmt.Errorf("%w: tensor %q stands twice", ErrTensors, t.Name)
		}
		r.index[t.Name] = i
		n, ok := elements(t.Shape)
		if !ok {
			return fmt.Errorf("%w: tensor %q: shape %v does not fit 63 bits", ErrTensors, t.Name, t.Shape)
		}
		r.numel[i] = n
	}
	return nil
}

// elements is the product of a shape; false where a side is negative or the
// product times eight bytes overflows. A tensor with an empty side is empty,
// however long the others are.
func elements(shape []int64) (int64, bool) {
	if slices.Contains(shape, 0) {
		return 0, slices.Min(shape) == 0
	}
	n := uint64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, false
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64/8 {
			return 0, false
		}
		n = lo
	}
	return int64(n), true
}

func (r *resolver) roles() {
	var s scanner
	for i := range r.Tensors {
		name := r.Tensors[i].Name
		p, ok := s.scan(name)
		if ok {
			if role, form, ok := r.family.lookup(p); ok {
				r.Roles[i], r.forms[i] = role, form
				continue
			}
		}
		r.Roles[i] = Role{Kind: Unknown, Layer: -1, Expert: -1, Param: p.param}
		r.Unknown = append(r.Unknown, name)
	}
}

// mtpLayers marks MTP layers: those below an mtp module, whose numbers are moved
// behind the decoder's, those that hold parts only MTP layers have, and those
// that the config declares behind the last decoder layer.
func (r *resolver) mtpLayers() {
	extra := map[int]bool{}
	last := -1
	for i := range r.Roles {
		switch role := &r.Roles[i]; {
		case role.Layer < 0:
		case role.MTP:
		case role.Kind == MTPExtra:
			extra[role.Layer] = true
		default:
			last = max(last, role.Layer)
		}
	}
	cfg := &r.Config
	if r.Layers = cfg.Layers; r.Layers == 0 {
		for last >= 0 && extra[last] { // layers numbered on behind the decoder's
			last--
		}
		r.Layers = last + 1
	}
	declared := func(layer int) bool {
		return cfg.Layers > 0 && layer >= cfg.Layers && layer < cfg.Layers+cfg.MTPLayers
	}
	for i := range r.Roles {
		switch role := &r.Roles[i]; {
		case role.Layer < 0:
		case role.MTP:
			role.Layer += r.Layers
		case extra[role.Layer] || declared(role.Layer):
			role.MTP = true
		}
	}
}

// dimensions finds the sizes that tell rows from columns: from the config, else
// the hidden size from a norm or the embedding.
func (r *resolver) dimensions() {
	r.hidden, r.inner = int64(r.Config.Hidden), int64(r.Config.MoEIntermediate)
	if r.hidden > 0 {
		return
	}
	for i := range r.Roles {
		role, shape := &r.Roles[i], r.Tensors[i].Shape
		switch {
		case role.Param != "weight" || role.MTP:
		case role.Kind == Norm && len(shape) == 1 && (role.Layer < 0 || role.Projection == "input_layernorm"):
			r.hidden = shape[0]
			return
		case role.Kind == Embedding && role.Projection == "" && len(shape) == 2 && floatSize(r.Tensors[i].DType) > 0:
			r.hidden = shape[1]
			return
		}
	}
}
