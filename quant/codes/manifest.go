package codes

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"quantscope/quant/checkpoint"
)

// manifestName is the file that makes a folder one of codes.
const manifestName = "codes.json"

// format is the version of the files that this program writes and reads.
const format = 1

// maxManifest is far above what the names of a model's matrices take.
const maxManifest = 64 << 20

// Manifest says what the codes of a folder are. All of it must be the same for
// whoever goes on with it, but for Program.
type Manifest struct {
	Format      int      `json:"format"`
	Source      string   `json:"source"`      // identity of the checkpoint
	Variant     string   `json:"variant"`     // canonical name
	Convention  string   `json:"convention"`  // whose arithmetic
	GlobalScale string   `json:"globalScale"` // shared or tensor
	Targets     string   `json:"targets"`     // as sessions have it
	Matrices    []string `json:"matrices"`    // names, in storage order
	Units       []string `json:"units"`       // in the order in which they are made
	Only        []string `json:"only,omitempty"`
	Damp        float64  `json:"damp"`
	Inputs      string   `json:"inputs"` // sequential: through the layers quantized so far; or the identity of a saved calibration
	Corpus      Corpus   `json:"corpus"`
	Numerics    string   `json:"numerics"` // version of the arithmetic
	Program     string   `json:"program"`
}

// Corpus is the text that the inputs were measured on. Its ids are kept beside
// the manifest, so that an overlap with evaluation text can be told.
type Corpus struct {
	Name      string `json:"name"`
	Source    string `json:"source"`
	SHA256    string `json:"sha256"`
	Tokenizer string `json:"tokenizer"`
	Chunks    int    `json:"chunks"`
	Tokens    int64  `json:"tokens"`
}

// DifferError says why a folder of codes cannot be gone on with: what decides the
// codes differs.
type DifferError struct {
	Dir      string
	Field    string
	Old, New string
}

func (e *DifferError) Error() string {
	return fmt.Sprintf("codes: %s: cannot be gone on with: %s was %s and is now %s", e.Dir, e.Field, e.Old, e.New)
}

// Differs is the first field in which a manifest that is gone on with differs from
// the one of a folder, nil where there is none.
func (m *Manifest) Differs(dir string, now *Manifest) *DifferError {
	for _, f := range []struct{ name, old, new string }{
		{"source identity", m.Source, now.Source},
		{"variant", m.Variant, now.Variant},
		{"convention", m.Convention, now.Convention},
		{"global scale", m.GlobalScale, now.GlobalScale},
		{"targets", m.Targets, now.Targets},
		{"calibrated projections", orAll(m.Only), orAll(now.Only)},
		{"damping", fmt.Sprint(m.Damp), fmt.Sprint(now.Damp)},
		{"inputs", m.Inputs, now.Inputs},
		{"corpus", m.Corpus.text(), now.Corpus.text()},
		{"numerics", m.Numerics, now.Numerics},
	} {
		if f.old != f.new {
			return &DifferError{dir, f.name, orNone(f.old), orNone(f.new)}
		}
	}
	if d := differ(dir, "matrices", m.Matrices, now.Matrices); d != nil {
		return d
	}
	return differ(dir, "units", m.Units, now.Units)
}

// differ names the first entry of a list that is another.
func differ(dir, what string, old, now []string) *DifferError {
	if slices.Equal(old, now) {
		return nil
	}
	at := 0
	for at < len(old) && at < len(now) && old[at] == now[at] {
		at++
	}
	entry := func(list []string) string {
		if at == len(list) {
			return fmt.Sprintf("%d", len(list))
		}
		return fmt.Sprintf("%d, with %q as number %d", len(list), list[at], at)
	}
	return &DifferError{dir, "the list of " + what, entry(old), entry(now)}
}

// text is what may not change of a corpus: not what it is called.
func (c Corpus) text() string {
	if c.SHA256 == "" {
		return ""
	}
	return fmt.Sprintf("%.12s of %d chunks and %d tokens", c.SHA256, c.Chunks, c.Tokens)
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func orAll(list []string) string {
	if len(list) == 0 {
		return "all"
	}
	return strings.Join(list, ",")
}

// check refuses a manifest that no folder can be begun with.
func (m *Manifest) check() error {
	for _, l := range []struct {
		what string
		list []string
	}{{"matrix", m.Matrices}, {"unit", m.Units}} {
		seen := make(map[string]bool, len(l.list))
		for _, name := range l.list {
			if name == "" || seen[name] {
				return fmt.Errorf("%s %q is there twice, or has no name", l.what, name)
			}
			seen[name] = true
		}
	}
	files := make(map[string]bool, len(m.Units))
	for i, u := range m.Units {
		f := unitFile(i, u)
		if files[f] {
			return fmt.Errorf("unit %q has another's file %s", u, f)
		}
		files[f] = true
	}
	return nil
}

// identity is the SHA-256 over all of a manifest that decides the codes, in hex.
func (m *Manifest) identity() (string, error) {
	c := *m
	c.Program, c.Corpus.Name, c.Corpus.Source, c.Corpus.Tokenizer = "", "", "", ""
	text, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Identity is the SHA-256 over all of a manifest that decides the codes, in hex:
// equal ones can go on with each other's folders. It is "" for a manifest that
// cannot be written, with a damping that is no number.
func (m *Manifest) Identity() string {
	id, err := m.identity()
	if err != nil {
		return ""
	}
	return id
}

// encode is the text of the manifest's file.
func (m *Manifest) encode() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(m)
	return b.Bytes(), err
}

// readManifest reads the manifest at a path.
func readManifest(path string) (m Manifest, err error) {
	f, info, err := checkpoint.OpenRegular(path)
	if err != nil {
		return m, err
	}
	defer f.Close()
	if info.Size() > maxManifest {
		return m, &checkpoint.FileError{File: path, Reason: fmt.Sprintf("%d bytes are over the limit of %d", info.Size(), maxManifest)}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return m, checkpoint.SystemError(path, err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return m, &checkpoint.FileError{File: path, Reason: "is no manifest of codes", Err: err}
	}
	if m.Format != format {
		return m, &checkpoint.FileError{File: path, Reason: fmt.Sprintf("format %d is not known here, %d is", m.Format, format), Err: errors.ErrUnsupported}
	}
	if err := m.check(); err != nil {
		return m, &checkpoint.FileError{File: path, Reason: "is damaged", Err: err}
	}
	return m, nil
}
