package sessions

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"quantscope/analysis/yardstick"
)

// yardJSON is a measurement's setup in a yard event. IDs and texts are binary,
// base64 in the JSON, since the one are many and the other need not be UTF-8.
type yardJSON struct {
	ID    int              `json:"id"` // of the measurement, from 0
	Setup *yardstick.Setup `json:"setup"`
	IDs   [][]byte         `json:"ids"` // by corpus: number of chunks, then of each its number of tokens and they, as uvarints
	Texts []byte           `json:"texts,omitempty"`
}

// yardEndJSON ends a measurement.
type yardEndJSON struct {
	ID     int         `json:"id"`
	State  RunState    `json:"state"`
	Reason string      `json:"reason,omitempty"`
	Probes []probeJSON `json:"probes,omitempty"`
	Sane   *sanityJSON `json:"sane,omitempty"`
}

// probeJSON is a yardstick.Probe whose figures may be non-finite.
type probeJSON struct {
	Candidate int    `json:"candidate"`
	Layer     int    `json:"layer"`
	Name      string `json:"name"`
	Tensors   int    `json:"tensors"`
	Output    Figure `json:"output"`
	Weight    Figure `json:"weight"`
	Rows      int64  `json:"rows"`
}

// sanityJSON is a yardstick.Sanity whose norms may be non-finite.
type sanityJSON struct {
	Deterministic bool     `json:"deterministic"`
	Norms         []Figure `json:"norms,omitempty"`
	Grows         bool     `json:"grows"`
	Moved         bool     `json:"moved"`
	Same          []int    `json:"same,omitempty"`
	NonFinite     []string `json:"nonfinite,omitempty"`
	Message       string   `json:"message,omitempty"`
}

// Bounds of a measurement: more than anyone scores, and small enough that what a
// damaged or made-up file claims takes little memory.
const (
	maxParties    = 1024
	maxYardTokens = 64 << 20
)

// newYardEvent is the event that begins a measurement, without its numbers.
func newYardEvent(id int, s *yardstick.Setup) (stored, error) {
	y := yardJSON{ID: id}
	plain := *s
	plain.Texts = nil
	y.Setup = &plain
	y.Texts = appendTexts(nil, s.Texts)
	tokens := 0
	for _, c := range s.Corpora {
		b := binary.AppendUvarint(nil, uint64(len(c.IDs)))
		for _, chunk := range c.IDs {
			tokens += len(chunk)
			b = binary.AppendUvarint(b, uint64(len(chunk)))
			for _, id := range chunk {
				b = binary.AppendUvarint(b, uint64(uint32(id)))
			}
		}
		y.IDs = append(y.IDs, b)
	}
	switch {
	case tokens > maxYardTokens:
		return stored{}, fmt.Errorf("sessions: corpora of %d tokens: a session holds measurements of up to %d", tokens, maxYardTokens)
	case len(s.Candidates) > maxParties:
		return stored{}, fmt.Errorf("sessions: %d candidates: a session holds measurements of up to %d", len(s.Candidates), maxParties)
	}
	if _, err := json.Marshal(y); err != nil {
		return stored{}, fmt.Errorf("sessions: the measurement of %s cannot be recorded: %w", s.Reference.Label, err)
	}
	e := newNote(EventYard, -1, -1, note{Message: yardMessage(s), Yard: &y})
	e.yard, e.setup = id, s
	return e, nil
}

// yardMessage is a setup in a line of the log.
func yardMessage(s *yardstick.Setup) string {
	var cands, corpora []string
	for _, c := range s.Candidates {
		if !c.Floor {
			cands = append(cands, c.Label)
		}
	}
	for _, c := range s.Corpora {
		corpora = append(corpora, c.Name)
	}
	return oneLine(fmt.Sprintf("KL of %s to %s over %s: %s, %s activations, by kernels %q", strings.Join(cands, ", "), s.Reference.Label,
		strings.Join(corpora, ", "), count(s.Positions64(), "position"), s.Activations, s.KernelSet))
}

