package sessions

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/grade"
)

// gateLine is an answer as JSONL has it. What JSON cannot carry of it stands under
// raw and nonfinite, as in the file.
type gateLine struct {
	Run     int           `json:"run"`
	Suite   string        `json:"suite"`
	Probe   string        `json:"probe"`
	Group   string        `json:"group"`
	Case    string        `json:"case"`
	Pass    int           `json:"pass"`
	Arm     string        `json:"arm"`
	Role    gates.Role    `json:"role"`
	Model   string        `json:"model"`
	Seed    uint64        `json:"seed"`
	Nonce   string        `json:"nonce,omitempty"`
	Asked   string        `json:"asked"` // last
	Answer  grade.Answer  `json:"answer"`
	Verdict grade.Verdict `json:"verdict"`
}

// gateRow is an answer as CSV and Parquet have it. Texts are UTF-8 there: U+FFFD
// stands for what is none.
type gateRow struct {
	Run          int64    `parquet:"run"`
	Suite        string   `parquet:"suite,dict"`
	Probe        string   `parquet:"probe,dict"`
	Group        string   `parquet:"group,dict"`
	Case         string   `parquet:"case,dict"`
	Pass         int64    `parquet:"pass"`
	Arm          string   `parquet:"arm,dict"`
	Role         string   `parquet:"role,dict"`
	Model        string   `parquet:"model,dict"`
	Seed         int64    `parquet:"seed"`
	Passed       bool     `parquet:"passed"`
	Fault        *string  `parquet:"fault,optional,dict"`
	Reason       string   `parquet:"reason"`
	Error        *string  `parquet:"error,optional"`
	Turns        int64    `parquet:"turns"`
	Finish       *string  `parquet:"finish,optional,dict"`
	Prompt       *int64   `parquet:"prompt_tokens,optional"`
	Completion   *int64   `parquet:"completion_tokens,optional"`
	Cached       *int64   `parquet:"cached_tokens,optional"`
	Replacement  int64    `parquet:"replacement"`
	Invalid      int64    `parquet:"invalid"`
	Retries      int64    `parquet:"retries"`
	FirstSeconds *float64 `parquet:"first_seconds,optional"`
	Seconds      float64  `parquet:"seconds"`
	Asked        string   `parquet:"asked"`
	Text         string   `parquet:"text"`
}

// gateColumns are those of CSV, in order.
var gateColumns = []string{"run", "suite", "probe", "group", "case", "pass", "arm", "role", "model", "seed", "passed", "fault", "reason", "error", "turns", "finish",
	"prompt_tokens", "completion_tokens", "cached_tokens", "replacement", "invalid", "retries", "first_seconds", "seconds", "asked", "text"}

// GateFormats are the formats of ExportGates.
func GateFormats() []string { return []string{"jsonl", "csv", "parquet"} }

// ExportGates writes the answers of a session's gates, one a line, by run, arm,
// probe, case and pass: as jsonl whole, as csv or parquet without tokens and with
// the text of the last turn. A damaged session is refused.
func ExportGates(ctx context.Context, w io.Writer, path, format string) error {
	if !slices.Contains(GateFormats(), format) {
		return fmt.Errorf("sessions: export format %q is not known of gates (known: %s)", format, strings.Join(GateFormats(), ", "))
	}
	l, err := loadFile(ctx, path)
	if err != nil {
		return err
	}
	if l.damage.any() {
		return &FileError{Path: path, Reason: "is damaged, so it is not exported: " + l.damage.String()}
	}
	switch format {
	case "csv":
		return gateCSV(ctx, w, l.st)
	case "parquet":
		return gateParquet(ctx, w, l.st)
	}
	b := bufio.NewWriterSize(w, 1<<16)
	err = eachAnswer(ctx, l.st, func(g *GateRun, run int, r *gates.Result) error {
		x := newGateLine(g, run, r)
		doc, odd, err := marshalExact(&x)
		if err == nil && len(odd.Raw)+len(odd.NonFinite) > 0 {
			doc, err = joinObjects(doc, &odd)
		}
		if err == nil {
			_, err = b.Write(append(doc, '\n'))
		}
		return err
	})
	if err != nil {
		return err
	}
	return b.Flush()
}

// joinObjects makes one object of a document and another.
func joinObjects(doc []byte, more any) ([]byte, error) {
	b, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	return append(append(doc[:len(doc)-1], ','), b[1:]...), nil
}

