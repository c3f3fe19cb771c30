package sessions

import (
	"bytes"
	"fmt"
	"testing"
)

// TestGatherAroundTheBuffer: lines that fill the buffer to the byte, or are an
// element longer, are filed like any others, straight and turned.
func TestGatherAroundTheBuffer(t *testing.T) {
	for _, size := range []int{2, 4} {
		most := gatherBytes / size
		for _, stride := range []int{1, 2, 3} {
			fit := (most-1)/stride + 1
			for _, length := range []int{fit, fit + 1} {
				for _, turned := range []bool{false, true} {
					const lines = 2
					step := length*stride + 1
					if stride > lines {
						step = 1 // lines stand between one another's elements
					}
					src := make([]byte, ((lines-1)*step+(length-1)*stride+1)*size)
					for i := range src {
						src[i] = byte(uint(i) * 2654435761 >> 13)
					}
					g := gathering{dst: make([]byte, lines*length*size), size: size, cols: length, turned: turned, lines: lines, step: step, length: length, stride: stride}
					if turned {
						g.cols = lines
					}
					err := g.run(func(off int64, part []byte) error {
						if off < 0 || off+int64(len(part)) > int64(len(src)) {
							return fmt.Errorf("reads %d bytes at %d of %d", len(part), off, len(src))
						}
						copy(part, src[off:])
						return nil
					})
					name := fmt.Sprintf("%d bytes, stride %d, length %d, turned %t", size, stride, length, turned)
					if err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					for j := range lines {
						for e := range length {
							from, to := (j*step+e*stride)*size, (j*length+e)*size
							if turned {
								to = (e*lines + j) * size
							}
							if !bytes.Equal(g.dst[to:to+size], src[from:from+size]) {
								t.Fatalf("%s: element %d of line %d", name, e, j)
							}
						}
					}
				}
			}
		}
	}
}
