package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"quantscope/analysis/gates/chat"
)

// fill gives a probe its cases: written out, from a file, or made.
func (p *parser) fill(r *rawProbe, what string) error {
	ways := 0
	for _, there := range []bool{r.cases != nil, r.from != "", r.make != nil} {
		if there {
			ways++
		}
	}
	if ways != 1 {
		return p.fail(r.at, "%s: has %d of cases, from and make; want one", what, ways)
	}
	var err error
	switch {
	case r.cases != nil:
		err = p.each(r.cases, what+": cases", maxCases, func(n *yaml.Node) error { return p.writtenCase(n, r, what) })
	case r.from != "":
		err = p.fromFile(r, what)
	default:
		r.Cases, err = r.make.cases(maxText - p.bytes)
		if err != nil {
			err = p.fail(r.make.at, "%s: make: %v", what, err)
		}
	}
	if err != nil {
		return err
	}
	if len(r.Cases) == 0 {
		return p.fail(r.at, "%s: has no cases", what)
	}
	given, err := p.named(r, what)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range r.Cases {
		c := &r.Cases[i]
		if c.ID == "" {
			c.ID = strconv.Itoa(i)
		}
		if seen[c.ID] {
			return p.fail(r.at, "%s: case %q is there twice", what, c.ID)
		}
		seen[c.ID] = true
		if c.Tools == nil {
			c.Tools = given
		}
		p.bytes += int64(len(c.Prompt))
		for _, t := range c.Turns {
			p.bytes += int64(len(t.User))
		}
		if p.bytes > maxText {
			return p.fail(r.at, "%s: the suite's cases have more than %d bytes", what, maxText)
		}
	}
	return nil
}

func (p *parser) named(r *rawProbe, what string) ([]chat.Tool, error) {
	var out []chat.Tool
	for _, name := range r.tools {
		t, ok := p.tools[name]
		if !ok {
			return nil, p.fail(r.at, "%s: unknown tool %q; known are %s", what, name, list(p.order))
		}
		out = append(out, t)
	}
	return out, nil
}

func (p *parser) tool(n *yaml.Node) error {
	var t chat.Tool
	var parameters map[string]any
	if err := p.fields(n, "tool", map[string]field{
		"name": p.text("tool: name", &t.Name), "description": p.text("tool: description", &t.Description),
		"parameters": p.object("tool: parameters", &parameters),
	}); err != nil {
		return err
	}
	if _, there := p.tools[t.Name]; there || t.Name == "" {
		return p.fail(n, "tool: name: is %q, which is empty or there already", t.Name)
	}
	if parameters != nil {
		raw, err := json.Marshal(parameters)
		if err != nil {
			return p.fail(n, "tool %s: %v", t.Name, err)
		}
		t.Parameters = raw
	}
	p.tools[t.Name], p.order = t, append(p.order, t.Name)
	return nil
}

// writtenCase reads one of cases: ask and want for one question, turns for many,
// prompt and want for a text that is gone on with.
func (p *parser) writtenCase(n *yaml.Node, r *rawProbe, what string) error {
	var c Case
	var ask string
	var want *Want
	what += ": case"
	if err := p.fields(n, what, map[string]field{
		"id": p.text(what+": id", &c.ID), "ask": p.text(what+": ask", &ask), "prompt": p.text(what+": prompt", &c.Prompt),
		"want":   func(n *yaml.Node) (err error) { want, err = p.want(n, what); return err },
		"tokens": p.count(what+": tokens", 0, 1<<30, &c.Tokens), "depth": p.number(what+": depth", 0, 1, &c.Depth),
		"turns": func(n *yaml.Node) error {
			return p.each(n, what+": turns", 1000, func(n *yaml.Node) error {
				var t Turn
				if err := p.fields(n, what+": turn", map[string]field{
					"ask":  p.text(what+": turn: ask", &t.User),
					"want": func(n *yaml.Node) (err error) { t.Want, err = p.want(n, what+": turn"); return err },
				}); err != nil {
					return err
				}
				if strings.TrimSpace(t.User) == "" {
					return p.fail(n, "%s: turn: asks nothing", what)
				}
				c.Turns = append(c.Turns, t)
				return nil
			})
		},
	}); err != nil {
		return err
	}
	ways := 0
	for _, there := range []bool{ask != "", c.Prompt != "", c.Turns != nil} {
		if there {
			ways++
		}
	}
	switch {
	case ways != 1:
		return p.fail(n, "%s: has %d of ask, turns and prompt; want one", what, ways)
	case c.Turns != nil && want != nil:
		return p.fail(n, "%s: want stands beside the turns; it belongs to one of them", what)
	case ask != "":
		c.Turns = []Turn{{User: ask, Want: want}}
	case c.Prompt != "":
		c.Want = want
	}
	r.Cases = append(r.Cases, c)
	return nil
}

