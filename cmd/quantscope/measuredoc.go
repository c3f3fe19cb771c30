package main

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"quantscope/analysis/candidate"
	"quantscope/analysis/yardstick"
	"quantscope/sessions"
)

// measureDocument is the --json output of measure.
type measureDocument struct {
	Session     string             `json:"session"`
	Reference   yardstick.Party    `json:"reference"`
	RefNLL      sessions.Figure    `json:"ref_nll"`
	RefPPL      sessions.Figure    `json:"ref_ppl"`
	Activations string             `json:"activations"`
	Scored      string             `json:"scored"`
	Vocab       int                `json:"vocab"`
	KernelSet   string             `json:"kernel_set"`
	Program     string             `json:"program"`
	Seed        uint64             `json:"seed"`
	Positions   int64              `json:"positions"`
	Of          int64              `json:"of"`
	Notes       []string           `json:"notes"`
	Corpora     []measureCorpus    `json:"corpora"`
	Floor       *measureRow        `json:"floor"`
	Candidates  []measureRow       `json:"candidates"`
	Pairs       []measurePair      `json:"pairs"`
	Gates       []measureGate      `json:"gates"`
	Attribution []measureParts     `json:"attribution"`
	Probes      []measureProbe     `json:"probes"`
	Sanity      *measureSanity     `json:"sanity"`
	Base        []measureBase      `json:"base,omitempty"`
	labels      []string           // by candidate
	setup       *yardstick.Setup   // for the table
	texts       map[int32]string   // of tokens that are in no corpus
	results     []yardstick.Result // for the table
}

// measureCorpus is a text that was measured on.
type measureCorpus struct {
	Name      string `json:"name"`
	Source    string `json:"source"`
	SHA256    string `json:"sha256"`
	Tokenizer string `json:"tokenizer"`
	BOS       string `json:"bos"`
	Chunking  string `json:"chunking"`
	Chunks    int    `json:"chunks"`
	Tokens    int    `json:"tokens"`
}

// measureFigures are those of a set of positions.
type measureFigures struct {
	Positions     int64           `json:"positions"`
	NaN           int64           `json:"nan"`
	Infinite      int64           `json:"infinite"`
	Chunks        int             `json:"chunks"`
	KLMean        sessions.Figure `json:"kl_mean"`
	KLStderr      sessions.Figure `json:"kl_stderr"`
	KLMedian      sessions.Figure `json:"kl_median"`
	KLP90         sessions.Figure `json:"kl_p90"`
	KLP99         sessions.Figure `json:"kl_p99"`
	KLP999        sessions.Figure `json:"kl_p999"`
	KLMax         sessions.Figure `json:"kl_max"`
	KLReverse     sessions.Figure `json:"kl_reverse_mean"`
	KLReverseErr  sessions.Figure `json:"kl_reverse_stderr"`
	Top1          sessions.Figure `json:"top1"`
	Top1Stderr    sessions.Figure `json:"top1_stderr"`
	NLL           sessions.Figure `json:"nll"`
	RefNLL        sessions.Figure `json:"ref_nll"`
	DeltaNLL      sessions.Figure `json:"delta_nll"`
	DeltaNLLError sessions.Figure `json:"delta_nll_stderr"`
	PPL           sessions.Figure `json:"ppl"`
	PPLStderr     sessions.Figure `json:"ppl_stderr"`
	RefPPL        sessions.Figure `json:"ref_ppl"`
	DeltaPPL      sessions.Figure `json:"delta_ppl"`
	RMSdP         sessions.Figure `json:"rms_dp"`
	Why           string          `json:"why,omitempty"`
}

func figuresOf(s *yardstick.Summary) measureFigures {
	f := func(x float64) sessions.Figure { return sessions.Figure(x) }
	return measureFigures{
		Positions: s.Positions, NaN: s.NaN, Infinite: s.Infinite, Chunks: s.Chunks, KLMean: f(s.KL), KLStderr: f(s.KLErr), KLMedian: f(s.Median),
		KLP90: f(s.P90), KLP99: f(s.P99), KLP999: f(s.P999), KLMax: f(s.Max), KLReverse: f(s.Reverse), KLReverseErr: f(s.RevErr),
		Top1: f(s.Top1), Top1Stderr: f(s.Top1Err), NLL: f(s.NLL), RefNLL: f(s.RefNLL), DeltaNLL: f(s.DNLL), DeltaNLLError: f(s.DNLLErr),
		PPL: f(s.PPL), PPLStderr: f(s.PPLErr), RefPPL: f(s.RefPPL), DeltaPPL: f(s.PPL - s.RefPPL), RMSdP: f(s.RMSdP), Why: s.Why,
	}
}

