package plan

import (
	"fmt"
	"strings"

	"quantscope/quant/recipe"
	"quantscope/quant/topology"
)

// concern is a kind of matrix that is rarely quantized.
type concern struct {
	id, noun, fix string
}

var concerns = map[topology.Kind]concern{
	topology.Router:    {RouterTargeted, "router", "name routers in ignore"},
	topology.Embedding: {EmbedTargeted, "embedding", "name it in ignore"},
	topology.Vision:    {VisionTargeted, "matrix of a vision or audio tower", "name the tower in ignore"},
	topology.MTPExtra:  {MTPJoint, "matrix that joins an MTP layer to the model", "name it in ignore"},
	topology.Mixing:    {MixingTargeted, "matrix that mixes the residual stream", "name it in ignore"},
	topology.Unknown:   {UnknownTargeted, "matrix whose role is not known", "look at the name; what is no linear map of the model belongs in ignore"},
}

// concernOf says what is to be said of a matrix that a group stores.
func (p *planner) concernOf(r *topology.Role) (concern, bool) {
	switch {
	case r.Kind == topology.Head && p.model.Tied:
		return concern{TiedTargeted, "head that shares the embedding's weights: loaders use the embedding, and read no head", "take it out of the targets"}, true
	case r.Kind == topology.Embedding && r.Projection == "" && !r.MTP && p.model.Tied:
		return concern{TiedTargeted, "embedding that is the head as well, being tied", "name it in ignore"}, true
	case r.Kind == topology.Head:
		return concern{HeadTargeted, "head", "give it a pattern, and best a group, of its own"}, true
	}
	if c, ok := concerns[r.Kind]; ok {
		return c, true
	}
	if r.Kind == topology.Attention {
		if c, ok := attentionConcern(r); ok {
			return c, true
		}
	}
	if r.MTP {
		return concern{MTPTargeted, "matrix in an MTP layer", "drafts that are predicted worse are accepted less: name the layer in ignore unless that was measured"}, true
	}
	return concern{}, false
}

// attentionConcern is what is to be said of parts of attention that recipes leave
// alone. The queries and keys of an indexer are linear maps that releases quantize.
func attentionConcern(r *topology.Role) (concern, bool) {
	what := recipe.Kept(r)
	switch {
	case what == "" || r.Projection == "indexer.q_b" || r.Projection == "indexer.k":
		return concern{}, false
	case strings.HasPrefix(r.Projection, "indexer."), strings.HasPrefix(r.Projection, "compressor."):
		return concern{SparseTargeted, "matrix that is " + what, "name it in ignore"}, true
	}
	return concern{GateTargeted, strings.TrimPrefix(what, "a "), "name it in ignore unless that was measured"}, true
}

// checkKinds reports, by pattern, what a person rarely means to quantize, and what
// cannot be.
func (p *planner) checkKinds() {
	for g, patterns := range p.res.Targets {
		for t, hits := range patterns {
			p.checkTarget(g, t, hits)
		}
	}
}

func (p *planner) checkTarget(g, t int, hits []int) {
	where, pattern := fmt.Sprintf("groups[%d].targets[%d]", g, t), p.file.Groups[g].Targets[t]
	type seen struct {
		concern
		count int
		first string
	}
	var order []string
	found := map[string]*seen{}
	note := func(c concern, name string) {
		if found[c.id] == nil {
			found[c.id] = &seen{concern: c, first: name}
			order = append(order, c.id)
		}
		found[c.id].count++
	}
	stored := 0
	for _, k := range hits {
		m := &p.model.Matrices[k]
		switch {
		case p.state[k] == noSource && p.res.Group[k] == g:
			dtype := p.model.Tensors[p.model.MatrixTensor[k]].DType
			note(concern{NotASource, "matrix in " + dtype + ", of which nothing can be quantized", "quantize the checkpoint that it was made from"}, m.Name)
		case p.state[k] != state(g):
		default:
			stored++
			if c, ok := p.concernOf(&m.Role); ok {
				note(c, m.Name)
			}
		}
	}
	for _, id := range order {
		s := found[id]
		if id == HeadTargeted && s.count == stored {
			continue // by a pattern of its own
		}
		count := fmt.Sprintf("a %s: %s", s.noun, s.first)
		if s.noun[0] == 'e' {
			count = "an" + count[1:]
		}
		if s.count > 1 {
			count += fmt.Sprintf(", and %d more", s.count-1)
		}
		p.find(Finding{ID: id, Where: where, Pattern: pattern, Tensor: s.first, Message: fmt.Sprintf("%q matches %s", pattern, count), Fix: s.fix})
	}
}
