package checkpoint

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

const (
	configName = "config.json"
	// maxConfig and maxSide are far above the largest in use: 1 MB of config,
	// 40 MB of tokenizer.
	maxConfig = 16 << 20
	maxSide   = 512 << 20
)

// sidePatterns are the files that a server reads beside weights and config.
var sidePatterns = []string{
	"generation_config.json",
	"tokenizer*.json", "tokenizer*.model", "*.tiktoken", "tekken.json", "spiece.model",
	"special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt",
	"chat_template*", "*.jinja",
	"*preprocessor_config.json", "processor_config.json",
	"hf_quant_config.json", "quant*_config.json", "recipe.yaml",
	"configuration_*.py", "modeling_*.py", "tokenization_*.py", "processing_*.py",
}

// SideFile is a file beside the weights: tokenizer, templates, processors.
type SideFile struct {
	Name string
	Size int64 // bytes
	src  source
}

// Read is the whole file. A file above 512 MiB is refused.
func (f SideFile) Read() ([]byte, error) { return f.src.readSmall(f.Name, maxSide) }

// SideFile finds a side file by its name.
func (c *Checkpoint) SideFile(name string) (SideFile, bool) {
	i := slices.IndexFunc(c.Side, func(f SideFile) bool { return f.Name == name })
	if i < 0 {
		return SideFile{}, false
	}
	return c.Side[i], true
}

// addSide finds config and side files.
func (c *Checkpoint) addSide() error {
	entries, err := fs.ReadDir(c.src.fsys, ".")
	if err != nil {
		return c.src.broken("", err)
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			continue
		}
		if name == configName {
			if c.Config, err = readConfig(c.src); err != nil {
				return err
			}
			continue
		}
		if !slices.ContainsFunc(sidePatterns, func(p string) bool { ok, _ := path.Match(p, name); return ok }) {
			continue
		}
		info, err := c.src.stat(name)
		if err != nil { // a dangling link beside the weights does not keep them from being read
			c.Findings = append(c.Findings, Finding{ID: Unreadable, File: name, Message: "cannot be read: " + strings.TrimPrefix(err.Error(), "checkpoint: ")})
			continue
		}
		c.Side = append(c.Side, SideFile{Name: name, Size: info.Size(), src: c.src})
	}
	slices.SortFunc(c.Side, func(a, b SideFile) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// readConfig reads config.json and wants it to be an object.
func readConfig(src source) ([]byte, error) {
	text, err := src.readSmall(configName, maxConfig)
	if err != nil {
		return nil, err
	}
	if what := notWeights(text[:min(len(text), sniffBytes)], int64(len(text))); what != "" {
		return nil, src.fail(configName, "%s", what)
	}
	s, err := newScanner(text)
	if err == nil {
		s.python = true
		err = s.members(func([]byte) error { return s.skip(1) })
	}
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, src.fail(configName, "config is not valid JSON: %s", err.Error())
	}
	return text, nil
}

// ConfigJSON is the config in a form that encoding/json reads: the words NaN,
// Infinity and -Infinity, which Python's json module writes and JSON does not
// know, are null. It is Config itself where there are none, nil where there is
// no config.
func (c *Checkpoint) ConfigJSON() []byte {
	s := &scanner{buf: c.Config}
	var out []byte
	from := 0
	for s.pos < len(s.buf) {
		at := s.pos
		switch {
		case s.buf[s.pos] == '"':
			if _, err := s.text(); err != nil {
				return c.Config
			}
		case s.word("NaN"), s.word("Infinity"), s.word("-Infinity"):
			out = append(append(out, s.buf[from:at]...), "null"...)
			from = s.pos
		default:
			s.pos++
		}
	}
	if out == nil {
		return c.Config
	}
	return append(out, s.buf[from:]...)
}
