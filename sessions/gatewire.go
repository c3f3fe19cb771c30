package sessions

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
)

// gateJSON is the payload of every event about gates. Each kind uses the fields
// that docs/session.md lists for it.
type gateJSON struct {
	Message string `json:"message,omitempty"` // not of answers
	Run     int    `json:"run"`               // from 0, in the order of gates events

	Setup    *gates.Setup      `json:"setup,omitempty"`    // gates
	Settings map[string]string `json:"settings,omitempty"` // gates
	Arm      int               `json:"arm,omitempty"`      // arm
	Identity *chat.Identity    `json:"identity,omitempty"` // arm
	Result   *gates.Result     `json:"result,omitempty"`   // answer
	Meter    *gates.Meter      `json:"meter,omitempty"`    // meter
	End      *gates.End        `json:"end,omitempty"`      // gatesend
}

// exactGate is a gateJSON with what JSON cannot carry of it.
type exactGate struct {
	*gateJSON
	*exact
}

// Bounds of a run of gates: more than anyone asks, and small enough that what a
// damaged or made-up file claims takes little memory.
const (
	maxArms     = 1024
	maxProbes   = 1 << 16
	maxAnswers  = 1 << 24
	maxGateJSON = 256 << 20 // bytes of a payload that is unpacked
	// What is larger than this is kept without its tokens, and then with shortened
	// texts: a server that answers without end must not fill the disk.
	maxAnswerJSON = 32 << 20
	maxAnswerText = 1 << 20
)

// packAbove is how large a payload is before it is compressed.
const packAbove = 512

// newGateEvent is an event about gates, without its numbers.
func newGateEvent(kind EventKind, d *gateJSON) (stored, error) {
	doc, err := gateDoc(d)
	if err == nil && len(doc) > maxGateJSON {
		err = fmt.Errorf("it takes %d bytes, of at most %d", len(doc), maxGateJSON)
	}
	if err != nil {
		return stored{}, fmt.Errorf("sessions: a %s event cannot be recorded: %w", kind, err)
	}
	return stored{Event: Event{Kind: kind, Variant: -1, Tensor: -1, Message: d.Message}, payload: pack(doc), gate: d, gateRun: d.Run}, nil
}

// gateDoc is the document of an event about gates.
func gateDoc(d *gateJSON) ([]byte, error) {
	doc, odd, err := marshalExact(d)
	if err != nil || len(odd.Raw)+len(odd.NonFinite) == 0 {
		return doc, err
	}
	return joinObjects(doc, &odd)
}

// pack compresses a document where that makes it smaller. A document begins with
// {, a zlib stream (RFC 1950) with x.
func pack(doc []byte) []byte {
	if len(doc) < packAbove {
		return doc
	}
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, err := w.Write(doc)
	if err = errors.Join(err, w.Close()); err != nil || b.Len() >= len(doc) {
		return doc
	}
	return b.Bytes()
}

// unpack is the document of a payload.
func unpack(p []byte) ([]byte, error) {
	if len(p) == 0 || p[0] == '{' {
		return p, nil
	}
	z, err := zlib.NewReader(bytes.NewReader(p))
	if err != nil {
		return nil, err
	}
	doc, err := io.ReadAll(io.LimitReader(z, maxGateJSON+1))
	if err == nil && len(doc) > maxGateJSON {
		err = fmt.Errorf("it is larger than %d bytes", maxGateJSON)
	}
	return doc, err
}

// decodeGate fills in what the payload of an event about gates holds.
func decodeGate(e *stored) error {
	doc, err := unpack(e.payload)
	if err != nil {
		return err
	}
	d := exactGate{&gateJSON{}, &exact{}}
	if err := json.Unmarshal(doc, &d); err != nil {
		return err
	}
	if err := d.restore(d.gateJSON); err != nil {
		return err
	}
	if d.Run < 0 {
		return fmt.Errorf("it is of run %d", d.Run)
	}
	has := false
	switch e.Kind {
	case EventGates:
		if has = d.Setup != nil; has {
			if err := checkSetup(d.Setup); err != nil {
				return err
			}
		}
	case EventArm:
		has = d.Identity != nil
	case EventAnswer:
		has = d.Result != nil
	case EventMeter:
		has = d.Meter != nil
	case EventGatesEnd:
		if has = d.End != nil; has && !slices.Contains([]RunState{RunFinished, RunCancelled, RunStopped}, RunState(d.End.State)) {
			return fmt.Errorf("a run of gates ended in state %q (known: %s, %s, %s)", d.End.State, RunFinished, RunCancelled, RunStopped)
		}
	}
	if !has {
		return fmt.Errorf("an event of kind %s holds none of what it says", e.Kind)
	}
	e.gate, e.gateRun, e.Message = d.gateJSON, d.Run, d.Message
	return nil
}

// checkSetup is an error where a setup claims what cannot be.
func checkSetup(s *gates.Setup) error {
	if len(s.Arms) == 0 || len(s.Arms) > maxArms || len(s.Probes) > maxProbes {
		return fmt.Errorf("a run of %d arms and %d probes", len(s.Arms), len(s.Probes))
	}
	answers := 0
	for i := range s.Probes {
		p := &s.Probes[i]
		if p.Passes < 0 || p.Passes > maxAnswers || len(p.Cases) > maxAnswers {
			return fmt.Errorf("probe %s has %d cases and %d passes", p.ID, len(p.Cases), p.Passes)
		}
		if answers += p.Answers(); answers > maxAnswers {
			return fmt.Errorf("probes of more than %d answers", maxAnswers)
		}
	}
	return nil
}

