package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
	"quantscope/views"
)

func itoa(id int32) string { return strconv.Itoa(int(id)) }

// pairSentence says how b stands to a.
func pairSentence(a, b string, p *yardstick.Pair) string {
	over := counted(p.Chunks, "chunk", "chunks")
	switch p.Verdict() {
	case yardstick.Equal:
		return fmt.Sprintf("%s equals %s at every position", b, a)
	case yardstick.Undecided:
		return fmt.Sprintf("%s and %s are not compared: %s", b, a, p.Why)
	case yardstick.Better:
		return fmt.Sprintf("%s is better than %s by %s [%s, %s] nats a token, on %d of %s", b, a, nats(-p.DKL), nats(-p.High), nats(-p.Low), p.Wins, over)
	case yardstick.Worse:
		return fmt.Sprintf("%s is worse than %s by %s [%s, %s] nats a token, better on %d of %s", b, a, nats(p.DKL), nats(p.Low), nats(p.High), p.Wins, over)
	}
	return fmt.Sprintf("%s and %s are not told apart: %s [%s, %s] nats a token, over %s", b, a, nats(p.DKL), nats(p.Low), nats(p.High), over)
}

// printMeasure prints a measurement as plain text.
func printMeasure(w io.Writer, r *yardstick.Report, d *measureDocument) error {
	t := newReport(w)
	t.line("%s", views.Clean(cmp.Or(d.Reference.Path, d.Reference.Label)))
	bits := ""
	if d.Reference.BitsPerWeight > 0 { // a file of log probabilities has none
		bits = fmt.Sprintf(", %.2f bits a weight", d.Reference.BitsPerWeight)
	}
	t.line("  reference  %s%s, perplexity %s", views.Clean(d.Reference.Effective), bits, perplexity(d.RefPPL))
	t.line("  measured   %s activations, kernels %q, %d tokens of vocabulary, %s", d.Activations, d.KernelSet, d.Vocab, scoredWords(d))
	for _, c := range d.Corpora {
		t.line("  corpus     %s: %s, %s, sha256 %.12s (%s)", views.Clean(c.Name), counted(c.Chunks, "chunk", "chunks"), counted(c.Tokens, "token", "tokens"), c.SHA256, views.Clean(c.Source))
	}
	t.line("  session    %s", d.Session)
	for _, n := range d.Notes {
		t.line("  note       %s", views.Clean(n))
	}
	t.line("")
	d.table(t)
	d.parts(t, "KL by confidence of the reference (its highest probability)", func(r *yardstick.Result) []yardstick.Summary { return r.Buckets })
	d.parts(t, "KL by class of the token that is predicted", func(r *yardstick.Result) []yardstick.Summary { return r.Classes })
	d.gains(t)
	if len(d.Pairs) > 0 {
		t.line("")
		t.line("compared position by position, 95 %% intervals by bootstrap over chunks, seed %d", d.Seed)
		for _, p := range d.Pairs {
			t.line("  %s", views.Clean(p.Sentence))
		}
	}
	d.attribution(t)
	d.probes(t, r)
	d.worst(t)
	for _, b := range d.Base {
		t.line("")
		t.line("%s, as llama-perplexity prints it", views.Clean(b.Candidate))
		for line := range strings.Lines(b.Block) {
			t.line("%s", strings.TrimRight(line, "\n"))
		}
	}
	t.line("")
	for _, g := range d.Gates {
		verdict := "passed"
		if !g.Passed {
			verdict = "FAILED"
		}
		t.line("gate %-12s %s  %s", g.Gate, verdict, views.Clean(g.Message))
	}
	for _, f := range d.Reference.Findings {
		t.line("finding  %s: %s", views.Clean(d.Reference.Label), views.Clean(f.Message))
	}
	for _, row := range d.Candidates {
		for _, f := range row.Findings {
			t.line("finding  %s: %s", views.Clean(row.Candidate), views.Clean(f.Message))
		}
		const most = 5
		for i, x := range row.Fallbacks {
			if i == most {
				t.line("fallback %s: … %d more", views.Clean(row.Candidate), len(row.Fallbacks)-most)
				break
			}
			t.line("fallback %s: %s is %s, not %s: %s", views.Clean(row.Candidate), views.Clean(x.Tensor), x.Effective, x.Requested, views.Clean(x.Reason))
		}
	}
	return t.err
}

