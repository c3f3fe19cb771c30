package corpus

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
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
// A file that exists comes before an embedded corpus only where the name has a
// folder or an extension. Errors name the file and the place in it.
func Load(ctx context.Context, name string, o Options) ([]*Corpus, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	short := strings.TrimPrefix(name, "eval.")
	if name == demo.Label || slices.Contains(demoOrder, short) {
		return fromDemo(short, o)
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

// Known are the names of the embedded corpora.
func Known() []string { return slices.Clone(demoOrder) }

// fromDemo hands out embedded corpora to whoever has the demo's tokenizer.
func fromDemo(name string, o Options) ([]*Corpus, error) {
	all, err := Demo()
	if err != nil {
		return nil, err
	}
	if o.Tokenizer == nil || o.Tokenizer.Behaviour() != all[0].Behaviour {
		return nil, fmt.Errorf("corpus: %s holds ids of the demo's tokenizer, and this model has another: name a text or a file of ids", name)
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
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("corpus: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("corpus: %w", err)
	case info.IsDir():
		return nil, fmt.Errorf("corpus: %s is a folder, and a corpus is a file", name)
	case info.Size() > maxBytes:
		return nil, fmt.Errorf("corpus: %s: %d bytes, and at most %d are read", name, info.Size(), maxBytes)
	}
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

// fromLines reads JSONL.
func fromLines(ctx context.Context, name string, data []byte, o Options) (*Corpus, error) {
	var docs []Document
	var lists [][]int32
	for n := 1; len(data) > 0; n++ {
		var raw []byte
		raw, data, _ = bytes.Cut(data, []byte("\n"))
		if len(bytes.TrimSpace(raw)) == 0 {
			continue
		}
		var l line
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("corpus: %s: line %d: %w", name, n, err)
		}
		var ids []int32
		for _, list := range [][]int32{l.Tokens, l.IDs, l.InputIDs} {
			if list != nil && ids != nil {
				return nil, fmt.Errorf("corpus: %s: line %d has two lists of ids", name, n)
			} else if list != nil {
				ids = list
			}
		}
		switch {
		case l.Messages != nil:
			return nil, fmt.Errorf("corpus: %s: line %d has messages, and chat templates are not executed: give the rendered text under \"text\"", name, n)
		case l.Text != nil && ids == nil && lists == nil:
			docs = append(docs, Document{Name: fmt.Sprintf("%s:%d", name, n), Text: *l.Text})
		case l.Text == nil && ids != nil && docs == nil:
			lists = append(lists, ids)
		case l.Text == nil && ids == nil:
			return nil, fmt.Errorf("corpus: %s: line %d has neither \"text\" nor ids under \"tokens\", \"ids\" or \"input_ids\"", name, n)
		default:
			return nil, fmt.Errorf("corpus: %s: line %d: texts and ids are mixed in one file", name, n)
		}
	}
	switch {
	case docs != nil:
		c, err := Build(ctx, stem(name), name, docs, o)
		if err == nil {
			c.Texts = []Text{fileText(name, docs)}
		}
		return c, err
	case lists == nil:
		return nil, fmt.Errorf("corpus: %s: no line in it", name)
	}
	return asChunks(stem(name), name, lists, o)
}
