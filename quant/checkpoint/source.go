package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// source is where the files of a checkpoint lie.
type source struct {
	fsys fs.FS
	path string // of the folder as the user gave it, or the label
}

// file is how a message names a file of the source.
func (s source) file(name string) string {
	if name == "" {
		return s.path
	}
	if _, ok := s.fsys.(folder); ok {
		return filepath.Join(s.path, filepath.FromSlash(name))
	}
	return s.path + "/" + name
}

// fail is a FileError about a file of the source.
func (s source) fail(name, format string, args ...any) *FileError {
	return &FileError{File: s.file(name), Reason: fmt.Sprintf(format, args...)}
}

// broken is a FileError for what the operating system said of a file.
func (s source) broken(name string, err error) *FileError {
	return systemError(s.file(name), err)
}

// systemError is a FileError for what the operating system said of a file. The
// path that such errors carry is left out: File has it.
func systemError(file string, err error) *FileError {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		return &FileError{File: file, Reason: pe.Op, Err: pe.Err}
	case errors.As(err, &le):
		return &FileError{File: file, Reason: le.Op, Err: le.Err}
	}
	return &FileError{File: file, Reason: "read", Err: err}
}

// place adds the file to an error that does not name one yet.
func (s source) place(name string, err error) error {
	if fe, ok := err.(*FileError); ok && fe.File == "" {
		fe.File = s.file(name)
	}
	return err
}

// folder is a folder of the operating system. Unlike os.DirFS it takes any
// name the system takes, such as ones that are not UTF-8.
type folder string

func (d folder) at(name string) string { return filepath.Join(string(d), filepath.FromSlash(name)) }

func (d folder) Open(name string) (fs.File, error)          { return os.Open(d.at(name)) }
func (d folder) Stat(name string) (fs.FileInfo, error)      { return os.Stat(d.at(name)) }
func (d folder) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(d.at(name)) }

// stat wants a regular file behind the name; links are followed.
func (s source) stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(s.fsys, name)
	if err != nil {
		if d, ok := s.fsys.(folder); ok {
			return nil, absent(s.file(name), d.at(name), err)
		}
		return nil, s.broken(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, s.fail(name, "is not a regular file (%s)", info.Mode().Type())
	}
	return info, nil
}

// absent is systemError for a path that could not be looked at. A link whose
// target is missing is named as such.
func absent(file, path string, err error) *FileError {
	if errors.Is(err, fs.ErrNotExist) {
		if to, linkErr := os.Readlink(path); linkErr == nil {
			return &FileError{File: file, Reason: "is a link to " + printable(to) + ", which is missing", Err: fs.ErrNotExist}
		}
	}
	return systemError(file, err)
}

// readSmall reads a whole file of at most limit bytes.
func (s source) readSmall(name string, limit int64) ([]byte, error) {
	info, err := s.stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, s.fail(name, "too large: %d bytes, at most %d are read", info.Size(), limit)
	}
	f, err := s.fsys.Open(name)
	if err != nil {
		return nil, s.broken(name, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, s.broken(name, err)
	}
	if int64(len(text)) > limit {
		return nil, s.fail(name, "too large: more than %d bytes", limit)
	}
	return text, nil
}

// notWeights recognizes what is often found in place of a safetensors or JSON
// file, by its first bytes; "" where it is none of these.
func notWeights(start []byte, size int64) string {
	text := string(start)
	lower := strings.ToLower(strings.TrimLeft(text, "\ufeff \r\n\t"))
	switch {
	case strings.HasPrefix(text, "version https://git-lfs.github.com/spec/"):
		what := "is a Git LFS pointer, not the weights"
		if _, after, ok := strings.Cut(text, "\nsize "); ok {
			digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
			if digits != "" && len(digits) < 20 {
				what += fmt.Sprintf(": %d bytes of text that stand for %s", size, digits)
			}
		}
		return what + " (git lfs pull fetches them)"
	case strings.HasPrefix(text, "/annex/objects/"), strings.HasPrefix(text, "# xet version"):
		return "is the pointer of a large-file extension, not the weights: they were never fetched"
	case strings.HasPrefix(lower, "<!doctype html"), strings.HasPrefix(lower, "<html"):
		return "is a web page, not a safetensors file"
	case strings.HasPrefix(text, "GGUF"):
		return "is a GGUF file, not a safetensors file (inspect, lint, compare, measure and quantize --layout gguf read it)"
	case strings.HasPrefix(text, "PK\x03\x04"):
		return "is a zip archive (as torch.save writes), not a safetensors file"
	}
	return ""
}
