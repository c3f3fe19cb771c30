package lint

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// against holds tokenizer and template against the source's.
func (r *run) against(own, source texts) {
	switch {
	case own.tokenizer == nil && source.tokenizer != nil:
		r.add("tokenizer-missing", Finding{File: tokenizerFile, Message: "is missing, and the source has it"})
	case own.tokenizer != nil && source.tokenizer != nil:
		if diff := TokenizerDiff(own.tokenizer, source.tokenizer); len(diff) > 0 {
			var parts []string
			for _, d := range diff {
				parts = append(parts, d.What+": "+d.Value)
			}
			r.add("tokenizer-differs", Finding{File: tokenizerFile, Message: strings.Join(parts, "; "), Evidence: diff})
		}
	}
	if diff := configDiff(own, source); len(diff) > 0 {
		r.add("tokenizer-config-differs", Finding{File: tokenizerConfigFile, Message: "differs in " + some(names(diff), 6), Evidence: diff})
	}
	switch a, b := normalTemplate(own.template), normalTemplate(source.template); {
	case a == b:
	case a == "":
		r.add("chat-template-missing", Finding{File: source.templateFile, Message: "the chat template is missing, and the source has it in " + source.templateFile})
	case b != "":
		line, x, y := firstDifference(a, b)
		r.add("chat-template-differs", Finding{
			File: own.templateFile, Message: fmt.Sprintf("the chat template differs from the source's in line %d", line), Line: lineIn(own.templateFile, line),
			Evidence: []Evidence{{"here", x}, {"source", y}},
		})
	}
}

// lineIn is a line of a template as one of its file: in JSON it has none.
func lineIn(file string, line int) int {
	if strings.HasSuffix(file, ".jinja") {
		return line
	}
	return 0
}

// normalTemplate is a template without blanks at line ends.
func normalTemplate(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// firstDifference is the first line that differs, from 1, and what it is in each.
func firstDifference(a, b string) (line int, x, y string) {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := 0; i < max(len(as), len(bs)); i++ {
		at := func(s []string) string {
			if i < len(s) {
				return firstLine(s[i])
			}
			return "ends"
		}
		if i >= len(as) || i >= len(bs) || as[i] != bs[i] {
			return i + 1, at(as), at(bs)
		}
	}
	return 0, "", ""
}

func names(list []Evidence) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.What)
	}
	return out
}

// configKeys are those of tokenizer_config.json that change ids.
var configKeys = []string{"bos_token", "eos_token", "unk_token", "pad_token", "add_bos_token", "add_eos_token", "add_prefix_space", "split_special_tokens", "model_max_length", "added_tokens_decoder"}

// configDiff holds the values that change ids against the source's; what one of
// the two does not say is no difference, since defaults are written or not by
// version.
func configDiff(own, source texts) []Evidence {
	var out []Evidence
	a, b := rootOf(own.config), rootOf(source.config)
	for _, key := range configKeys {
		x, y := a[key], b[key]
		if x == nil || y == nil || reflect.DeepEqual(tokenContent(x), tokenContent(y)) {
			continue
		}
		out = append(out, Evidence{key, fmt.Sprintf("%s, in the source %s", brief(x), brief(y))})
	}
	c, d := rootOf(own.special), rootOf(source.special)
	for _, key := range slices.Sorted(maps.Keys(d)) {
		if x, ok := c[key]; ok && !reflect.DeepEqual(tokenContent(x), tokenContent(d[key])) {
			out = append(out, Evidence{"special_tokens_map " + key, fmt.Sprintf("%s, in the source %s", brief(x), brief(d[key]))})
		}
	}
	return out
}

// tokenContent is a special token's text, whether it is written as a text or as an
// object; other values as they are.
func tokenContent(v any) any {
	if o, ok := v.(map[string]any); ok {
		if s, ok := o["content"].(string); ok {
			return s
		}
	}
	return v
}

func brief(v any) string {
	s := compact(v)
	if len(s) > 60 {
		s = strings.ToValidUTF8(s[:60], "") + "…"
	}
	return s
}