// gainText is a gain with its interval.
func gainText(g *measureGain) string {
	percent := func(f sessions.Figure) string {
		if x := float64(f); !math.IsNaN(x) && !math.IsInf(x, 0) {
			return fmt.Sprintf("%+.1f", 100*x)
		}
		return "–"
	}
	switch {
	case g == nil:
		return ""
	case g.Verdict == yardstick.Equal:
		return "equal"
	}
	return fmt.Sprintf("%s %% [%s, %s]", percent(g.Gain), percent(g.Low), percent(g.High))
}

// gains says how candidates stand to their baselines, and on what they were
// calibrated.
func (d *measureDocument) gains(t *textReport) {
	first := true
	begin := func() {
		if first {
			t.line("")
			t.line("against the baselines")
		}
		first = false
	}
	for i := range d.Candidates {
		r := &d.Candidates[i]
		if r.Gain != nil {
			begin()
			t.line("  %s (%s)", views.Clean(r.Gain.Sentence), views.Clean(r.Baseline))
		}
		if r.Calibrated != "" {
			begin()
			t.line("    calibrated on %s", views.Clean(r.Calibrated))
		}
	}
}

func scoredWords(d *measureDocument) string {
	words := counted(d.Positions, "position", "positions")
	if d.Positions != d.Of {
		words = fmt.Sprintf("%d of %d positions", d.Positions, d.Of)
	}
	if d.Scored == "half" {
		words += ", the second half of each chunk"
	}
	return words
}

// table is the figures of all candidates, the floor first, as the screen has them.
func (d *measureDocument) table(t *textReport) {
	header := []string{"candidate", ">b/w", ">KL mean, nats", ">± se", ">median", ">p99", ">max", ">KL reverse", ">top-1", ">PPL", ">ΔPPL", ">± ΔNLL"}
	gains := slices.ContainsFunc(d.Candidates, func(r measureRow) bool { return r.Gain != nil })
	if gains {
		header = append(header, ">KL gone [95 %]")
	}
	for _, c := range d.Corpora {
		header = append(header, ">"+views.Clean(c.Name))
	}
	var rows [][]string
	add := func(r *measureRow, mark string) {
		name := mark + views.Clean(r.Candidate)
		if r.NaN > 0 || r.Infinite > 0 {
			name += fmt.Sprintf(" (%d NaN, %d ∞)", r.NaN, r.Infinite)
		}
		cells := []string{
			name, fmt.Sprintf("%.2f", r.BitsPerWeight), nats(float64(r.KLMean)), nats(float64(r.KLStderr)), nats(float64(r.KLMedian)),
			nats(float64(r.KLP99)), nats(float64(r.KLMax)), nats(float64(r.KLReverse)), share3(r.Top1), perplexity(r.PPL), signed(r.DeltaPPL), nats(float64(r.DeltaNLLError)),
		}
		if gains {
			cells = append(cells, gainText(r.Gain))
		}
		for _, c := range d.Corpora {
			f := r.Corpora[c.Name]
			cells = append(cells, nats(float64(f.KLMean)))
		}
		rows = append(rows, cells)
	}
	if d.Floor != nil {
		add(d.Floor, "· ")
	}
	for i := range d.Candidates {
		mark := ""
		switch {
		case d.Candidates[i].Of != "":
			mark = "  ↳ "
		case d.Candidates[i].Added:
			mark = "+ "
		}
		add(&d.Candidates[i], mark)
	}
	t.table(header, rows)
	for i := range d.Candidates {
		if d.Candidates[i].Added {
			t.line("+ a baseline of calibrated candidates that was not asked for: they are held against it")
			break
		}
	}
	if gains {
		t.line("KL gone: the part of the baseline's mean KL that a candidate is without, negative where it has more")
	}
	if d.Floor != nil {
		t.line("· the ruler's floor: %s; what is not well above it says nothing", floorWords(d))
	}
}

// yardLines are a line on each measurement that a session holds.
func yardLines(st *sessions.State) []string {
	var lines []string
	for _, y := range st.Yards {
		l := yardLineOf(y)
		done, of := y.Positions()
		lines = append(lines, fmt.Sprintf("KL to %s: %s: %s, %d of %d positions", l.Reference, strings.Join(l.Candidates, ", "), l.State, done, of))
	}
	return lines
}

