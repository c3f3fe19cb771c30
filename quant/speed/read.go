package speed

import (
	"context"
	"fmt"
	"time"

	"quantscope/quant/checkpoint"
)

// Read is the rate at which a checkpoint's files were read, one after another,
// front to back. Whether they came from a disk or from the system's cache is
// not known to the program.
type Read struct {
	Checkpoint   string  `json:"checkpoint"`
	Bytes        int64   `json:"bytes"` // that were read
	GBs          float64 `json:"gb_s"`
	Seconds200GB float64 `json:"seconds_200gb"`
}

const (
	readBytes  = 4 << 30 // of a large checkpoint no more is read
	readBuffer = 4 << 20
)

// measureRead reads the tensors of a checkpoint in file order, for at least
// each and until readBytes or all of it was read; a small one is read again.
func measureRead(ctx context.Context, path string, each time.Duration) (Read, error) {
	ck, err := checkpoint.Open(path)
	if err != nil {
		return Read{}, err
	}
	defer ck.Close()
	r := Read{Checkpoint: path}
	buf := make([]byte, readBuffer)
	start := time.Now()
	for r.Bytes < readBytes {
		before := r.Bytes
		for i := range ck.Tensors {
			t := &ck.Tensors[i]
			for at := int64(0); at < t.Size && r.Bytes < readBytes; at += readBuffer {
				part := buf[:min(readBuffer, t.Size-at)]
				if err := ck.ReadAt(ctx, t, at, part); err != nil {
					return Read{}, err
				}
				r.Bytes += int64(len(part))
			}
		}
		if r.Bytes == before {
			return Read{}, fmt.Errorf("%s: has no weights to read", path)
		}
		if time.Since(start) >= each {
			break
		}
	}
	r.GBs = float64(r.Bytes) / time.Since(start).Seconds() / 1e9
	r.Seconds200GB = checkpointBytes / (r.GBs * 1e9)
	return r, nil
}