// setup is the setup that a yard event holds.
func (y *yardJSON) setup() (*yardstick.Setup, error) {
	switch {
	case y == nil || y.Setup == nil:
		return nil, errors.New("a yard event holds no setup")
	case y.ID < 0 || len(y.Setup.Candidates) > maxParties || len(y.IDs) != len(y.Setup.Corpora):
		return nil, fmt.Errorf("a yard event has measurement %d of %d candidates over %d corpora with ids of %d", y.ID, len(y.Setup.Candidates), len(y.Setup.Corpora), len(y.IDs))
	}
	s := *y.Setup
	for i, c := range s.Candidates {
		if c.Baseline < -1 || c.Baseline >= len(s.Candidates) || c.Of < -1 || c.Of >= len(s.Candidates) {
			return nil, fmt.Errorf("candidate %d refers to candidates %d and %d of %d", i, c.Baseline, c.Of, len(s.Candidates))
		}
	}
	for i, b := range y.IDs {
		ids, err := decodeIDs(b)
		if err != nil {
			return nil, fmt.Errorf("ids of corpus %d: %w", i, err)
		}
		s.Corpora[i].IDs = ids
	}
	d := scoreReader{p: y.Texts}
	if len(y.Texts) > 0 {
		s.Texts = d.texts()
	}
	return &s, d.err
}

// decodeIDs reads the chunks of a corpus.
func decodeIDs(b []byte) ([][]int32, error) {
	d := scoreReader{p: b}
	chunks := d.count()
	if d.err == nil && chunks > len(d.p) {
		d.err = errScoreShort
	}
	if d.err != nil {
		return nil, d.err
	}
	out := make([][]int32, chunks)
	for i := range out {
		n := d.count()
		if d.err == nil && n > len(d.p) {
			d.err = errScoreShort
		}
		if d.err != nil {
			return nil, d.err
		}
		out[i] = make([]int32, n)
		for j := range out[i] {
			out[i][j] = d.token()
		}
	}
	if d.err == nil && len(d.p) > 0 {
		d.err = errScoreTrailed
	}
	return out, d.err
}

// newScoreEvent is the event of a chunk, without its numbers.
func newScoreEvent(id int, c *yardstick.Chunk) stored {
	return stored{Event: Event{Kind: EventScore, Variant: -1, Tensor: -1}, payload: encodeScore(nil, id, c), yard: id, chunk: c}
}

// newYardEndEvent ends a measurement, without its numbers.
func newYardEndEvent(id int, end *YardEnd, done, of int64) stored {
	message := fmt.Sprintf("KL %s: %d of %s scored", end.State, done, count(of, "position"))
	if end.Reason != "" {
		message += ": " + end.Reason
	}
	e := newNote(EventYardEnd, -1, -1, note{Message: oneLine(message), YardEnd: end.json(id)})
	e.yard, e.end = id, end
	return e
}

func (e *YardEnd) json(id int) *yardEndJSON {
	j := &yardEndJSON{ID: id, State: e.State, Reason: e.Reason}
	for _, p := range e.Probes {
		j.Probes = append(j.Probes, probeJSON{p.Candidate, p.Layer, p.Name, p.Tensors, Figure(p.Output), Figure(p.Weight), p.Rows})
	}
	if s := e.Sane; s != nil {
		j.Sane = &sanityJSON{Deterministic: s.Deterministic, Grows: s.Grows, Moved: s.Moved, Same: s.Same, NonFinite: s.NonFinite, Message: s.Message}
		for _, n := range s.Norms {
			j.Sane.Norms = append(j.Sane.Norms, Figure(n))
		}
	}
	return j
}

// end is what a yardend event holds.
func (j *yardEndJSON) end() (*YardEnd, error) {
	switch {
	case j == nil:
		return nil, errors.New("a yardend event holds no end")
	case j.State != RunFinished && j.State != RunCancelled && j.State != RunStopped:
		return nil, fmt.Errorf("a measurement ended in state %q (known: %s, %s, %s)", j.State, RunFinished, RunCancelled, RunStopped)
	}
	e := &YardEnd{State: j.State, Reason: j.Reason}
	for _, p := range j.Probes {
		e.Probes = append(e.Probes, yardstick.Probe{
			Candidate: p.Candidate, Layer: p.Layer, Name: p.Name, Tensors: p.Tensors, Output: float64(p.Output), Weight: float64(p.Weight), Rows: p.Rows,
		})
	}
	if s := j.Sane; s != nil {
		e.Sane = &yardstick.Sanity{Deterministic: s.Deterministic, Grows: s.Grows, Moved: s.Moved, Same: s.Same, NonFinite: s.NonFinite, Message: s.Message}
		for _, n := range s.Norms {
			e.Sane.Norms = append(e.Sane.Norms, float64(n))
		}
	}
	return e, nil
}