// measureNamed is a part of a candidate's positions.
type measureNamed struct {
	Name string `json:"name"`
	measureFigures
}

func namedFigures(list []yardstick.Summary) []measureNamed {
	out := make([]measureNamed, len(list))
	for i := range list {
		out[i] = measureNamed{list[i].Name, figuresOf(&list[i])}
	}
	return out
}

// measureRow is a candidate.
type measureRow struct {
	Candidate     string               `json:"candidate"`
	Spec          string               `json:"spec"`
	Kind          candidate.Kind       `json:"kind"`
	Path          string               `json:"path"`
	Identity      string               `json:"identity"`
	Content       string               `json:"content,omitempty"`
	Effective     string               `json:"effective"`
	BitsPerWeight sessions.Figure      `json:"bits_per_weight"`
	Bytes         int64                `json:"bytes"`
	Schemes       []candidate.Share    `json:"schemes"`
	Fallbacks     []candidate.Fallback `json:"fallbacks"`
	Findings      []candidate.Finding  `json:"findings"`
	Baseline      string               `json:"baseline,omitempty"`
	Gain          *measureGain         `json:"gain,omitempty"`
	Calibrated    string               `json:"calibrated,omitempty"`
	Added         bool                 `json:"added,omitempty"`
	Of            string               `json:"of,omitempty"`
	Derived       string               `json:"derived,omitempty"`
	Part          string               `json:"part,omitempty"`
	TokenizerNote string               `json:"tokenizer_note,omitempty"`
	measureFigures
	Corpora   map[string]measureFigures `json:"corpora"`
	Buckets   []measureNamed            `json:"buckets"`
	Classes   []measureNamed            `json:"classes"`
	ByPlace   []measureNamed            `json:"by_place"`
	Histogram measureHistogram          `json:"histogram"`
	Worst     []measurePlace            `json:"worst"`
}

// measureGain is how a candidate stands to its baseline: shares of the baseline's
// mean KL that are gone.
type measureGain struct {
	Verdict  yardstick.Verdict `json:"verdict"`
	Gain     sessions.Figure   `json:"gain"`
	Low      sessions.Figure   `json:"low"`
	High     sessions.Figure   `json:"high"`
	Sentence string            `json:"sentence"`
}

// measureHistogram counts positions by log10 of their KL.
type measureHistogram struct {
	From     float64 `json:"from"`
	Step     float64 `json:"step"`
	Counts   []int64 `json:"counts"`
	Infinite int64   `json:"infinite"`
}

// measurePlace is a position, what stands there, and what each says follows.
type measurePlace struct {
	Corpus    string          `json:"corpus"`
	Chunk     int             `json:"chunk"`
	Position  int             `json:"position"` // of the token that is predicted
	KL        sessions.Figure `json:"kl"`
	MaxP      sessions.Figure `json:"max_p"`
	Before    string          `json:"before"`
	Target    string          `json:"target"`
	Reference string          `json:"reference_says"`
	Says      string          `json:"candidate_says"`
}

// measurePair compares two candidates.
type measurePair struct {
	A        string          `json:"a"`
	B        string          `json:"b"`
	DKL      sessions.Figure `json:"delta_kl"`
	Low      sessions.Figure `json:"low"`
	High     sessions.Figure `json:"high"`
	DNLL     sessions.Figure `json:"delta_nll"`
	NLLLow   sessions.Figure `json:"nll_low"`
	NLLHigh  sessions.Figure `json:"nll_high"`
	P        sessions.Figure `json:"p"`
	Chunks   int             `json:"chunks"`
	Wins     int             `json:"wins"`
	LeftOut  int64           `json:"left_out"`
	Equal    bool            `json:"equal"`
	Why      string          `json:"why,omitempty"`
	Sentence string          `json:"sentence"`
}

// measureGate is a check with its verdict.
type measureGate struct {
	Gate      string `json:"gate"`
	Candidate string `json:"candidate,omitempty"`
	Passed    bool   `json:"passed"`
	Message   string `json:"message"`
}

// measureParts says how parts add up.
type measureParts struct {
	Candidate string          `json:"candidate"`
	Rows      []string        `json:"rows"`
	Whole     sessions.Figure `json:"whole"`
	Sum       sessions.Figure `json:"sum"`
	Low       sessions.Figure `json:"ratio_low"`
	High      sessions.Figure `json:"ratio_high"`
	Message   string          `json:"message"`
}

