// Package ggufmake makes GGUF files: of another GGUF file, or of a checkpoint of
// safetensors whose architecture llama.cpp has.
//
// Promises: everything is known and checked before a weight is read: what each
// tensor is stored as, what was asked for instead, sizes, metadata, the space on the
// disk. What the file cannot say is refused by name. Metadata of a GGUF file are
// copied in their order, byte for byte; those of a checkpoint are read back from the
// header that will be written, and must amount to the model they were made of. The
// same source and request give the same bytes, with any number of threads. A file
// gets its name when it is whole and durable.
package ggufmake
