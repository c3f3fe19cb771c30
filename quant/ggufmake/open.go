package ggufmake

import (
	"io"
	"os"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/gguf"
)

// IsGGUF tells a GGUF file by its extension or its first bytes.
func IsGGUF(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return strings.HasSuffix(path, ".gguf")
	}
	if strings.HasSuffix(path, ".gguf") {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = io.ReadFull(f, magic)
	return err == nil && string(magic) == "GGUF"
}

// Open opens what is at a path, or the demo: a GGUF file, or any part of a split one,
// or a checkpoint.
func Open(path string, g gguf.Options, o Options) (*Source, error) {
	if path != demo.Label && IsGGUF(path) {
		return OpenGGUF(path, g)
	}
	open := func() (*checkpoint.Checkpoint, error) { return checkpoint.Open(path) }
	if path == demo.Label {
		open = demo.Open
	}
	ck, err := open()
	if err != nil {
		return nil, err
	}
	s, err := FromCheckpoint(ck, o)
	if err != nil {
		_ = ck.Close() // the error that ended it says more
		return nil, err
	}
	return s, nil
}
