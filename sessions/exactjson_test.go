package sessions

import (
	"encoding/json"
	"math"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/grade"
)

// anyText draws texts that JSON has trouble with.
func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) }),
		rapid.SampledFrom([]string{"", "\xff", "\xed\xa0\xbd", "한\xed\x95", "\ufffd", `\ufffd`, "\x00\x1b[2J", "a\u2028b", "<script>", "/~"}),
	)
}

func anyFigure() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.Copysign(0, -1), math.MaxFloat64, 5e-324}))
}

// drawResult draws an answer of any bytes and figures.
func drawResult(t *rapid.T) *gates.Result {
	text := func(name string) string { return anyText().Draw(t, name) }
	r := &gates.Result{Seed: rapid.Uint64().Draw(t, "seed"), Nonce: text("nonce")}
	for range rapid.IntRange(0, 3).Draw(t, "turns") {
		p := chat.Reply{Text: text("text"), Reasoning: text("reasoning"), Finish: text("finish"), CachedTokens: -1, Total: time.Duration(rapid.Int64().Draw(t, "total"))}
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			p.ToolCalls = append(p.ToolCalls, chat.ToolCall{Name: text("name"), Arguments: text("arguments")})
		}
		for range rapid.IntRange(0, 2).Draw(t, "tokens") {
			p.Tokens = append(p.Tokens, chat.Token{ID: rapid.Int32().Draw(t, "id"), Text: text("token"), Logprob: anyFigure().Draw(t, "logprob"), Top: []chat.Alt{{Text: text("alt"), Logprob: anyFigure().Draw(t, "alt logprob")}}})
		}
		r.Answer.Replies = append(r.Answer.Replies, p)
	}
	r.Answer.Error, r.Verdict.Reason, r.Verdict.Fault = text("error"), text("reason"), grade.Fault(text("fault"))
	r.Verdict.Figures = rapid.MapOf(rapid.SampledFrom([]string{"runes", "a/b", "~", ""}), anyFigure()).Draw(t, "figures")
	return r
}

// Whatever a model writes and whatever the figures are, an answer comes out of its
// event bit for bit, and the payload is JSON that any program reads.
func TestAnswersAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawResult(t)
		e, err := newAnswerEvent(3, want)
		if err != nil {
			t.Fatal(err)
		}
		got := stored{Event: Event{Kind: EventAnswer}, payload: e.payload}
		if err := decodeEvent(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.gate.Result, sameBits, cmpopts.EquateEmpty()); diff != "" || got.gateRun != 3 {
			t.Fatalf("run %d: %s", got.gateRun, diff)
		}
		doc, err := unpack(e.payload)
		if err != nil || !json.Valid(doc) || !utf8.Valid(doc) {
			t.Fatalf("%v: %q", err, doc)
		}
	})
}

// A document in the documentation's form, written by hand.
func TestAnswerByHand(t *testing.T) {
	const doc = `{"run":0,"result":{"arm":1,"probe":0,"case":2,"pass":1,"answer":{"replies":[{"text":"the \ufffd","prompt_tokens":3,"tokens":[{"id":7,"text":"x","known":true,"logprob":0}]}]},"verdict":{"passed":false}},` +
		`"raw":{"/result/answer/replies/0/text":"dGhlIO2V"},"nonfinite":{"/result/answer/replies/0/tokens/0/logprob":"-Infinity"}}`
	e := stored{Event: Event{Kind: EventAnswer}, payload: []byte(doc)}
	if err := decodeEvent(&e); err != nil {
		t.Fatal(err)
	}
	r := e.gate.Result
	if p := r.Answer.Replies[0]; p.Text != "the \xed\x95" || !math.IsInf(p.Tokens[0].Logprob, -1) || r.Key() != (gates.Key{Arm: 1, Case: 2, Pass: 1}) {
		t.Errorf("%+v", r)
	}
	for _, at := range []string{"/result/nothing", "/result/arm", "result", "", "/result/answer/replies/1/text", "/result/answer/replies/-1/text", "/result/answer/replies/0/text/x", "/setup/suite", "/result/verdict/figures/x"} {
		b, _ := json.Marshal(map[string][]byte{at: []byte("x")})
		e := stored{Event: Event{Kind: EventAnswer}, payload: []byte(`{"run":0,"result":{"answer":{"replies":[{"text":""}]}},"raw":` + string(b) + `}`)}
		if err := decodeEvent(&e); err == nil {
			t.Errorf("a pointer %q is taken", at)
		}
	}
}

// Setups hold what YAML gives them: figures that are not finite too, deep in
// arguments.
func TestSetupsAreExact(t *testing.T) {
	s := &gates.Setup{Suite: "a\xff", Arms: []gates.Arm{{Label: "x"}}, Probes: gateSuite().Probes}
	s.Probes[0].Args = map[string]any{"deep": []any{map[string]any{"a/b~": math.Inf(1), "text": "\xff"}}, "n": 3.0, "none": nil}
	e, err := newGatesEvent(2, s, map[string]string{"model": "\xfe"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s, e.gate.Setup, cmpopts.EquateEmpty()); diff != "" || e.gate.Settings["model"] != "\xfe" || e.gateRun != 2 {
		t.Errorf("%s", diff)
	}
	if s.Probes[0].Args["deep"].([]any)[0].(map[string]any)["text"] != "\xff" {
		t.Error("recording changes the setup")
	}
}
