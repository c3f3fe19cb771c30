package plan

import (
	"fmt"
	"strings"

	"quantscope/quant/topology"
)

// loaderClass is what classes whose names end alike instantiate.
type loaderClass struct {
	suffix                  string
	body, mtp, vision, head bool
}

// The reasons that LeftOut gives.
const (
	whyDraft  = "a class of its own loads it, when tokens are drafted"
	whyText   = "the class is of the text model alone"
	whyTied   = "the head is tied: the embedding's weights are used"
	whyNoHead = "the class ends with the hidden states"
	whyTarget = "a draft class: the model that it drafts for is another one"
)

// loaderClasses are held against a class's name in this order. MTP layers are read
// by a draft class, DeepSeekMTPModel, Qwen3NextMTP or, in SGLang,
// DeepseekV3ForCausalLMNextN; by no other.
var loaderClasses = []loaderClass{
	{suffix: "InternVLChatModel", body: true, vision: true, head: true},
	{suffix: "Phi4MMForCausalLM", body: true, vision: true, head: true},
	{suffix: "MolmoForCausalLM", body: true, vision: true, head: true},
	{suffix: "ForCausalLMNextN", mtp: true, head: true},
	{suffix: "MTPModel", mtp: true, head: true},
	{suffix: "MTP", mtp: true, head: true},
	{suffix: "ForConditionalGeneration", body: true, vision: true, head: true},
	{suffix: "ForCausalLM", body: true, head: true},
	{suffix: "LMHeadModel", body: true, head: true},
	{suffix: "ForSequenceClassification", body: true},
	{suffix: "ForTokenClassification", body: true},
	{suffix: "Model", body: true},
	{suffix: "all", body: true, mtp: true, vision: true, head: true},
}

// Loaders are the endings of class names that Options.Loader may have; all is
// whatever is stored.
func Loaders() []string {
	var list []string
	for _, c := range loaderClasses {
		list = append(list, c.suffix)
	}
	return list
}

// loader finds what loads the checkpoint, and what is to be said of it.
func (p *planner) loader() (name string, c loaderClass, notes []string, err error) {
	name = p.o.Loader
	if name == "" && len(p.model.Config.Architectures) > 0 {
		name = p.model.Config.Architectures[0]
	}
	for _, c := range loaderClasses {
		if strings.HasSuffix(name, c.suffix) && (c.suffix != "all" || name == "all") {
			return name, c, nil, nil
		}
	}
	if p.o.Loader != "" {
		return "", c, nil, fmt.Errorf("loader %q: %w (a class whose name ends in one of %s)", p.o.Loader, ErrUnknown, strings.Join(Loaders(), ", "))
	}
	said := "the config names no class"
	if name != "" {
		said = fmt.Sprintf("what %s instantiates is not known", name)
	}
	return "all", loaderClasses[len(loaderClasses)-1], []string{said + ": everything that is stored is counted"}, nil
}

// leaves says whether a class does not instantiate a tensor, and why.
func (p *planner) leaves(c *loaderClass, r *topology.Role) (part, why string) {
	switch {
	case r.MTP && !c.mtp:
		return "MTP layers", whyDraft
	case r.Kind == topology.Vision && !c.vision:
		if !c.body {
			return "vision and audio towers", whyTarget
		}
		return "vision and audio towers", whyText
	case r.Kind == topology.Head && p.model.Tied && c.suffix != "all":
		return "head", whyTied
	case r.Kind == topology.Head && !c.head:
		return "head", whyNoHead
	case !r.MTP && !c.body && r.Kind != topology.Embedding && r.Kind != topology.Head:
		return "decoder layers", whyTarget
	}
	return "", ""
}
