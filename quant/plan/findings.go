package plan

import "slices"

// Kind is a kind of finding.
type Kind struct {
	ID       string   `json:"id"`
	Severity Severity `json:"severity"`
	Help     string   `json:"help"`
}

// IDs of findings. They are stable.
const (
	Overlap         = "overlap"
	TargetNoMatch   = "target-no-match"
	ExemptionNoUse  = "exemption-no-effect"
	IgnoreNoMatch   = "ignore-no-match"
	GroupEmpty      = "group-empty"
	NothingTargeted = "nothing-targeted"
	NotASource      = "not-a-source"
	RouterTargeted  = "router-targeted"
	EmbedTargeted   = "embedding-targeted"
	TiedTargeted    = "tied-head-targeted"
	HeadTargeted    = "head-targeted"
	VisionTargeted  = "vision-targeted"
	MTPTargeted     = "mtp-targeted"
	MTPJoint        = "mtp-joint-targeted"
	MixingTargeted  = "mixing-targeted"
	GateTargeted    = "gate-targeted"
	SparseTargeted  = "sparse-attention-targeted"
	UnknownTargeted = "unknown-targeted"
	ExpertCount     = "expert-count"
	ExpertStored    = "expert-stored"
	FusedMissed     = "fused-experts-missed"
	FusedPartly     = "fused-experts-partly"
	FusedBias       = "fused-experts-bias"
	ExpertsSplit    = "experts-split"
	ServerSplit     = "server-fused-split"
	ServerKept      = "server-fused-partly-kept"
	LayoutScheme    = "layout-scheme"
	LayoutMixed     = "layout-mixed"
	RowBlocks       = "row-blocks"
	RankBlocks      = "rank-blocks"
	RankHeads       = "rank-heads"
	AlreadyQuant    = "already-quantized"
	OtherSource     = "other-source"
	OfCheckpoint    = "checkpoint"
)

// findings is the table of them.
var findings = []Kind{
	{Overlap, Error, "two groups match the same matrix"},
	{TargetNoMatch, Error, "a pattern of a group matches no matrix"},
	{ExemptionNoUse, Error, "an exemption takes nothing out of any group"},
	{IgnoreNoMatch, Error, "an ignore entry matches no matrix, tensor or module"},
	{GroupEmpty, Warning, "all that a group matches is ignored or exempted"},
	{NothingTargeted, Error, "no group stores anything"},
	{NotASource, Error, "a target stands in a dtype that cannot be quantized"},
	{RouterTargeted, Error, "a group matches a router: a wrong choice of experts costs more than its bytes save, and servers keep it in full precision"},
	{EmbedTargeted, Error, "a group matches an embedding: servers do not load quantized ones"},
	{TiedTargeted, Error, "a group matches a head or an embedding whose weights are tied"},
	{HeadTargeted, Warning, "a pattern matches the head along with other things"},
	{VisionTargeted, Error, "a group matches part of a vision or audio tower"},
	{MTPTargeted, Warning, "a group matches matrices in MTP layers"},
	{MTPJoint, Error, "a group matches what joins an MTP layer to the model: servers keep it in full precision"},
	{MixingTargeted, Error, "a group matches what mixes the residual stream"},
	{GateTargeted, Warning, "a group matches small gates of attention, few outputs that scale all of a head or add up in a state"},
	{SparseTargeted, Error, "a group matches what chooses or compresses what sparse attention sees: servers keep it in full precision"},
	{UnknownTargeted, Warning, "a group matches tensors whose role is not known"},
	{ExpertCount, Error, "some routed experts are targeted and others neither targeted, ignored nor exempted"},
	{ExpertStored, Error, "the checkpoint does not store as many expert matrices as its config says"},
	{FusedMissed, Error, "experts that stand in 3-D tensors are in no group, while other linear maps are"},
	{FusedPartly, Error, "a part of the matrices of fused experts is targeted; no layout can write that"},
	{FusedBias, Error, "fused experts are targeted that have biases in one tensor; no layout can write that"},
	{ExpertsSplit, Warning, "routed experts of a layer are stored in different ways; servers have one for all"},
	{ServerSplit, Error, "matrices that servers fuse into one are in different schemes"},
	{ServerKept, Warning, "of matrices that servers fuse into one some keep the source's bytes"},
	{LayoutScheme, Error, "the layout cannot say a scheme"},
	{LayoutMixed, Error, "the layout cannot say the schemes of the recipe in one checkpoint"},
	{RowBlocks, Error, "the rows of a matrix are no whole number of the scheme's blocks; a warning where the layout stores them all the same"},
	{RankBlocks, Warning, "divided over the ranks, rows are no whole number of blocks"},
	{RankHeads, Warning, "attention heads cannot be divided by the ranks"},
	{AlreadyQuant, Error, "the checkpoint is quantized already, and a config can name one tool"},
	{OtherSource, Warning, "the recipe was made for another checkpoint"},
	{OfCheckpoint, Warning, "something about the checkpoint itself"},
}

// Kinds lists the kinds of findings.
func Kinds() []Kind { return slices.Clone(findings) }

func ids() []string {
	var list []string
	for _, k := range findings {
		list = append(list, k.ID)
	}
	return list
}

// find adds a finding; its severity is that of its id, unless it is accepted.
func (p *planner) find(f Finding) {
	k := slices.IndexFunc(findings, func(k Kind) bool { return k.ID == f.ID })
	if f.Severity == "" {
		f.Severity = findings[k].Severity
	}
	if slices.Contains(p.o.Accept, f.ID) {
		f.Severity = Warning
	}
	p.Findings = append(p.Findings, f)
}
