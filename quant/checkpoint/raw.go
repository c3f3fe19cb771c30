package checkpoint

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// ReadRaw fills dst with the bytes of file i of Files from off on, off counted
// from the start of the file, header and all. Errors are as those of ReadAt.
func (c *Checkpoint) ReadRaw(ctx context.Context, i int, off int64, dst []byte) error {
	if i < 0 || i >= len(c.Files) {
		return &FileError{File: c.Path, Reason: fmt.Sprintf("has no file %d", i)}
	}
	name := c.src.file(c.Files[i].Name)
	if off < 0 || off > c.Files[i].Size || int64(len(dst)) > c.Files[i].Size-off {
		return &FileError{File: name, Reason: fmt.Sprintf("read of %d bytes from %d on leaves its %d bytes", len(dst), off, c.Files[i].Size)}
	}
	f, err := c.files.acquire(i)
	if err != nil {
		return err
	}
	defer c.files.release(f)
	for done := 0; done < len(dst); {
		if err := ctx.Err(); err != nil {
			return err
		}
		part := dst[done:min(len(dst), done+readStep)]
		n, err := f.ReadAt(part, off+int64(done))
		if done += n; n < len(part) {
			return &FileError{File: name, Reason: fmt.Sprintf("read: %d of %d bytes came", done, len(dst)), Err: orUnexpectedEOF(bare(err))}
		}
	}
	return nil
}

// Index is the index of shards that the checkpoint was opened by; ok is false
// where there is none.
func (c *Checkpoint) Index() (f SideFile, ok bool, err error) {
	name := filepath.Base(c.Path)
	if c.whole {
		entries, err := fs.Glob(c.src.fsys, "*"+indexSuffix)
		if err != nil || len(entries) == 0 {
			return f, false, nil
		}
		name = "model" + indexSuffix
		if !slices.Contains(entries, name) {
			name = entries[0] // one alone, or it would not have been opened
		}
	} else if !strings.HasSuffix(name, ".json") {
		return f, false, nil
	}
	info, err := c.src.stat(name)
	if err != nil {
		return f, false, err
	}
	return SideFile{Name: name, Size: info.Size(), src: c.src}, true, nil
}
