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
}

// Model is what a checkpoint holds, tensor by tensor.
type Model struct {
	Family   string // model_type of the text part, or "unknown"
	Config   Config
	Tensors  []Named // as given
	Roles    []Role  // parallel to Tensors
	Matrices []Matrix
	// MatrixTensor is the index in Tensors of each matrix's tensor.
	MatrixTensor []int

	Layers        int // decoder layers, MTP not included
	MTPLayers     int
	ExpertLayers  int // layers with routed experts, MTP not included
	Experts       int // routed experts a layer; the largest count where layers differ
	SharedExperts int
	TopK          int // experts a token, 0 where the config does not say

	Tied       bool // the head shares the embedding's weights
	HeadStored bool

	Params       map[Kind]int64 // elements of weights by kind, packed ones unpacked
	TotalParams  int64
	ActiveParams int64 // a token, MTP and vision not included; 0 where the config does not say

	Unknown    []string  // names that no table knows
	Unresolved []Finding // fused tensors whose layout could not be decided, with the reason
	Findings   []Finding

	Summary string // one line: family, layers, expert matrices, parameters
}