// measureProbe is the output error of a linear map.
type measureProbe struct {
	Candidate string          `json:"candidate"`
	Layer     int             `json:"layer"`
	Name      string          `json:"name"`
	Tensors   int             `json:"tensors"`
	Output    sessions.Figure `json:"output_error"`
	Weight    sessions.Figure `json:"weight_error"`
	Rows      int64           `json:"rows"`
}

// measureBase is what llama-perplexity would print of a candidate, beside a file of
// its.
type measureBase struct {
	Candidate string `json:"candidate"`
	Block     string `json:"block"`
}

// measureSanity says whether the measurement can be believed.
type measureSanity struct {
	Deterministic bool              `json:"deterministic"`
	Norms         []sessions.Figure `json:"norms"`
	Grows         bool              `json:"grows"`
	Moved         bool              `json:"moved"`
	Same          []string          `json:"same"`
	NonFinite     []string          `json:"nonfinite"`
	Message       string            `json:"message"`
}

// chunkTexts are what tokens stand for that are in no corpus and were somebody's
// choice, of all measurements against a reference.
func chunkTexts(st *sessions.State, s *yardstick.Setup) map[int32]string {
	texts := map[int32]string{}
	for _, y := range st.Yards {
		if y.Setup.Reference.Identity != s.Reference.Identity {
			continue
		}
		for _, c := range y.Chunks {
			maps.Copy(texts, c.Texts)
		}
	}
	return texts
}

// measureOf makes the document of a report, with so many of the worst positions.
// texts are of tokens that the setup does not name.
func measureOf(session string, r *yardstick.Report, texts map[int32]string, worst int) *measureDocument {
	s := r.Setup
	d := &measureDocument{
		Session: session, Reference: s.Reference, Activations: s.Activations, Scored: s.Positions, Vocab: s.VocabRef, KernelSet: s.KernelSet,
		Program: s.Program, Seed: s.Seed, Positions: r.Positions, Of: r.Of, Notes: append([]string{}, s.Notes...), setup: s, texts: texts, results: r.Results,
		Candidates: []measureRow{}, Pairs: []measurePair{}, Gates: []measureGate{}, Attribution: []measureParts{}, Probes: []measureProbe{},
	}
	for _, c := range s.Candidates {
		d.labels = append(d.labels, c.Label)
	}
	for _, c := range s.Corpora {
		m := measureCorpus{Name: c.Name, Source: c.Source, SHA256: c.SHA256, Tokenizer: c.Tokenizer, BOS: c.BOS, Chunking: c.Chunking, Chunks: len(c.IDs)}
		for _, k := range c.IDs {
			m.Tokens += len(k)
		}
		d.Corpora = append(d.Corpora, m)
	}
	for i := range r.Results {
		row := d.row(&r.Results[i], worst)
		if g, ok := r.Gain(r.Results[i].Candidate); ok {
			row.Gain = &measureGain{g.Verdict, sessions.Figure(g.At), sessions.Figure(g.Low), sessions.Figure(g.High), row.Candidate + " is " + g.String()}
		}
		d.RefNLL, d.RefPPL = row.RefNLL, row.RefPPL
		if s.Candidates[r.Results[i].Candidate].Floor {
			d.Floor = &row
			continue
		}
		d.Candidates = append(d.Candidates, row)
	}
	for i := range r.Pairs {
		p := &r.Pairs[i]
		f := func(x float64) sessions.Figure { return sessions.Figure(x) }
		d.Pairs = append(d.Pairs, measurePair{
			A: d.labels[p.A], B: d.labels[p.B], DKL: f(p.DKL), Low: f(p.Low), High: f(p.High), DNLL: f(p.DNLL), NLLLow: f(p.NLow), NLLHigh: f(p.NHigh),
			P: f(p.P), Chunks: p.Chunks, Wins: p.Wins, LeftOut: p.Left, Equal: p.Equal, Why: p.Why, Sentence: pairSentence(d.labels[p.A], d.labels[p.B], p),
		})
	}
	for _, g := range r.Gates {
		d.Gates = append(d.Gates, measureGate{Gate: g.Name, Candidate: d.label(g.Of), Passed: g.Passed, Message: g.Message})
	}
	for _, a := range r.Attributed {
		m := measureParts{Candidate: d.label(a.Of), Whole: sessions.Figure(a.Whole), Sum: sessions.Figure(a.Sum), Low: sessions.Figure(a.Low), High: sessions.Figure(a.High), Message: a.Message}
		for _, row := range a.Rows {
			m.Rows = append(m.Rows, d.label(row))
		}
		d.Attribution = append(d.Attribution, m)
	}
	for _, p := range r.Probes {
		d.Probes = append(d.Probes, measureProbe{d.label(p.Candidate), p.Layer, p.Name, p.Tensors, sessions.Figure(p.Output), sessions.Figure(p.Weight), p.Rows})
	}
	d.Sanity = d.sanity(r.Sane)
	for i, st := range r.Base {
		if st == nil {
			continue
		}
		var b strings.Builder
		if err := st.Print(&b); err != nil {
			b.Reset()
			b.WriteString(err.Error() + "\n")
		}
		d.Base = append(d.Base, measureBase{d.label(i), b.String()})
	}
	return d
}

