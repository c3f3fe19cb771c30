package tokenizer

import (
	"strings"
	"testing"
)

// prose is a megabyte of English with the words of a real text: most come again.
func prose(b *testing.B) string {
	b.Helper()
	words := strings.Fields(strings.Join(probes, " ") + ` It is a truth that whoever measures a thing with a ruler must say how exact the ruler is, and
	nobody believes a figure without its error; so the second line of every table says what the same weights give twice, once with other
	arithmetic. We read forty pages of results, and in each of them the largest number was a mistake of the reader's own making.`)
	var s strings.Builder
	state := uint64(1)
	for s.Len() < 1<<20 {
		state = state*6364136223846793005 + 1442695040888963407
		s.WriteString(words[state>>33%uint64(len(words))])
		s.WriteByte(" \n"[b2i(state>>60 == 0)])
	}
	return s.String()
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func BenchmarkEncode(b *testing.B) {
	text := prose(b)
	for _, name := range []string{"llama3", "gpt2", "gpt_oss_o200k", "deepseek_v3", "llama2_mistral1", "gemma", "unigram"} {
		b.Run(name, func(b *testing.B) {
			tok, err := Parse(readPeer(b, "testdata/peer/"+name+".json.gz").Tokenizer)
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text, false)
			}
		})
	}
}