func (p *parser) want(n *yaml.Node, what string) (*Want, error) {
	what += ": want"
	w := &Want{}
	if n.Kind == yaml.ScalarNode {
		return w, p.text(what, &w.Text)(n)
	}
	return w, p.fields(n, what, map[string]field{
		"text": p.text(what+": text", &w.Text), "any": p.texts(what+": any", &w.Any), "all": p.texts(what+": all", &w.All),
		"absent": p.texts(what+": absent", &w.Absent), "script": p.text(what+": script", &w.Script),
		"min_runes": p.count(what+": min_runes", 0, maxFile, &w.MinRunes), "max_runes": p.count(what+": max_runes", 0, maxFile, &w.MaxRunes),
		"call": func(n *yaml.Node) error {
			w.Call = &Call{}
			return p.fields(n, what+": call", map[string]field{
				"name": p.text(what+": call: name", &w.Call.Name), "arguments": p.object(what+": call: arguments", &w.Call.Arguments),
			})
		},
	})
}

// maxTaskFile bounds a file of tasks; GSM8K's has 5 MB.
const maxTaskFile = 64 << 20

// fromFile reads tasks, one JSON object a line: question and answer, as GSM8K has
// them, where the answer is what follows the last ####; or prompt and want.
func (p *parser) fromFile(r *rawProbe, what string) error {
	if p.read == nil {
		return p.fail(r.at, "%s: from: files are not read here", what)
	}
	raw, err := p.read(r.from)
	if err != nil {
		return p.fail(r.at, "%s: from: %v", what, err)
	}
	if len(raw) > maxTaskFile {
		return p.fail(r.at, "%s: from: %s has %d bytes, more than a file may have (%d)", what, r.from, len(raw), maxTaskFile)
	}
	p.files = append(p.files, raw)
	for i, line := range bytes.Split(bytes.TrimPrefix(raw, []byte("\ufeff")), []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if len(r.Cases) >= maxCases {
			return p.fail(r.at, "%s: from: %s has more than %d tasks", what, r.from, maxCases)
		}
		c, err := task(line)
		if err != nil {
			return &Error{r.from, i + 1, err.Error()}
		}
		if c.ID == "" {
			c.ID = strconv.Itoa(i)
		}
		r.Cases = append(r.Cases, c)
	}
	return nil
}

func task(line []byte) (c Case, err error) {
	var t struct {
		ID, Question, Answer, Prompt *string
		Want                         json.RawMessage
	}
	if !utf8.Valid(line) {
		return c, fmt.Errorf("is not UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	if err := dec.Decode(&t); err != nil {
		return c, fmt.Errorf("is no JSON object of a task: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return c, fmt.Errorf("has more than one JSON object")
	}
	if t.ID != nil {
		c.ID = *t.ID
	}
	switch {
	case t.Question != nil && t.Answer != nil && t.Prompt == nil && t.Want == nil:
		answer := *t.Answer
		if i := strings.LastIndex(answer, "####"); i >= 0 {
			answer = answer[i+4:]
		}
		c.Turns = []Turn{{User: *t.Question, Want: &Want{Text: strings.TrimSpace(answer)}}}
	case t.Prompt != nil && t.Question == nil && t.Answer == nil:
		var w Want
		var text string
		if json.Unmarshal(t.Want, &text) == nil {
			w.Text = text
		} else {
			d := json.NewDecoder(bytes.NewReader(t.Want))
			d.DisallowUnknownFields()
			if err := d.Decode(&w); err != nil {
				return c, fmt.Errorf("want: %w", err)
			}
		}
		c.Turns = []Turn{{User: *t.Prompt, Want: &w}}
	default:
		return c, fmt.Errorf("has neither question and answer nor prompt and want")
	}
	if strings.TrimSpace(c.Turns[0].User) == "" {
		return c, fmt.Errorf("asks nothing")
	}
	return c, nil
}