// newGatesEvent begins a run. What it holds is what a reader of the file will see,
// so that nobody can tell a live run from a saved one.
func newGatesEvent(run int, s *gates.Setup, settings map[string]string) (stored, error) {
	if err := checkSetup(s); err != nil {
		return stored{}, fmt.Errorf("sessions: a run of gates cannot be recorded: %w", err)
	}
	return asRead(newGateEvent(EventGates, &gateJSON{Message: gatesMessage(s), Run: run, Setup: s, Settings: settings}))
}

// newMeterEvent is what an arm told of itself.
func newMeterEvent(run int, s *gates.Setup, m *gates.Meter) (stored, error) {
	return asRead(newGateEvent(EventMeter, &gateJSON{Message: meterMessage(s, m), Run: run, Meter: m}))
}

// asRead reads an event back.
func asRead(e stored, err error) (stored, error) {
	if err != nil {
		return e, err
	}
	err = decodeGate(&e)
	return e, err
}

// newArmEvent says who answers for an arm.
func newArmEvent(run int, s *gates.Setup, arm int, id *chat.Identity) (stored, error) {
	return newGateEvent(EventArm, &gateJSON{Message: armMessage(s, arm, id), Run: run, Arm: arm, Identity: id})
}

// newAnswerEvent is an answer. One that is too large is shortened, and says so.
func newAnswerEvent(run int, r *gates.Result) (stored, error) {
	for _, shorten := range []func(*chat.Reply){withoutTokens, withShortTexts} {
		doc, err := gateDoc(&gateJSON{Run: run, Result: r})
		if err != nil || len(doc) <= maxAnswerJSON {
			break
		}
		short := *r
		short.Answer.Replies = slices.Clone(r.Answer.Replies)
		for i := range short.Answer.Replies {
			shorten(&short.Answer.Replies[i])
		}
		short.Verdict.Marks = nil
		short.Verdict.Reason = strings.TrimSuffix(r.Verdict.Reason, keptShort) + keptShort
		r = &short
	}
	return newGateEvent(EventAnswer, &gateJSON{Run: run, Result: r})
}

// keptShort ends the reason of an answer that is not kept whole.
const keptShort = " (kept shortened)"

func withoutTokens(r *chat.Reply) { r.Tokens, r.Prompt = nil, nil }

func withShortTexts(r *chat.Reply) {
	for _, s := range []*string{&r.Text, &r.Reasoning} {
		*s = strings.Clone((*s)[:min(len(*s), maxAnswerText)])
	}
	r.ToolCalls = slices.Clone(r.ToolCalls[:min(len(r.ToolCalls), 64)])
	for i := range r.ToolCalls {
		a := &r.ToolCalls[i].Arguments
		*a = strings.Clone((*a)[:min(len(*a), maxAnswerText)])
	}
}

// newGatesEndEvent ends a run.
func newGatesEndEvent(run int, end *gates.End, done, of int) (stored, error) {
	message := fmt.Sprintf("gates %s: %d of %s", end.State, done, count(int64(of), "answer"))
	if end.Reason != "" {
		message += ": " + end.Reason
	}
	return newGateEvent(EventGatesEnd, &gateJSON{Message: oneLine(message), Run: run, End: end})
}

// gatesMessage is a setup in a line of the log.
func gatesMessage(s *gates.Setup) string {
	var arms []string
	for _, a := range s.Arms {
		arms = append(arms, a.Label)
	}
	return oneLine(fmt.Sprintf("gates of %s on %s: %s, %s", s.Suite, strings.Join(arms, ", "), count(int64(len(s.Probes)), "probe"), count(int64(s.Answers()), "answer")))
}

// armMessage is an opened arm in a line of the log.
func armMessage(s *gates.Setup, arm int, id *chat.Identity) string {
	text := "asking " + s.Arms[arm].Label
	who := strings.TrimSpace(id.Engine + " " + id.Version)
	if who = cmp.Or(who, id.Kind); who != "" {
		text += ": " + who
	}
	if id.Model != "" {
		text += ", model " + id.Model
	}
	if id.Speculative > 0 {
		text += fmt.Sprintf(", %s a step", count(int64(id.Speculative), "draft"))
	}
	return oneLine(text)
}

// meterMessage is a meter in a line of the log. Acceptance is never told without
// accepted length and speed.
func meterMessage(s *gates.Setup, m *gates.Meter) string {
	text := fmt.Sprintf("%s: %s in %.1f s", s.Arms[m.Arm].Label, count(m.Tokens, "token"), m.Seconds)
	if m.Seconds > 0 {
		speed := float64(m.Tokens) / m.Seconds
		text += fmt.Sprintf(", %.1f tokens/s", speed)
		if m.Counted != nil {
			if rate, length := m.Counted.Acceptance(); rate == rate && length == length {
				text += fmt.Sprintf(", acceptance %.1f %% at length %.2f", 100*rate, length)
			}
		}
	}
	failed := 0
	for _, c := range m.Checks {
		if c.State == gates.CheckFailed {
			failed++
		}
	}
	if failed > 0 {
		text += ", " + count(int64(failed), "check") + " failed"
	}
	return oneLine(text)
}
