package recipe

import (
	"strings"

	"quantscope/quant/topology"
)

// part is what is left as it is unless a pattern of its own takes it.
type part struct {
	name string // of all of them: routers
	one  string // of a single one: a router
	why  string // in words for people
}

// Parts that are left alone, as llm-compressor's examples, ModelOpt's disabled
// quantizers and the released checkpoints themselves leave them alone.
var (
	partNorms       = part{"norms", "a norm", "vectors that scale every channel"}
	partRouters     = part{"routers", "a router", "a wrong choice of experts costs more than its bytes save"}
	partSharedGates = part{"gates of shared experts", "the gate of a shared expert", "a single output, which servers read in full precision"}
	partEmbeddings  = part{"embeddings", "an embedding", "rows are looked up, not multiplied; servers load no quantized ones"}
	partLayerTables = part{"tables of per-layer embeddings", "a table of per-layer embeddings", "rows are looked up, not multiplied; servers load no quantized ones"}
	partHead        = part{"head", "the head", "its errors are those of every logit; a pattern of its own takes it"}
	partConvs       = part{"convolutions", "a convolution", "a few taps for each channel, no linear map"}
	partDecays      = part{"decays of linear attention", "a decay of linear attention", "vectors that say how fast a state fades, in an exponent"}
	partStateGates  = part{"gates of linear attention", "a gate of linear attention", "few outputs, whose errors a state adds up over the text"}
	partHeadGates   = part{"gates of attention heads", "a gate of attention heads", "one output a head, which scales all of it"}
	partSinks       = part{"attention sinks", "an attention sink", "vectors, one logit a head"}
	partIndexers    = part{"indexers", "part of an indexer", "a wrong choice of what attention sees costs more than its bytes save"}
	partCompressors = part{"compressors", "part of a compressor", "makes one entry of keys and values out of many tokens; servers read it in full precision"}
	partPositions   = part{"tables of positions", "a table of positions", "no weights"}
	partHyper       = part{"hyper-connections", "a hyper-connection, which mixes the residual streams", "an error goes into all that follows"}
	partScalars     = part{"layer scalars", "a scalar, which mixes the residual stream", "one value for a whole layer"}
	partLayerInputs = part{"per-layer inputs", "a per-layer input, which mixes the residual stream", "few channels, which go into all that follows"}
	partMixing      = part{"other mixing", "mixes the residual stream", "an error goes into all that follows"}
	partJoints      = part{"joints of MTP layers", "a part of an MTP layer that joins it to the model", "servers read them in full precision"}
	partTowers      = part{"vision and audio towers", "part of a vision or audio tower", "no part of the text model"}
	partUnknown     = part{"role unknown", "role unknown", "what it is in the model is not known"}
)

// kept finds what a role is among the parts that are left alone. It is false for
// linear maps of attention and MLPs, which quantizers work on.
func kept(r *topology.Role) (part, bool) {
	switch r.Kind {
	case topology.Norm:
		return partNorms, true
	case topology.Router:
		if r.Projection == "shared_gate" {
			return partSharedGates, true
		}
		return partRouters, true
	case topology.Embedding:
		if r.Projection == "per_layer" {
			return partLayerTables, true
		}
		return partEmbeddings, true
	case topology.Head:
		return partHead, true
	case topology.MTPExtra:
		return partJoints, true
	case topology.Vision:
		return partTowers, true
	case topology.Unknown:
		return partUnknown, true
	case topology.Mixing:
		switch {
		case strings.HasPrefix(r.Projection, "hc_"):
			return partHyper, true
		case r.Projection == "layer_scalar":
			return partScalars, true
		case strings.HasPrefix(r.Projection, "per_layer"):
			return partLayerInputs, true
		}
		return partMixing, true
	case topology.Attention:
		return keptOfAttention(r.Projection)
	}
	return part{}, false
}

func keptOfAttention(projection string) (part, bool) {
	switch projection {
	case "conv":
		return partConvs, true
	case "a_log", "dt":
		return partDecays, true
	case "ba", "a", "b":
		return partStateGates, true
	case "g":
		return partHeadGates, true
	case "sinks":
		return partSinks, true
	case "rotary":
		return partPositions, true
	}
	switch name, _, _ := strings.Cut(projection, "."); name {
	case "indexer":
		return partIndexers, true
	case "compressor":
		return partCompressors, true
	}
	return part{}, false
}

// Kept says what a role is that is left as it is unless a pattern of its own takes it,
// as in "a router"; "" of a linear map of attention, an MLP or an expert.
func Kept(r *topology.Role) string {
	p, _ := kept(r)
	return p.one
}