// floorWords says what the floor is of.
func floorWords(d *measureDocument) string {
	if d.Reference.Kind == yardstick.FileKind {
		return "the model's own weights against its file"
	}
	if d.Activations == "bf16" {
		return "the reference's own weights, activations not rounded"
	}
	return "the reference's own weights, activations rounded"
}

// parts is a table of one figure by parts of the positions.
func (d *measureDocument) parts(t *textReport, title string, of func(*yardstick.Result) []yardstick.Summary) {
	var header []string
	var rows [][]string
	for i := range d.results {
		list := of(&d.results[i])
		if header == nil {
			header = []string{"candidate"}
			for _, s := range list {
				header = append(header, fmt.Sprintf(">%s (%d)", s.Name, s.Positions))
			}
		}
		cells := []string{views.Clean(d.labels[d.results[i].Candidate])}
		for _, s := range list {
			cells = append(cells, nats(s.KL))
		}
		rows = append(rows, cells)
	}
	if len(header) < 2 {
		return
	}
	t.line("")
	t.line("%s (positions)", title)
	t.table(header, rows)
}

func (d *measureDocument) attribution(t *textReport) {
	if len(d.Attribution) == 0 {
		return
	}
	t.line("")
	t.line("where it comes from")
	for _, a := range d.Attribution {
		t.line("  %s", views.Clean(a.Message))
	}
}

// probes lists the linear maps with the largest output error of each candidate.
func (d *measureDocument) probes(t *textReport, r *yardstick.Report) {
	if len(r.Probes) == 0 {
		return
	}
	const most = 8
	for k, label := range d.labels {
		var own []yardstick.Probe
		for _, p := range r.Probes {
			if p.Candidate == k {
				own = append(own, p)
			}
		}
		if len(own) == 0 {
			continue
		}
		slices.SortStableFunc(own, func(a, b yardstick.Probe) int { return cmp.Compare(b.Output, a.Output) })
		t.line("")
		t.line("output error ‖(Ŵ−W)x‖/‖Wx‖ of %s on real inputs, the largest of %d; rank correlation with weight error %.2f", views.Clean(label), len(own), yardstick.ProbeAgreement(r.Probes, k).R)
		var rows [][]string
		for _, p := range own[:min(most, len(own))] {
			rows = append(rows, []string{views.Clean(p.Name), fmt.Sprintf("%.4f", p.Output), fmt.Sprintf("%.4f", p.Weight), fmt.Sprint(p.Tensors), fmt.Sprint(p.Rows)})
		}
		t.table([]string{"map", ">output", ">weight", ">matrices", ">inputs"}, rows)
	}
}

// worst shows the positions of the largest divergence, with their text.
func (d *measureDocument) worst(t *textReport) {
	for i := range d.Candidates {
		r := &d.Candidates[i]
		if len(r.Worst) == 0 || r.Of != "" {
			continue
		}
		t.line("")
		t.line("worst positions of %s", views.Clean(r.Candidate))
		for _, w := range r.Worst {
			t.line("  %s  %s %d:%d  …%s⟦%s⟧  reference %s (p %.2f), candidate %s", nats(float64(w.KL)), views.Clean(w.Corpus), w.Chunk, w.Position,
				visible(w.Before), visible(w.Target), quoted(w.Reference), w.MaxP, quoted(w.Says))
		}
	}
}

// quoted is a token between quotes, so that its blanks are seen. Bytes are written
// as numbers already, and a backslash stays one.
func quoted(s string) string { return `"` + visible(s) + `"` }

// visible shows characters that a terminal would act on, or not show.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteRune('⏎')
		case r == '\t':
			b.WriteRune('⇥')
		case r < 0x20:
			b.WriteRune('␀' + r)
		case r == 0x7f:
			b.WriteRune('␡')
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func share3(f sessions.Figure) string {
	if math.IsNaN(float64(f)) {
		return "–"
	}
	return fmt.Sprintf("%.4f", float64(f))
}

func perplexity(f sessions.Figure) string {
	switch x := float64(f); {
	case math.IsNaN(x):
		return "–"
	case math.IsInf(x, 0):
		return "∞"
	case x >= 1e5:
		return fmt.Sprintf("%.3e", x)
	}
	return fmt.Sprintf("%.3f", float64(f))
}

func signed(f sessions.Figure) string {
	if x := float64(f); !math.IsNaN(x) && !math.IsInf(x, 0) {
		return fmt.Sprintf("%+.4f", x)
	}
	return perplexity(f)
}
