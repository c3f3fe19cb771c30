package verify

import (
	"bytes"
	"io/fs"
	"time"
)

// memory is a file that is only in memory.
type memory struct {
	*bytes.Reader
	name string
	size int64
}

func newMemory(name string, data []byte) *memory {
	return &memory{bytes.NewReader(data), name, int64(len(data))}
}

func (m *memory) Close() error               { return nil }
func (m *memory) Stat() (fs.FileInfo, error) { return memoryInfo{m.name, m.size}, nil }

type memoryInfo struct {
	name string
	size int64
}

func (i memoryInfo) Name() string       { return i.name }
func (i memoryInfo) Size() int64        { return i.size }
func (i memoryInfo) Mode() fs.FileMode  { return 0o444 }
func (i memoryInfo) ModTime() time.Time { return time.Time{} }
func (i memoryInfo) IsDir() bool        { return false }
func (i memoryInfo) Sys() any           { return nil }
