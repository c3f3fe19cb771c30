package sessions

import (
	"fmt"
	"strings"

	"quantscope/analysis/bias"
)

// biasJSON is the payload of every event about biases through depth. Each kind uses
// the fields that docs/session.md lists for it.
type biasJSON struct {
	Message string `json:"message,omitempty"` // not of what was found
	Run     int    `json:"run"`               // from 0, in the order of bias events

	Setup      *bias.Setup      `json:"setup,omitempty"`      // bias
	Weights    *bias.Weights    `json:"weights,omitempty"`    // biasrow: one of the three
	Row        *bias.Row        `json:"row,omitempty"`        //
	Divergence *bias.Divergence `json:"divergence,omitempty"` //
	End        *bias.End        `json:"end,omitempty"`        // biasend
}

// maxDepth is how many layers a look may be of: more than any model has.
const maxDepth = 1 << 12

// newBiasEvent is an event about biases, without its numbers. What it holds is what a
// reader of the file will see, so that nobody can tell a live run from a saved one.
func newBiasEvent(kind EventKind, d *biasJSON) (stored, error) {
	payload, err := newDoc(kind, d)
	if err != nil {
		return stored{}, err
	}
	e := stored{Event: Event{Kind: kind, Variant: -1, Tensor: -1}, payload: payload}
	if err := decodeBias(&e); err != nil {
		return stored{}, fmt.Errorf("sessions: a %s event cannot be recorded: %w", kind, err)
	}
	return e, nil
}

// decodeBias fills in what the payload of an event about biases holds.
func decodeBias(e *stored) error {
	d := &biasJSON{}
	if err := readDoc(e.payload, d); err != nil {
		return err
	}
	has := 0
	for _, is := range []bool{d.Setup != nil, d.Weights != nil, d.Row != nil, d.Divergence != nil, d.End != nil} {
		if is {
			has++
		}
	}
	one := false
	switch e.Kind {
	case EventBias:
		one = d.Setup != nil
	case EventBiasFound:
		one = d.Weights != nil || d.Row != nil || d.Divergence != nil
	case EventBiasEnd:
		one = d.End != nil
	}
	switch {
	case !one || has != 1:
		return fmt.Errorf("an event of kind %s holds %d of what such events say, not one", e.Kind, has)
	case d.Setup != nil:
		s := d.Setup
		if len(s.Candidates) == 0 || len(s.Candidates) > maxParties || s.Layers < 0 || s.Layers > maxDepth || s.Positions < 0 {
			return fmt.Errorf("biases of %d candidates in %d layers at %d positions", len(s.Candidates), s.Layers, s.Positions)
		}
	case d.End != nil:
		if err := checkEnd("a look at biases", d.End.State); err != nil {
			return err
		}
	}
	e.bias, e.biasRun, e.Message = d, d.Run, d.Message
	return nil
}

// biasKey is what of a run is found once.
type biasKey struct {
	what             string
	candidate, layer int
}

// biasBook knows the looks at biases of a session while its events are read in order,
// and what fits them.
type biasBook struct {
	runs   runBook
	setups []*bias.Setup
	found  []map[biasKey]bool
}

// place gives an event about biases its index, and is an error where it does not fit
// what came before. Other events are left alone.
func (b *biasBook) place(e *stored) (err error) {
	if e.bias == nil {
		return nil
	}
	b.runs.what = "look at biases"
	if e.Kind == EventBias {
		if e.biasRun, err = b.runs.begin(e.bias.Run); err == nil {
			b.setups, b.found = append(b.setups, e.bias.Setup), append(b.found, map[biasKey]bool{})
		}
		return err
	}
	if e.biasRun, err = b.runs.of(e.bias.Run); err != nil || e.Kind != EventBiasFound {
		return err
	}
	key, err := checkFound(b.setups[e.biasRun], e.bias)
	if err == nil && b.found[e.biasRun][key] {
		err = fmt.Errorf("%s of layer %d of candidate %d came twice", key.what, key.layer, key.candidate)
	}
	if err == nil {
		b.found[e.biasRun][key] = true
	}
	return err
}

// checkFound is an error where what was found names what its run does not have, or
// cannot be.
func checkFound(s *bias.Setup, d *biasJSON) (biasKey, error) {
	var key biasKey
	switch {
	case d.Weights != nil:
		w := d.Weights
		key = biasKey{"weights", w.Candidate, w.Layer}
		if w.Tensors < 0 || w.Layer < -1 || w.Layer > maxDepth {
			return key, fmt.Errorf("weights of %d tensors of layer %d", w.Tensors, w.Layer)
		}
	case d.Row != nil:
		r := d.Row
		key = biasKey{r.Part, r.Candidate, r.Layer}
		switch r.Part {
		case bias.Residual, bias.Attention, bias.MLP:
		default:
			return key, fmt.Errorf("part %q of a layer (known: %s, %s, %s)", r.Part, bias.Residual, bias.Attention, bias.MLP)
		}
		if r.Layer < -1 || r.Layer >= s.Layers || r.Positions < 0 || r.NonFinite < 0 {
			return key, fmt.Errorf("%s of layer %d of %d, at %d positions and %d that are not finite", r.Part, r.Layer, s.Layers, r.Positions, r.NonFinite)
		}
	case d.Divergence != nil:
		key = biasKey{"divergence", d.Divergence.Candidate, -1}
		if d.Divergence.Positions < 0 {
			return key, fmt.Errorf("a divergence over %d positions", d.Divergence.Positions)
		}
	}
	if key.candidate < 0 || key.candidate >= len(s.Candidates) {
		return key, fmt.Errorf("%s of candidate %d of %d", key.what, key.candidate, len(s.Candidates))
	}
	return key, nil
}

// biasMessage is a setup in a line of the log.
func biasMessage(s *bias.Setup) string {
	var cands []string
	for _, c := range s.Candidates {
		cands = append(cands, c.Label)
	}
	var corpora []string
	for _, c := range s.Corpora {
		corpora = append(corpora, c.Name)
	}
	return oneLine(fmt.Sprintf("biases of %s against %s over %s: %s, %s", strings.Join(cands, ", "), s.Reference.Label, strings.Join(corpora, ", "),
		count(s.Positions, "position"), count(int64(s.Layers), "layer")))
}

// biasEndMessage is an end in a line of the log.
func biasEndMessage(end *bias.End, rows int) string {
	message := fmt.Sprintf("biases %s: %s", end.State, count(int64(rows), "row"))
	if end.Reason != "" {
		message += ": " + end.Reason
	}
	return oneLine(message)
}
