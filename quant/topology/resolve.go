package topology

// Resolve finds the role of every tensor.
func Resolve(cfg Config, tensors []Named) (*Model, error) {
	return &Model{Family: "unknown", Config: cfg, Tensors: tensors, Roles: make([]Role, len(tensors))}, nil
}
