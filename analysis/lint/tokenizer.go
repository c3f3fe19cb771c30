package lint

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/topology"
)

const (
	tokenizerFile       = "tokenizer.json"
	tokenizerConfigFile = "tokenizer_config.json"
	tokensFile          = "tokens.jsonl"
	maxTokenLists       = 64 << 20 // bytes of tokens.jsonl that are read
)

// texts are the files of a tokenizer, nil where they are missing.
type texts struct {
	tokenizer, config, special []byte
	template, templateFile     string // the chat template, and where it stands
}

// readTexts reads the tokenizer's files. read gives a file, false for one that is
// not there.
func readTexts(read func(name string) ([]byte, bool, error)) (t texts, err error) {
	for _, f := range []struct {
		name string
		to   *[]byte
	}{{tokenizerFile, &t.tokenizer}, {tokenizerConfigFile, &t.config}, {"special_tokens_map.json", &t.special}} {
		if *f.to, _, err = read(f.name); err != nil {
			return t, err
		}
	}
	for _, name := range []string{"chat_template.jinja", "chat_template.json"} {
		text, ok, err := read(name)
		if err != nil {
			return t, err
		}
		if !ok {
			continue
		}
		t.template, t.templateFile = string(text), name
		if s, ok := rootOf(text)["chat_template"].(string); ok {
			t.template = s
		}
		return t, nil
	}
	if s := templateOf(rootOf(t.config)["chat_template"]); s != "" {
		t.template, t.templateFile = s, tokenizerConfigFile
	}
	return t, nil
}

// templateOf is the template of a config: a text, or a list of named ones, of
// which the default one counts.
func templateOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []any:
		for _, e := range v {
			o, _ := e.(map[string]any)
			if s, ok := o["template"].(string); ok && (o["name"] == "default" || len(v) == 1) {
				return s
			}
		}
	}
	return ""
}

// sideReader reads files beside a checkpoint.
func sideReader(c *checkpoint.Checkpoint) func(string) ([]byte, bool, error) {
	return func(name string) ([]byte, bool, error) {
		f, ok := c.SideFile(name)
		if !ok {
			return nil, false, nil
		}
		text, err := f.Read()
		return text, err == nil, err
	}
}

// tokenizer looks at truncation, padding, begin tokens and ids, and holds tokenizer
// and chat template against the source's. It reads their files.
func (r *run) tokenizer() error {
	own, err := readTexts(sideReader(r.Checkpoint))
	if err != nil {
		return err
	}
	r.texts(own)
	r.vocabulary(own.tokenizer)
	if dir, ok := r.Checkpoint.Folder(); ok {
		if err := r.tokenLists(dir, own); err != nil {
			return err
		}
	}
	if r.From == nil {
		return nil
	}
	source, err := readTexts(sideReader(r.From))
	if err != nil {
		return err
	}
	r.against(own, source)
	return nil
}

