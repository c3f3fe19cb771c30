package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// readStep is how many bytes are read between two looks at the context: some
// milliseconds' worth from a disk.
const readStep = 4 << 20

// ReadAt fills dst with the bytes of t from off on, off counted from the start
// of the tensor. It is safe for concurrent use. When ctx ends before the last
// byte came its error is returned as it is; every other error is a *FileError
// that names file and tensor.
func (c *Checkpoint) ReadAt(ctx context.Context, t *Tensor, off int64, dst []byte) error {
	if t.File < 0 || t.File >= len(c.Files) {
		return &FileError{File: c.Path, Tensor: t.Name, Reason: "is not of this checkpoint"}
	}
	name := c.Files[t.File].Name
	if off < 0 || off > t.Size || int64(len(dst)) > t.Size-off {
		return &FileError{File: c.src.file(name), Tensor: t.Name, Reason: fmt.Sprintf("read of %d bytes from %d on leaves its %d bytes", len(dst), off, t.Size)}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := c.files.acquire(t.File)
	if err != nil {
		if fe, ok := err.(*FileError); ok {
			fe.Tensor = t.Name
		}
		return err
	}
	defer c.files.release(f)
	for done := 0; done < len(dst); {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := dst[done:min(len(dst), done+readStep)]
		n, err := f.ReadAt(part, t.Offset+off+int64(done))
		done += n
		if n < len(part) {
			reason := fmt.Sprintf("read: %d of %d bytes came", done, len(dst))
			return &FileError{File: c.src.file(name), Tensor: t.Name, Reason: reason, Err: orUnexpectedEOF(bare(err))}
		}
	}
	return nil
}

// orUnexpectedEOF is err, or io.ErrUnexpectedEOF where a file just ends.
func orUnexpectedEOF(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// bare is the cause in an error of the operating system, without its path.
func bare(err error) error {
	fe := systemError("", err)
	if errors.Is(err, fe.Err) {
		return fe.Err
	}
	return err
}
