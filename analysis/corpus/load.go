package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"quantscope/quant/demo"
)

// Load reads what a name stands for, by the name alone:
//
//	demo                  the five embedded corpora for evaluation
//	prose, eval.prose, …  one of the embedded ones; only for the demo's tokenizer
//	FILE.json             a corpus that corpus build wrote
//	FILE.jsonl            a text a line under "text", or ids under "tokens", "ids" or "input_ids"
//	FILE.safetensors      ids as I32 or I64; every tensor is a corpus, its rows are chunks
//	FILE.ids              ids as little-endian int32
//	any other file        UTF-8 text
//
// A file called like an embedded corpus is named with its folder, ./prose. Errors name the file and the place in it.
func Load(ctx context.Context, name string, o Options) ([]*Corpus, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if Embedded(name) {
		return fromDemo(strings.TrimPrefix(name, "eval."), o)
	}
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".safetensors":
		return loadSafetensors(ctx, name, o)
	case ".json", ".jsonl", ".ids":
		data, err := readFile(name)
		if err != nil {
			return nil, err
		}
		var c *Corpus
		switch ext {
		case ".json":
			c, err = decode(name, data, o)
		case ".jsonl":
			c, err = fromLines(ctx, name, data, o)
		default:
			c, err = fromIDs(name, data, o)
		}
		if err != nil {
			return nil, err
		}
		return []*Corpus{c}, nil
	}
	data, err := readFile(name)
	if err != nil {
		return nil, err
	}
	c, err := Build(ctx, stem(name), name, []Document{{Name: name, Text: string(data)}}, o)
	if err != nil {
		return nil, err
	}
	return []*Corpus{c}, nil
}

// holdsIDs tells files of ids from texts: by their names, and one that corpus build
// wrote by its format, since a text may be JSON.
func holdsIDs(name string, data []byte) bool {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".ids", ".safetensors":
		return true
	case ".json":
		var head struct {
			Format string `json:"format"`
		}
		return json.Unmarshal(data, &head) == nil && head.Format == Format
	}
	return false
}

// Embedded says whether a name stands for embedded corpora.
func Embedded(name string) bool {
	return name == demo.Label || slices.Contains(demoOrder, strings.TrimPrefix(name, "eval."))
}

// Known are the names of the embedded corpora.
func Known() []string { return slices.Clone(demoOrder) }

// ErrNotDemo is wrapped where an embedded corpus is asked for and the model's tokenizer
// is not the demo's.
var ErrNotDemo = errors.New("holds ids of the demo's tokenizer, and this model has another: name a text or a file of ids")

// fromDemo hands out embedded corpora to whoever has the demo's tokenizer.
func fromDemo(name string, o Options) ([]*Corpus, error) {
	all, err := Demo()
	if err != nil {
		return nil, err
	}
	if o.Tokenizer == nil || o.Tokenizer.Behaviour() != all[0].Behaviour {
		return nil, fmt.Errorf("corpus: %s %w", name, ErrNotDemo)
	}
	var out []*Corpus
	for _, c := range all {
		if c.Name != name && (name != demo.Label || c.Calib) {
			continue
		}
		if o.Chunks > 0 && o.Chunks < len(c.Chunks) {
			c.Chunks = c.Chunks[:o.Chunks]
			c.SHA256 = sum(c.Chunks)
			c.Chunking += fmt.Sprintf("; the first %d of them", o.Chunks)
		}
		out = append(out, c)
	}
	return out, nil
}

