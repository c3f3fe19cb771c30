package convert

import (
	"fmt"
	"slices"

	"quantscope/quant/checkpoint"
)

// inputs is how activations are quantized when a matrix is applied.
type inputs string

const (
	plainInputs  inputs = ""                         // not at all
	staticTensor inputs = "static, per tensor"       // FP8 by a stored scale
	dynamicToken inputs = "dynamic, per token"       // FP8
	dynamicGroup inputs = "dynamic, in groups"       // FP8 beside tiles
	localGroup   inputs = "in blocks, static global" // NVFP4: blocks as they come, a stored scale of the tensor
)

// scheme is what a config says of a module.
type scheme struct {
	form   form
	name   string // of the format: int4, nvfp4, fp8-channel, …
	bits   int
	group  int    // inputs that share a scale; 0 where all do
	tile   [2]int // rows and columns that do
	asym   bool   // zero points are stored
	order  bool   // groups are in the order of activations
	scale  checkpoint.DType
	inputs inputs
}

// String is what a person is shown.
func (s scheme) String() string {
	text := s.name
	if s.form == integers || s.form == affine {
		text = fmt.Sprintf("int%d", s.bits)
		if s.group > 0 {
			text += fmt.Sprintf(" in groups of %d", s.group)
		} else {
			text += " per channel"
		}
		switch {
		case s.form == affine:
			text += ", with minima"
		case s.asym:
			text += ", with zero points"
		default:
			text += ", symmetric"
		}
		if s.order {
			text += ", in the order of activations"
		}
	}
	if s.inputs != plainInputs {
		text += ", activations " + string(s.inputs)
	}
	return text
}

// schemes lists the pieces' schemes in order, each once.
func (b *planner) schemes() []scheme {
	var out []scheme
	for i := range b.pieces {
		if s := b.pieces[i].scheme; !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}

// group counts the modules of each scheme.
func (b *planner) group() {
	for _, s := range b.schemes() {
		g := Group{Scheme: s.String()}
		for i := range b.pieces {
			if b.pieces[i].scheme == s {
				g.Modules++
			}
		}
		b.Groups = append(b.Groups, g)
	}
}

// modulesOf lists the modules of a scheme, sorted.
func (b *planner) modulesOf(s scheme) []string {
	var out []string
	for i := range b.pieces {
		if b.pieces[i].scheme == s {
			out = append(out, b.pieces[i].name)
		}
	}
	slices.Sort(out)
	return out
}
