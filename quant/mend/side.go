package mend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"quantscope/quant/checkpoint"
)

// processorFiles are what models with other inputs than text need beside the
// weights.
var processorFiles = []string{"preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json"}

// processors restores configs of processors that are not there.
func (w *work) processors(s *Step) error {
	had := 0
	for _, name := range processorFiles {
		text, ok, err := sideText(w.src.ck, name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		had++
		if _, ok := w.out.ck.SideFile(name); ok {
			continue
		}
		w.put(s, name, "file", "not there", fmt.Sprintf("%d bytes, the source's", len(text)), text)
	}
	if err := w.rebuild(s); err != nil {
		return err
	}
	switch {
	case s.Needed:
		s.Says = "configs of processors are missing"
	case had == 0:
		s.Says = "the source has no processors"
	default:
		s.Says = fmt.Sprintf("all %d of the source are there", had)
	}
	return nil
}

const preprocessorName = "preprocessor_config.json"

// rebuild makes preprocessor_config.json, which servers ask for, of the object that
// newer tools keep in processor_config.json.
func (w *work) rebuild(s *Step) error {
	if _, ok, err := w.text(preprocessorName); ok || err != nil {
		return err
	}
	text, ok, err := w.text("processor_config.json")
	if err != nil || !ok {
		return err
	}
	image, err := member(text, "image_processor")
	if err != nil || len(image) == 0 || image[0] != '{' {
		return nil // nothing that could be one
	}
	class, err := member(text, "processor_class")
	if err != nil {
		return err
	}
	made := append(bytes.TrimSpace(bytes.Clone(image)), '\n')
	if own, err := member(made, "processor_class"); err == nil && own == nil && class != nil {
		if made, err = checkpoint.SetMember(made, "processor_class", class); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(made), "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	w.put(s, preprocessorName, "file", "not there", "image_processor of processor_config.json", out.Bytes())
	return nil
}

// tokenizerFiles are those that say how text becomes tokens.
var tokenizerFiles = []string{
	"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "merges.txt",
	"tokenizer.model", "spiece.model", "vocab.txt", "tekken.json",
}

const tokenizerName = "tokenizer.json"

// tokenizer restores the files of the tokenizer as they were, with nothing in them
// that was set for calibrating.
func (w *work) tokenizer(s *Step) error {
	had := 0
	for _, name := range tokenizerFiles {
		text, ok, err := sideText(w.src.ck, name)
		if err != nil {
			return err
		}
		now, there, err := sideText(w.out.ck, name)
		if err != nil {
			return err
		}
		if !ok {
			text = now
		}
		if !ok && (!there || name != tokenizerName) {
			continue
		}
		had++
		after := fmt.Sprintf("%d bytes, the source's", len(text))
		if name == tokenizerName {
			if text, err = unlimited(text); err != nil {
				return &checkpoint.FileError{File: w.src.ck.Path + "/" + name, Reason: "is not readable", Err: err}
			}
			after = fmt.Sprintf("%s, truncation and padding off", tokensOf(text))
		}
		if there && bytes.Equal(now, text) {
			continue
		}
		before := "not there"
		if there {
			before = fmt.Sprintf("%d bytes", len(now))
			if name == tokenizerName {
				before = tokensOf(now) + limitsOf(now)
			}
		}
		w.put(s, name, "file", before, after, text)
	}
	switch {
	case s.Needed:
		s.Says = "differs from the source's"
	case had == 0:
		s.Says = "the source has no tokenizer"
	default:
		s.Says = fmt.Sprintf("all %d files are the source's", had)
	}
	return nil
}

// unlimited is a tokenizer.json whose truncation and padding are null.
func unlimited(text []byte) ([]byte, error) {
	for _, key := range []string{"truncation", "padding"} {
		have, err := member(text, key)
		if err != nil {
			return nil, err
		}
		if len(have) == 0 || string(have) == "null" {
			continue
		}
		if text, err = checkpoint.SetMember(text, key, []byte("null")); err != nil {
			return nil, err
		}
	}
	return text, nil
}

// limitsOf says what a tokenizer.json cuts or fills up.
func limitsOf(text []byte) string {
	said := ""
	for _, key := range []string{"truncation", "padding"} {
		raw, err := member(text, key)
		if err != nil || len(raw) == 0 || string(raw) == "null" {
			continue
		}
		var limit struct {
			Max *int64 `json:"max_length"`
		}
		if json.Unmarshal(raw, &limit) == nil && limit.Max != nil {
			said += fmt.Sprintf(", %s to %d", key, *limit.Max)
		} else {
			said += ", " + key
		}
	}
	return said
}

// tokensOf counts the tokens of a tokenizer.json.
func tokensOf(text []byte) string {
	var t struct {
		Model struct {
			Vocab json.RawMessage `json:"vocab"`
		} `json:"model"`
		Added []struct {
			Content string `json:"content"`
		} `json:"added_tokens"`
	}
	if json.Unmarshal(text, &t) != nil {
		return fmt.Sprintf("%d bytes", len(text))
	}
	var byName map[string]json.RawMessage
	var listed []json.RawMessage
	n := 0
	switch {
	case json.Unmarshal(t.Model.Vocab, &byName) == nil:
		n = len(byName)
	case json.Unmarshal(t.Model.Vocab, &listed) == nil:
		n = len(listed)
	}
	for _, a := range t.Added {
		if _, in := byName[a.Content]; !in {
			n++
		}
	}
	return fmt.Sprintf("%d tokens", n)
}

const (
	templateName   = "chat_template.jinja"
	oldTemplate    = "chat_template.json"
	tokenizerConf  = "tokenizer_config.json"
	templateMember = "chat_template"
)

// template restores the chat template. Where the source has it as a file, the same
// file; where it stands in tokenizer_config.json, there, unless a file here would hide
// it.
func (w *work) template(s *Step) error {
	had := false
	for _, name := range []string{templateName, oldTemplate} {
		text, ok, err := sideText(w.src.ck, name)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		had = true
		now, there, err := w.text(name)
		if err != nil {
			return err
		}
		if there && bytes.Equal(now, text) {
			continue
		}
		before := "not there"
		if there {
			before = fmt.Sprintf("%d bytes", len(now))
		}
		w.put(s, name, "file", before, fmt.Sprintf("%d bytes, the source's", len(text)), text)
	}
	inner, err := w.innerTemplate(s, had)
	if err != nil {
		return err
	}
	switch {
	case s.Needed:
		s.Says = "differs from the source's"
	case !had && !inner:
		s.Says = "the source has no chat template"
	default:
		s.Says = "is the source's"
	}
	return nil
}

// innerTemplate restores the member of tokenizer_config.json. file says that the
// source has a file as well.
func (w *work) innerTemplate(s *Step, file bool) (had bool, err error) {
	config, ok, err := sideText(w.src.ck, tokenizerConf)
	if err != nil || !ok {
		return false, err
	}
	want, err := member(config, templateMember)
	if err != nil || len(want) == 0 || string(want) == "null" {
		return false, err
	}
	now, there, err := w.text(tokenizerConf)
	if err != nil {
		return true, err
	}
	var text string
	if hides, ok, err := w.text(templateName); err == nil && ok && !file && json.Unmarshal(want, &text) == nil {
		// The file comes before the member for those that read both.
		if string(hides) != text {
			w.put(s, templateName, "file", fmt.Sprintf("%d bytes, which hide that of %s", len(hides), tokenizerConf), fmt.Sprintf("%d bytes, the source's", len(text)), []byte(text))
		}
		return true, nil
	}
	if !there {
		w.put(s, tokenizerConf, "file", "not there", fmt.Sprintf("%d bytes, the source's", len(config)), config)
		return true, nil
	}
	have, err := member(now, templateMember)
	if err != nil {
		return true, &checkpoint.FileError{File: w.out.ck.Path + "/" + tokenizerConf, Reason: "is not readable", Err: err}
	}
	var a, b any
	if json.Unmarshal(want, &a) == nil && json.Unmarshal(have, &b) == nil && fmt.Sprint(a) == fmt.Sprint(b) {
		return true, nil
	}
	if !slices.Contains([]byte{'"', '['}, want[0]) {
		return true, nil
	}
	before := "not there"
	if len(have) > 0 {
		before = fmt.Sprintf("%d bytes", len(have))
	}
	made, err := checkpoint.SetMember(now, templateMember, want)
	if err != nil {
		return true, err
	}
	w.put(s, tokenizerConf, templateMember, before, fmt.Sprintf("%d bytes, the source's", len(want)), made)
	return true, nil
}
