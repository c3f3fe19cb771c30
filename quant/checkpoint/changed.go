package checkpoint

import "io/fs"

// Changed names, as errors do, the first file of weights whose size or time of
// change is not what it was when it was opened; changed is false where there is
// none. A file that is gone is none either: what was read of it stays true, and
// what is still to be read is an error of the read.
func (c *Checkpoint) Changed() (file string, changed bool) {
	for i, name := range c.files.names {
		was := c.files.known[i]
		info, err := fs.Stat(c.src.fsys, name)
		if err != nil || was.length == 0 {
			continue
		}
		if info.Size() != was.size || !info.ModTime().Equal(was.modTime) {
			return c.src.file(name), true
		}
	}
	return "", false
}
