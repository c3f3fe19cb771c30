package suite

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/analysis/gates/chat"
)

var errNoFile = errors.New("is no regular file")

//go:embed data/*.yaml
var builtin embed.FS

// Names lists the built-in suites.
func Names() []string { return []string{"default", "quick", "demo", "twobit"} }

// Open reads a suite: a built-in one by its name, else a file. Paths in the file
// are relative to it.
func Open(nameOrPath string) (*Suite, error) {
	if slices.Contains(Names(), nameOrPath) {
		text, err := builtin.ReadFile("data/" + nameOrPath + ".yaml")
		if err != nil {
			return nil, err
		}
		s, err := Parse(nameOrPath+".yaml", text, nil)
		if err != nil {
			return nil, err
		}
		s.Path = nameOrPath
		return s, nil
	}
	text, err := readBounded(nameOrPath, maxFile)
	if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(nameOrPath, "/.") {
		return nil, fmt.Errorf("unknown suite %q; built in are %s, and a path names a file: %w", nameOrPath, list(Names()), err)
	}
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(nameOrPath)
	return Parse(nameOrPath, text, func(path string) ([]byte, error) {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		return readBounded(path, maxTaskFile)
	})
}

// readBounded reads one byte more than there may be, which is refused later. What is
// no file is not opened: a pipe that nobody writes to never opens, and cannot be
// interrupted.
func readBounded(path string, most int64) (_ []byte, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, &os.PathError{Op: "read", Path: path, Err: errNoFile}
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return io.ReadAll(io.LimitReader(f, most+1))
}

// Parse reads a suite from YAML; path is for messages, and files that it names are
// refused unless read gives them. Errors about what is written are *Error.
func Parse(path string, text []byte, read func(path string) ([]byte, error)) (*Suite, error) {
	p := &parser{path: path, read: read, tools: map[string]chat.Tool{}, suite: &Suite{Path: path, Text: slices.Clone(text)}}
	if err := p.parse(text); err != nil {
		return nil, err
	}
	h := sha256.New()
	h.Write(text)
	for _, f := range p.files {
		h.Write(f)
	}
	if err := json.NewEncoder(h).Encode(p.suite.Probes); err != nil {
		return nil, &Error{path, 0, err.Error()}
	}
	p.suite.SHA256 = hex.EncodeToString(h.Sum(nil))
	return p.suite, nil
}
