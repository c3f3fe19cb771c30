package topology

// Named is all that topology needs to know of a stored tensor.
type Named struct {
	Name  string
	DType string // as safetensors writes it: BF16, F16, F32, U8, F8_E4M3, …
	Shape []int64
}

// Finding is something about a checkpoint that a person should know. Tensor is
// "" where it is about none in particular.
type Finding struct {
	Tensor  string `json:"tensor"`
	Message string `json:"message"`
	ID      string `json:"id"` // what it is, one of the constants
}

// IDs of findings. They are stable: suppressions and documentation name them.
const (
	ConfigMissing       = "config-missing"
	ConfigValue         = "config-value"           // a value that cannot be right or was not understood
	RopeOriginalMissing = "rope-original-missing"  // a stretched rope without original_max_position_embeddings
	LayersMissing       = "layers-missing"         // decoder layers that the config declares
	LayersBeyond        = "layers-beyond"          // behind those that the config declares, and no MTP
	MTPMissing          = "mtp-missing"            // declared, not stored
	MTPCount            = "mtp-count"              // declared and stored, not as many
	MTPUndeclared       = "mtp-undeclared"         // stored, not declared
	ExpertCount         = "expert-count"           // not as many in a layer as the config says
	ExpertsMissing      = "experts-missing"        // a layer without, where the config says it has
	ExpertsExtra        = "experts-extra"          // a layer with, where the config says it is dense
	ExpertIncomplete    = "expert-incomplete"      // one without gate, up or down
	Geometry            = "attention-geometry"     // q, k, v or o against heads and head_dim
	HeadMissing         = "head-missing"           // not tied, not stored
	HeadStoredTwice     = "head-tied-stored"       // tied, and stored
	HeadUnknown         = "head-tied-unknown"      // not stored, and nothing says that it is tied
	EmbeddingMissing    = "embedding-missing"      // no token embedding
	NotCounted          = "parameters-not-counted" // packed codes that nothing says the size of
	Undecided           = "fused-layout-undecided" // a fused tensor whose orientation nothing tells
)

// Model is what a checkpoint holds, tensor by tensor.
type Model struct {
	Family  string // the outermost model_type, or "unknown"
	Config  Config
	Tensors []Named // as given
	Roles   []Role  // parallel to Tensors

	// Matrices are the linear maps stored in floating point, two-dimensional
	// tensors of every kind and parts of fused ones: by tensor, then expert, then
	// gate before up. Kinds that are rarely quantized are among them; package
	// recipe decides.
	Matrices []Matrix
	// MatrixTensor is the index in Tensors of each matrix's tensor.
	MatrixTensor []int

	Layers          int // decoder layers, MTP not included
	MTPLayers       int // as stored
	ExpertLayers    int // layers with routed experts, MTP not included
	MTPExpertLayers int
	Experts         int // routed experts of a layer, the most where layers differ
	ExpertMatrices  int // gate, up and down of all routed experts, packed and MTP ones included
	SharedExperts   int
	TopK            int // experts a token, 0 where the config does not say

	Tied       bool // the head shares the embedding's weights
	HeadStored bool

	// Params are elements of weights and biases by kind; of a packed weight the
	// elements that it stands for. Scales and the like are not counted.
	Params map[Kind]int64
	// TensorParams are those of each tensor; 0 of a packed one that the headers do
	// not explain.
	TensorParams []int64
	MTPParams    int64 // of TotalParams, in MTP layers
	TotalParams  int64
	// ActiveParams is what one token uses: all but MTP, vision and the experts
	// that are not chosen; embedding and head count whole, as on model cards. It is
	// 0 where the config does not say how many experts are chosen.
	ActiveParams int64

	Unknown    []string  // names that no table knows
	Unresolved []Finding // tensors whose layout could not be decided, with the reason
	Findings   []Finding

	Summary string // one line: family, layers, expert matrices, parameters
}
