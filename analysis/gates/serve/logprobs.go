package serve

import (
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"quantscope/analysis/gates/chat"
)

// leastLogprob stands for log probabilities that no JSON number can be, as in vLLM.
const leastLogprob = -9999

func logprob(x float64) float64 {
	if !(x >= leastLogprob) {
		return leastLogprob
	}
	return math.Min(x, 0)
}

// chatLogprobs are those of a chat completion's choice.
type chatLogprobs struct {
	Content []chatToken `json:"content"`
	Refusal *string     `json:"refusal"`
}

type chatToken struct {
	chatAlt
	Top []chatAlt `json:"top_logprobs"`
}

type chatAlt struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"` // []byte would be base64
}

// tokenNames says how tokens are called in log probabilities.
type tokenNames bool

// name is the text of a token or, where texts are not told, its id. Bytes that are no
// UTF-8 are replacement characters in it, one each.
func (ids tokenNames) name(id int32, text string) string {
	if ids {
		return "token_id:" + strconv.Itoa(int(id))
	}
	return string([]rune(text))
}

func (ids tokenNames) alt(id int32, text string, p float64) chatAlt {
	a := chatAlt{Token: ids.name(id, text), Logprob: logprob(p), Bytes: make([]int, len(text))}
	for i := range len(text) {
		a.Bytes[i] = int(text[i])
	}
	return a
}

// chatLogprobs writes tokens with their top likeliest.
func (ids tokenNames) chatLogprobs(tokens []chat.Token, top int) *chatLogprobs {
	out := &chatLogprobs{Content: []chatToken{}}
	for i := range tokens {
		t := &tokens[i]
		one := chatToken{chatAlt: ids.alt(t.ID, t.Text, t.Logprob), Top: []chatAlt{}}
		for _, a := range t.Top[:min(top, len(t.Top))] {
			one.Top = append(one.Top, ids.alt(a.ID, a.Text, a.Logprob))
		}
		out.Content = append(out.Content, one)
	}
	return out
}

// textLogprobs are those of a text completion's choice: lists beside each other.
type textLogprobs struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []*float64           `json:"token_logprobs"` // null: the first of a prompt
	Top      []map[string]float64 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"` // of the choice's text, in characters
}

// textLogprobs writes tokens; offset is the characters before them.
func (ids tokenNames) textLogprobs(tokens []chat.Token, top, offset int) *textLogprobs {
	out := &textLogprobs{Tokens: []string{}, Logprobs: []*float64{}, Top: []map[string]float64{}, Offsets: []int{}}
	for i := range tokens {
		t := &tokens[i]
		name := ids.name(t.ID, t.Text)
		out.Tokens = append(out.Tokens, name)
		out.Offsets = append(out.Offsets, offset)
		offset += utf8.RuneCountInString(t.Text)
		if !t.Known {
			out.Logprobs, out.Top = append(out.Logprobs, nil), append(out.Top, nil)
			continue
		}
		own := logprob(t.Logprob)
		m := map[string]float64{}
		for _, a := range t.Top[:min(top, len(t.Top))] {
			if k := ids.name(a.ID, a.Text); !has(m, k) { // of tokens with one name the likeliest
				m[k] = logprob(a.Logprob)
			}
		}
		if !has(m, name) {
			m[name] = own
		}
		out.Logprobs, out.Top = append(out.Logprobs, &own), append(out.Top, m)
	}
	return out
}

func has(m map[string]float64, k string) bool {
	_, ok := m[k]
	return ok
}

// promptAlt is a token of a prompt, or one that was likelier there, as vLLM tells it.
type promptAlt struct {
	Logprob float64 `json:"logprob"`
	Rank    *int    `json:"rank"`
	Text    string  `json:"decoded_token"`
}

// promptLogprobs are vLLM's: for each token of the prompt a map by id of itself and
// the likeliest, null for the first.
func promptLogprobs(tokens []chat.Token, onlyOwn bool) []map[string]promptAlt {
	out := make([]map[string]promptAlt, len(tokens))
	for i := range tokens {
		t := &tokens[i]
		if !t.Known {
			continue
		}
		m := map[string]promptAlt{}
		for j, a := range t.Top {
			if rank := j + 1; !onlyOwn {
				m[fmt.Sprint(a.ID)] = promptAlt{Logprob: logprob(a.Logprob), Rank: &rank, Text: string([]rune(a.Text))}
			}
		}
		own := promptAlt{Logprob: logprob(t.Logprob), Text: string([]rune(t.Text))}
		if t.Rank > 0 {
			own.Rank = &t.Rank
		}
		m[fmt.Sprint(t.ID)] = own
		out[i] = m
	}
	return out
}

// tokenIDs are the ids of tokens.
func tokenIDs(tokens []chat.Token) []int32 {
	ids := make([]int32, len(tokens))
	for i := range tokens {
		ids[i] = tokens[i].ID
	}
	return ids
}