// readFile reads a whole file of at most maxBytes.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(name) == name && filepath.Ext(name) == "" {
		return nil, fmt.Errorf("corpus: %w, and no embedded corpus (%s)", err, strings.Join(append(Known(), demo.Label), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	switch {
	case info.IsDir():
		return nil, fmt.Errorf("corpus: %s is a folder, and a corpus is a file", name)
	case !info.Mode().IsRegular(): // a pipe would be waited for, a device has no end
		return nil, fmt.Errorf("corpus: %s is not a regular file (%s)", name, info.Mode().Type())
	case info.Size() > maxBytes:
		return nil, fmt.Errorf("corpus: %s: %d bytes, and at most %d are read", name, info.Size(), maxBytes)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("corpus: %w", err)
	case len(data) > maxBytes:
		return nil, fmt.Errorf("corpus: %s: more than %d bytes", name, maxBytes)
	}
	return data, nil
}

// stem is a file's name without folder and extension.
func stem(name string) string {
	base := filepath.Base(name)
	if s := strings.TrimSuffix(base, filepath.Ext(base)); s != "" {
		return s
	}
	return base
}

// line is a line of JSONL. Lines hold texts or ids, all of a file the same.
type line struct {
	Text     *string         `json:"text"`
	Tokens   []int32         `json:"tokens"`
	IDs      []int32         `json:"ids"`
	InputIDs []int32         `json:"input_ids"`
	Messages json.RawMessage `json:"messages"`
}

// fromLines makes a corpus of JSONL.
func fromLines(ctx context.Context, name string, data []byte, o Options) (*Corpus, error) {
	docs, lists, err := parseLines(name, data)
	if err != nil {
		return nil, err
	}
	if lists != nil {
		return asChunks(stem(name), name, lists, o)
	}
	c, err := Build(ctx, stem(name), name, docs, o)
	if err == nil {
		c.Texts = []Text{fileText(name, docs)}
	}
	return c, err
}

// parseLines reads JSONL: texts or lists of ids, at least one.
func parseLines(name string, data []byte) (docs []Document, lists [][]int32, err error) {
	for n := 1; len(data) > 0; n++ {
		var raw []byte
		raw, data, _ = bytes.Cut(data, []byte("\n"))
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		fail := func(format string, args ...any) error {
			return fmt.Errorf("corpus: %s: line %d "+format, append([]any{name, n}, args...)...)
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, nil, fail("is no JSON that is read here: %w", err)
		}
		var ids []int32
		for _, list := range [][]int32{l.Tokens, l.IDs, l.InputIDs} {
			switch {
			case list != nil && ids != nil:
				return nil, nil, fail("has two lists of ids")
			case list != nil:
				ids = list
			}
		}
		switch {
		case l.Messages != nil:
			return nil, nil, fail("has messages, and chat templates are not executed: give the rendered text under \"text\"")
		case l.Text != nil && ids == nil && lists == nil:
			docs = append(docs, Document{Name: fmt.Sprintf("%s:%d", name, n), Text: *l.Text})
		case l.Text == nil && ids != nil && docs == nil:
			lists = append(lists, ids)
		case l.Text == nil && ids == nil:
			return nil, nil, fail("has neither \"text\" nor ids under \"tokens\", \"ids\" or \"input_ids\"")
		default:
			return nil, nil, fail("mixes texts and ids in one file")
		}
	}
	if docs == nil && lists == nil {
		return nil, nil, fmt.Errorf("corpus: %s: no line in it", name)
	}
	return docs, lists, nil
}

// Documents reads texts: of .jsonl files each line, of any other the whole.
func Documents(names []string) ([]Document, error) {
	var all []Document
	for _, name := range names {
		data, err := readFile(name)
		if err != nil {
			return nil, err
		}
		if holdsIDs(name, data) {
			return nil, fmt.Errorf("corpus: %s holds ids, and texts are wanted", name)
		}
		if strings.ToLower(filepath.Ext(name)) != ".jsonl" {
			all = append(all, Document{Name: name, Text: string(data)})
			continue
		}
		docs, lists, err := parseLines(name, data)
		switch {
		case err != nil:
			return nil, err
		case lists != nil:
			return nil, fmt.Errorf("corpus: %s holds ids, and texts are wanted", name)
		}
		all = append(all, docs...)
	}
	return all, nil
}