// folder is tokenizer of a folder without weights.
func (r *run) folder() error {
	own, err := readTexts(func(name string) ([]byte, bool, error) {
		f, info, err := checkpoint.OpenRegular(filepath.Join(r.Folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		defer f.Close()
		text, err := io.ReadAll(io.LimitReader(f, info.Size()))
		return text, err == nil, err
	})
	if err != nil {
		return err
	}
	r.add(idWeightsMissing, Finding{Message: "no weights are there; the tokenizer's files were checked"})
	r.texts(own)
	return r.tokenLists(r.Folder, own)
}

// texts looks at the files by themselves.
func (r *run) texts(t texts) {
	for _, f := range []struct {
		name string
		text []byte
	}{{tokenizerFile, t.tokenizer}, {tokenizerConfigFile, t.config}} {
		if f.text != nil && rootOf(f.text) == nil {
			r.add("tokenizer-unreadable", Finding{File: f.name, Message: "is no JSON object"})
		}
	}
	root := rootOf(t.tokenizer)
	if o, ok := root["truncation"].(map[string]any); ok {
		length := fmt.Sprint(o["max_length"])
		r.add("tokenizer-truncation", Finding{
			File: tokenizerFile, Message: fmt.Sprintf("truncation to max_length %s is baked in: long prompts are cut", length),
			Evidence: []Evidence{{"truncation.max_length", length}, {"truncation.strategy", fmt.Sprint(o["strategy"])}},
		})
	}
	if o, ok := root["padding"].(map[string]any); ok {
		r.add("tokenizer-padding", Finding{File: tokenizerFile, Message: fmt.Sprintf("padding (%s) is baked in", compact(o["strategy"])), Evidence: []Evidence{{"padding", compact(o)}}})
	}
	if adds, _ := rootOf(t.config)["add_bos_token"].(bool); adds && beginsWithBOS(t.template, beginToken(t.config)) {
		r.add("bos-added-twice", Finding{
			File: tokenizerConfigFile, Message: fmt.Sprintf("add_bos_token is true and the chat template of %s begins with the begin token as well", t.templateFile),
			Evidence: []Evidence{{"add_bos_token", "true"}, {"template begins", firstLine(t.template)}},
		})
	}
}

// beginsWithBOS says whether a template writes the begin token first.
func beginsWithBOS(template, bos string) bool {
	rest := strings.TrimLeft(template, " \t\r\n")
	for _, open := range []string{"{{-", "{{"} {
		if after, ok := strings.CutPrefix(rest, open); ok {
			rest = strings.TrimLeft(after, " ")
			return strings.HasPrefix(rest, "bos_token")
		}
	}
	return bos != "" && strings.HasPrefix(rest, bos)
}

// beginToken is the begin token of a config, "" for none.
func beginToken(config []byte) string {
	switch v := rootOf(config)["bos_token"].(type) {
	case string:
		return v
	case map[string]any:
		s, _ := v["content"].(string)
		return s
	}
	return ""
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	if len(line) > 60 {
		line = strings.ToValidUTF8(line[:60], "") + "…"
	}
	return line
}

func compact(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// vocabulary holds the largest id against the rows of the embedding.
func (r *run) vocabulary(text []byte) {
	var f struct {
		Added []struct {
			ID int64 `json:"id"`
		} `json:"added_tokens"`
		Model struct {
			Vocab json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	if json.Unmarshal(text, &f) != nil {
		return
	}
	most := int64(-1)
	ids := map[string]int64{}
	if json.Unmarshal(f.Model.Vocab, &ids) == nil {
		for _, id := range ids {
			most = max(most, id)
		}
	}
	for _, a := range f.Added {
		most = max(most, a.ID)
	}
	for i := range r.Model.Roles {
		role, t := &r.Model.Roles[i], &r.Checkpoint.Tensors[i]
		if role.Kind != topology.Embedding || role.MTP || role.Projection != "" || role.Param != "weight" || len(t.Shape) != 2 || !plainDType(t.DType) {
			continue
		}
		if rows := t.Shape[0]; most >= rows {
			r.add("tokenizer-vocabulary", Finding{
				File: tokenizerFile, Tensor: t.Name, Message: fmt.Sprintf("has ids up to %d, and %s has %d rows", most, t.Name, rows),
				Evidence: []Evidence{{"largest id", fmt.Sprint(most)}, {"rows", fmt.Sprint(rows)}},
			})
		}
		return
	}
}

// tokenLists looks for lists of tokens in the folder that begin with the begin
// token twice.
func (r *run) tokenLists(dir string, t texts) error {
	f, _, err := checkpoint.OpenRegular(filepath.Join(dir, tokensFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lists, twice, line, first, token := 0, 0, 0, 0, int64(0)
	begin, known := beginID(t)
	in := bufio.NewReaderSize(io.LimitReader(f, maxTokenLists), 1<<16)
	for {
		text, err := in.ReadBytes('\n')
		line++
		var doc struct {
			Tokens []int64 `json:"tokens"`
		}
		if json.Unmarshal(bytes.TrimSpace(text), &doc) == nil && len(doc.Tokens) > 1 {
			lists++
			same := doc.Tokens[0] == doc.Tokens[1]
			if same && (!known || doc.Tokens[0] == begin) {
				if twice++; twice == 1 {
					first, token = line, doc.Tokens[0]
				}
			}
		}
		if err != nil {
			break
		}
		if r.ctx.Err() != nil {
			return r.ctx.Err()
		}
	}
	if twice == 0 || !known && twice < lists {
		return nil
	}
	r.add("bos-twice", Finding{
		File: tokensFile, Line: first,
		Message:  fmt.Sprintf("the begin token (bos) %s, id %d, stands twice, at positions 0 and 1, in %d of %d lists", beginToken(t.config), token, twice, lists),
		Evidence: []Evidence{{"token", fmt.Sprint(token)}, {"positions", "0 and 1"}, {"lists", fmt.Sprintf("%d of %d", twice, lists)}},
	})
	return nil
}

// beginID finds the begin token's id in tokenizer.json.
func beginID(t texts) (int64, bool) {
	bos := beginToken(t.config)
	var f struct {
		Added []struct {
			ID      int64  `json:"id"`
			Content string `json:"content"`
		} `json:"added_tokens"`
	}
	if bos == "" || json.Unmarshal(t.tokenizer, &f) != nil {
		return 0, false
	}
	for _, a := range f.Added {
		if a.Content == bos {
			return a.ID, true
		}
	}
	return 0, false
}
