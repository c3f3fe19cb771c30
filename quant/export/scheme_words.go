package export

import "quantscope/kernels"

// CompressedScheme is a format in compressed-tensors' words, for the class Linear. It
// is a config group, or what a recipe of llm-compressor has for one.
func CompressedScheme(f kernels.Format) QuantScheme { return compressedScheme(f) }