// TokenizerDiff says how two tokenizer.json differ in what they do: by part, with
// counts and the first ones. The order of keys and of tokens, versions, truncation
// and padding do not count; texts that are no objects differ as a whole.
func TokenizerDiff(a, b []byte) []Evidence {
	x, y := rootOf(a), rootOf(b)
	if x == nil || y == nil {
		if slices.Equal(a, b) {
			return nil
		}
		return []Evidence{{"file", "is no JSON object here or in the source"}}
	}
	var out []Evidence
	add := func(what string, said []string) {
		if len(said) > 0 {
			out = append(out, Evidence{what, some(said, 3)})
		}
	}
	mx, _ := x["model"].(map[string]any)
	my, _ := y["model"].(map[string]any)
	add("tokens", mapDiff(vocabOf(mx["vocab"]), vocabOf(my["vocab"])))
	add("merges", mergeDiff(mergesOf(mx["merges"]), mergesOf(my["merges"])))
	add("added tokens", mapDiff(addedOf(x["added_tokens"]), addedOf(y["added_tokens"])))
	for _, key := range []string{"normalizer", "pre_tokenizer", "post_processor", "decoder"} {
		if !reflect.DeepEqual(x[key], y[key]) {
			out = append(out, Evidence{key, fmt.Sprintf("%s, in the source %s", brief(x[key]), brief(y[key]))})
		}
	}
	rest := map[string]string{}
	other := map[string]string{}
	for _, m := range []struct {
		from map[string]any
		to   map[string]string
	}{{mx, rest}, {my, other}} {
		for k, v := range m.from {
			if k != "vocab" && k != "merges" && v != nil && v != false {
				m.to[k] = compact(v)
			}
		}
	}
	add("model", mapDiff(rest, other))
	return out
}

// vocabOf is ids by token: of an object, or of a list of tokens with scores.
func vocabOf(v any) map[string]string {
	out := map[string]string{}
	switch v := v.(type) {
	case map[string]any:
		for k, id := range v {
			out[k] = compact(id)
		}
	case []any:
		for i, e := range v {
			if pair, ok := e.([]any); ok && len(pair) == 2 {
				s, _ := pair[0].(string)
				out[s] = fmt.Sprintf("%d with %s", i, compact(pair[1]))
			}
		}
	}
	return out
}

// addedOf is what added tokens are, by their text.
func addedOf(v any) map[string]string {
	out := map[string]string{}
	list, _ := v.([]any)
	for _, e := range list {
		o, _ := e.(map[string]any)
		s, _ := o["content"].(string)
		rest := maps.Clone(o)
		maps.DeleteFunc(rest, func(k string, v any) bool { return k == "content" || v == false })
		b, err := json.Marshal(rest)
		if err == nil {
			out[s] = string(b)
		}
	}
	return out
}

// mergesOf writes merges as pairs joined by a blank, whichever way they are kept.
func mergesOf(v any) []string {
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, e := range list {
		switch e := e.(type) {
		case string:
			out = append(out, e)
		case []any:
			if len(e) == 2 {
				a, _ := e[0].(string)
				b, _ := e[1].(string)
				out = append(out, a+" "+b)
			}
		}
	}
	return out
}

// mergeDiff counts merges that one side lacks, and says where the order differs
// first: earlier ones go first.
func mergeDiff(a, b []string) []string {
	if slices.Equal(a, b) {
		return nil
	}
	has := map[string]bool{}
	for _, m := range b {
		has[m] = true
	}
	extra := 0
	for _, m := range a {
		if !has[m] {
			extra++
		}
	}
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return []string{fmt.Sprintf("%d here and %d in the source, %d of them only here, the first difference in place %d", len(a), len(b), extra, i)}
		}
	}
	return nil
}

// mapDiff lists keys that differ, with counts first.
func mapDiff(a, b map[string]string) []string {
	var missing, extra, other []string
	for k, v := range b {
		if w, ok := a[k]; !ok {
			missing = append(missing, k)
		} else if v != w {
			other = append(other, k)
		}
	}
	for k := range a {
		if _, ok := b[k]; !ok {
			extra = append(extra, k)
		}
	}
	var out []string
	for _, l := range []struct {
		what string
		list []string
	}{{"missing", missing}, {"only here", extra}, {"other", other}} {
		if len(l.list) > 0 {
			slices.Sort(l.list)
			quoted := make([]string, min(len(l.list), 3))
			for i := range quoted {
				quoted[i] = brief(l.list[i])
			}
			more := ""
			if len(l.list) > len(quoted) {
				more = ", …"
			}
			out = append(out, fmt.Sprintf("%d %s (%s%s)", len(l.list), l.what, strings.Join(quoted, ", "), more))
		}
	}
	return out
}
