package local

import (
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"quantscope/analysis/gates/chat"
	"quantscope/quant/demo"
)

// prompts are the ids of the demo's corpora, one after the other, in five kinds of
// text.
func prompts(t testing.TB) []int32 {
	t.Helper()
	corpora, err := demo.Corpora()
	if err != nil {
		t.Fatal(err)
	}
	var out []int32
	for i := range corpora {
		if strings.HasPrefix(corpora[i].Name, "eval.") {
			for k := range 4 {
				out = append(out, corpora[i].Chunk(k)...)
			}
		}
	}
	return out
}

// pieces takes tokens one by one and gives what was handed out.
func pieces(e *Engine, prompt, made []int32, r *chat.Request) (out []string, w words) {
	w = e.newWords(prompt, r)
	for _, id := range made {
		stopped := w.add(id)
		if s := w.next(); s != "" {
			out = append(out, s)
		}
		if stopped {
			return out, w
		}
	}
	w.decode(true)
	return append(out, w.text[w.sent:]), w
}

// TestPiecesAreTheText: the text of tokens one by one is that of all of them, for any
// tokens: bytes that make no character are U+FFFD as in one go, and no piece holds a part of a
// character.
func TestPiecesAreTheText(t *testing.T) {
	c := openedDemo(t)
	e := engineOf(t, c, Options{})
	rng := rand.New(rand.NewPCG(1, 1))
	text := prompts(t)
	broken := 0
	for range 400 {
		var made []int32
		for len(made) < 40 {
			if rng.IntN(2) == 0 {
				from := rng.IntN(len(text) - 10)
				made = append(made, text[from:from+1+rng.IntN(9)]...)
			} else {
				made = append(made, rng.Int32N(1024))
			}
		}
		var shown []int32 // special tokens are no text, but those that calls are written with
		for _, id := range made {
			if id > 2 {
				shown = append(shown, id)
			}
		}
		want := c.Tokenizer.Decode(shown, false)
		from := rng.IntN(len(text) - 10)
		prompt := text[from : from+10]
		got, w := pieces(e, prompt, made, &chat.Request{})
		if strings.Join(got, "") != want || w.text != want {
			t.Fatalf("%v: %q, want %q", made, got, want)
		}
		for _, s := range got {
			if !utf8.ValidString(s) {
				t.Fatalf("a piece is %q", s)
			}
		}
		broken += strings.Count(want, "\uFFFD")
	}
	if broken == 0 {
		t.Error("no text had bytes that make no character")
	}
}

// TestStops: a text ends before the first of its stop strings, wherever tokens begin
// and end, and nothing of it or after it is handed out before that is known.
func TestStops(t *testing.T) {
	c := openedDemo(t)
	e := engineOf(t, c, Options{})
	made := c.Tokenizer.Encode("the cat sat — 서울의 날씨를 — on the mat, and the rat on the hat", false)
	whole := c.Tokenizer.Decode(made, true)
	for from := range len(whole) {
		for _, n := range []int{1, 2, 3, 7, 20} {
			if from+n > len(whole) || !utf8.ValidString(whole[from:from+n]) {
				continue
			}
			stop := whole[from : from+n]
			want := whole[:strings.Index(whole, stop)]
			got, w := pieces(e, nil, made, &chat.Request{Stop: []string{"never there", stop}})
			if !w.stopped || w.text != want || !strings.HasPrefix(want, strings.Join(got, "")) {
				t.Fatalf("stop %q: %q in pieces %q, want %q", stop, w.text, got, want)
			}
		}
	}
	// Of two that the same token completes the one that begins first counts.
	if _, w := pieces(e, nil, made, &chat.Request{Stop: []string{"mat", "the mat"}}); !strings.HasSuffix(w.text, "on ") {
		t.Errorf("%q", w.text)
	}
	// What may become one and does not is text.
	if got, w := pieces(e, nil, made, &chat.Request{Stop: []string{"hats"}}); w.stopped || strings.Join(got, "") != whole {
		t.Errorf("%q, want %q", got, whole)
	}
}

// TestOpenCharacterOfAPrompt: bytes that a prompt leaves open are not the answer's.
func TestOpenCharacterOfAPrompt(t *testing.T) {
	c := openedDemo(t)
	e := engineOf(t, c, Options{})
	rare := c.Tokenizer.Encode("뷁", false) // so rare that it is bytes
	if len(rare) < 2 {
		t.Fatalf("%v is one token", rare)
	}
	got, _ := pieces(e, rare[:1], c.Tokenizer.Encode("abc", false), &chat.Request{})
	if strings.Join(got, "") != "abc" {
		t.Errorf("%q", got)
	}
	if got, _ = pieces(e, rare[:1], rare[1:], &chat.Request{}); strings.Join(got, "") != c.Tokenizer.Decode(rare[1:], false) {
		t.Errorf("%q, want the rest of the character alone", got)
	}
	got, _ = pieces(e, nil, append(c.Tokenizer.Encode("abc", false), rare[:1]...), &chat.Request{})
	if strings.Join(got, "") != "abc\uFFFD" {
		t.Errorf("%q, want what stays open as U+FFFD", got)
	}
}
