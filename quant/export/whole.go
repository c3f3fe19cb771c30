package export

import (
	"bytes"
	"io"
	"os"
)

// isWhole says whether the folder is this very export already, as far as sizes,
// headers, index and config show: the same command was given again after it had
// succeeded, as schedulers do.
func (w *Writer) isWhole() (bool, error) {
	for i := range w.plan.Shards {
		sh := &w.plan.Shards[i]
		if same, err := w.begins(sh.Name, sh.Header, sh.Size); !same {
			return false, err
		}
	}
	for _, t := range w.plan.Texts {
		if same, err := w.begins(t.Name, t.Data, int64(len(t.Data))); !same {
			return false, err
		}
	}
	for _, s := range w.plan.Side {
		if same, err := w.begins(s.Name, nil, s.Size); !same {
			return false, err
		}
	}
	return true, nil
}

// begins says whether a file has this size and these first bytes.
func (w *Writer) begins(name string, head []byte, size int64) (bool, error) {
	path := w.path(name)
	f, err := os.Open(path)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, systemError(path, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, systemError(path, err)
	}
	if info.Size() != size || !info.Mode().IsRegular() {
		return false, nil
	}
	have := make([]byte, len(head))
	if _, err := io.ReadFull(f, have); err != nil {
		return false, systemError(path, err)
	}
	return bytes.Equal(have, head), nil
}

// allDone takes over what is whole: only marks may be left to be removed.
func (w *Writer) allDone() {
	for i := range w.done {
		w.done[i] = true
	}
	w.joined = true
}

// removeOwn removes what this part left in a folder that another one has made
// whole meanwhile.
func (w *Writer) removeOwn(temps []string) error {
	for _, name := range append(temps, partName(w.part.Part, w.part.Of)) {
		if err := w.fs.remove(w.path(name)); err != nil && !isMissing(err) {
			return systemError(w.path(name), err)
		}
	}
	return nil
}
