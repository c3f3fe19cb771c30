package sessions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// newDoc is the payload of an event that is a document: JSON, with what that cannot
// carry of it under raw and nonfinite, compressed where that makes it smaller. v points
// to a struct.
func newDoc(kind EventKind, v any) ([]byte, error) {
	doc, odd, err := marshalExact(v)
	if err == nil && len(odd.Raw)+len(odd.NonFinite) > 0 {
		doc, err = joinObjects(doc, &odd)
	}
	if err == nil && len(doc) > maxGateJSON {
		err = fmt.Errorf("it takes %d bytes, of at most %d", len(doc), maxGateJSON)
	}
	if err != nil {
		return nil, fmt.Errorf("sessions: a %s event cannot be recorded: %w", kind, err)
	}
	return pack(doc), nil
}

// readDoc reads such a payload into what v points to.
func readDoc(payload []byte, v any) error {
	doc, err := unpack(payload)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(doc, v); err != nil {
		return err
	}
	if !bytes.Contains(doc, []byte(`"raw":`)) && !bytes.Contains(doc, []byte(`"nonfinite":`)) {
		return nil
	}
	var e exact
	if err := json.Unmarshal(doc, &e); err != nil {
		return err
	}
	return e.restore(v)
}

// endStates are how a run that is recorded can end.
var endStates = []RunState{RunFinished, RunCancelled, RunStopped}

// checkEnd is an error where a run ended in no way that there is.
func checkEnd(what, state string) error {
	if !slices.Contains(endStates, RunState(state)) {
		return fmt.Errorf("%s ended in state %q (known: %s, %s, %s)", what, state, RunFinished, RunCancelled, RunStopped)
	}
	return nil
}

// runBook gives the runs of one kind their indices: a file's numbers of runs and the
// indices in a state differ where the beginning of one is damaged.
type runBook struct {
	what string
	at   map[int]int
}

// begin is the index of a run that begins.
func (b *runBook) begin(run int) (int, error) {
	if run < 0 {
		return 0, fmt.Errorf("%s has number %d", b.what, run)
	}
	if _, twice := b.at[run]; twice {
		return 0, fmt.Errorf("%s %d began twice", b.what, run)
	}
	if b.at == nil {
		b.at = map[int]int{}
	}
	b.at[run] = len(b.at)
	return b.at[run], nil
}

// of is the index of a run that has begun.
func (b *runBook) of(run int) (int, error) {
	i, ok := b.at[run]
	if !ok {
		return 0, fmt.Errorf("%s %d has no beginning", b.what, run)
	}
	return i, nil
}