// eachAnswer hands on the answers of all runs, in the order of their keys.
func eachAnswer(ctx context.Context, st *State, f func(g *GateRun, run int, r *gates.Result) error) error {
	for i, g := range st.Gates {
		list := slices.Clone(g.Results)
		slices.SortFunc(list, func(a, b *gates.Result) int {
			x, y := a.Key(), b.Key()
			return slices.Compare([]int{x.Arm, x.Probe, x.Case, x.Pass}, []int{y.Arm, y.Probe, y.Case, y.Pass})
		})
		for _, r := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := f(g, i, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func newGateLine(g *GateRun, run int, r *gates.Result) gateLine {
	p, a := &g.Setup.Probes[r.Probe], &g.Setup.Arms[r.Arm]
	c := &p.Cases[r.Case]
	x := gateLine{Run: run, Suite: g.Setup.Suite, Probe: p.ID, Group: p.Group, Case: c.ID, Pass: r.Pass, Arm: a.Label, Role: a.Role, Seed: r.Seed, Nonce: r.Nonce, Asked: c.Prompt, Answer: r.Answer, Verdict: r.Verdict}
	if id := g.Opened[r.Arm]; id != nil {
		x.Model = id.Model
	}
	if n := len(c.Turns); n > 0 {
		x.Asked = c.Turns[min(max(len(r.Answer.Replies)-1, 0), n-1)].User
	}
	return x
}

func newGateRow(g *GateRun, run int, r *gates.Result) gateRow {
	x, t := newGateLine(g, run, r), sumReplies(&r.Answer)
	clean := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	text := func(s string) *string {
		if s == "" {
			return nil
		}
		s = clean(s)
		return &s
	}
	tokens := func(n int) *int64 {
		if n < 0 {
			return nil
		}
		k := int64(n)
		return &k
	}
	out := gateRow{
		Run: int64(run), Suite: clean(x.Suite), Probe: clean(x.Probe), Group: clean(x.Group), Case: clean(x.Case), Pass: int64(r.Pass), Arm: clean(x.Arm), Role: string(x.Role), Model: clean(x.Model),
		Seed: int64(r.Seed), Passed: r.Verdict.Passed, Fault: text(string(r.Verdict.Fault)), Reason: clean(r.Verdict.Reason), Error: text(r.Answer.Error),
		Turns: int64(len(r.Answer.Replies)), Finish: text(t.finish), Prompt: tokens(t.prompt), Completion: tokens(t.made), Cached: tokens(t.cached),
		Replacement: replacements(r), Invalid: int64(t.invalid), Retries: int64(t.retries), Seconds: t.seconds, Asked: clean(x.Asked), Text: clean(t.text),
	}
	if t.first > 0 {
		out.FirstSeconds = &t.first
	}
	return out
}

func gateCSV(ctx context.Context, w io.Writer, st *State) error {
	c := csv.NewWriter(w)
	if err := c.Write(gateColumns); err != nil {
		return err
	}
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	num := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	err := eachAnswer(ctx, st, func(g *GateRun, run int, r *gates.Result) error {
		x := newGateRow(g, run, r)
		first := ""
		if x.FirstSeconds != nil {
			first = csvFigure(*x.FirstSeconds)
		}
		return c.Write([]string{num(&x.Run), x.Suite, x.Probe, x.Group, x.Case, num(&x.Pass), x.Arm, x.Role, x.Model, strconv.FormatUint(r.Seed, 10), strconv.FormatBool(x.Passed), text(x.Fault), x.Reason, text(x.Error),
			num(&x.Turns), text(x.Finish), num(x.Prompt), num(x.Completion), num(x.Cached), num(&x.Replacement), num(&x.Invalid), num(&x.Retries), first, csvFigure(x.Seconds), x.Asked, x.Text})
	})
	if err != nil {
		return err
	}
	c.Flush()
	return c.Error()
}

func gateParquet(ctx context.Context, w io.Writer, st *State) error {
	p := parquet.NewGenericWriter[gateRow](w, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(parquetGroup))
	if err := eachAnswer(ctx, st, func(g *GateRun, run int, r *gates.Result) error {
		_, err := p.Write([]gateRow{newGateRow(g, run, r)})
		return err
	}); err != nil {
		return err
	}
	return p.Close()
}

// repliesSum is what the turns of an answer come to. Counts are -1 where one turn
// was not told.
type repliesSum struct {
	prompt, made, cached, invalid, retries int
	seconds, first                         float64 // first: of the first turn, 0 where it is not known
	finish, text                           string  // of the last turn
}

func sumReplies(a *grade.Answer) repliesSum {
	var t repliesSum
	for i := range a.Replies {
		p := &a.Replies[i]
		t.prompt, t.made, t.cached = told(t.prompt, p.PromptTokens), told(t.made, p.CompletionTokens), told(t.cached, p.CachedTokens)
		t.invalid += p.Invalid
		t.retries += p.Retries
		t.seconds += p.Total.Seconds()
		if i == 0 {
			t.first = p.First.Seconds()
		}
		t.finish, t.text = p.Finish, p.Text
	}
	return t
}

// told adds a count, -1 where one of the two is not known.
func told(sum, n int) int {
	if sum < 0 || n < 0 {
		return -1
	}
	return sum + n
}

// replacements is how many characters of an answer are none.
func replacements(r *gates.Result) int64 {
	n := r.Verdict.Figures["replacement"]
	if !(n >= 0) || n > math.MaxInt32 {
		return 0
	}
	return int64(n)
}
