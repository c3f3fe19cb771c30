package candidate

import "context"

// openGGUF opens a GGUF file, or the first of a split one, as a model.
func openGGUF(ctx context.Context, path string, o Options) (*Candidate, error) { return nil, errNotYet }