func (d *measureDocument) label(i int) string {
	if i < 0 || i >= len(d.labels) {
		return ""
	}
	return d.labels[i]
}

func (d *measureDocument) row(r *yardstick.Result, worst int) measureRow {
	p := d.setup.Candidates[r.Candidate]
	row := measureRow{
		Candidate: p.Label, Spec: p.Spec, Kind: p.Kind, Path: p.Path, Identity: p.Identity, Content: p.Content, Effective: p.Effective,
		BitsPerWeight: sessions.Figure(p.BitsPerWeight), Bytes: p.Bytes, Schemes: append([]candidate.Share{}, p.Schemes...),
		Fallbacks: append([]candidate.Fallback{}, p.Fallbacks...), Findings: append([]candidate.Finding{}, p.Findings...),
		Baseline: d.label(p.Baseline), Of: d.label(p.Of), Derived: p.Derived, Part: p.Part, TokenizerNote: p.Tokenizer,
		Calibrated: p.Calibrated, Added: p.Added,
		measureFigures: figuresOf(&r.All), Corpora: map[string]measureFigures{},
		Buckets: namedFigures(r.Buckets), Classes: namedFigures(r.Classes), ByPlace: namedFigures(r.ByPlace),
		Histogram: measureHistogram{yardstick.HistogramFrom, yardstick.HistogramStep, r.Histogram.Counts[:], r.Histogram.Infinite},
		Worst:     []measurePlace{},
	}
	for i := range r.Corpora {
		row.Corpora[d.setup.Corpora[i].Name] = figuresOf(&r.Corpora[i])
	}
	for _, w := range r.Worst[:min(worst, len(r.Worst))] {
		row.Worst = append(row.Worst, d.place(w))
	}
	return row
}

// textBefore is how many tokens of text a worst position is shown with.
const textBefore = 12

func (d *measureDocument) place(w yardstick.Place) measurePlace {
	c := d.setup.Corpora[w.Corpus]
	ids := c.IDs[w.Chunk]
	from := max(w.At+1-textBefore, 0)
	return measurePlace{
		Corpus: c.Name, Chunk: w.Chunk, Position: w.At + 1, KL: sessions.Figure(w.KL), MaxP: sessions.Figure(w.MaxP),
		Before: d.text(ids[from:min(w.At+1, len(ids))]...), Target: d.text(w.Target), Reference: d.text(w.Ref), Says: d.text(w.Cand),
	}
}

// text is what tokens stand for. Parts of characters that make none are written as
// their bytes.
func (d *measureDocument) text(ids ...int32) string {
	var b strings.Builder
	for _, id := range ids {
		t, ok := d.setup.Texts[id]
		if !ok {
			t, ok = d.texts[id]
		}
		if !ok {
			t = "‹" + itoa(id) + "›"
		}
		b.WriteString(t)
	}
	s := b.String()
	if utf8.ValidString(s) {
		return s
	}
	var out strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			out.WriteString(`\x` + hex.EncodeToString([]byte(s[:1])))
		} else {
			out.WriteString(s[:n])
		}
		s = s[n:]
	}
	return out.String()
}

func (d *measureDocument) sanity(s *yardstick.Sanity) *measureSanity {
	if s == nil {
		return nil
	}
	m := &measureSanity{
		Deterministic: s.Deterministic, Grows: s.Grows, Moved: s.Moved, Message: s.Message,
		Norms: []sessions.Figure{}, Same: []string{}, NonFinite: []string{},
	}
	for _, n := range s.Norms {
		m.Norms = append(m.Norms, sessions.Figure(n))
	}
	for _, c := range s.Same {
		m.Same = append(m.Same, d.label(c))
	}
	if slices.ContainsFunc(s.NonFinite, func(t string) bool { return t != "" }) {
		for i, t := range s.NonFinite {
			if t != "" {
				m.NonFinite = append(m.NonFinite, d.label(i)+": "+t)
			}
		}
	}
	return m
}
