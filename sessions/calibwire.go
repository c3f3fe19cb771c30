package sessions

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// calibJSON begins a calibrated run of a variant, in a calib event.
type calibJSON struct {
	ID    int               `json:"id"` // of the calibration, from 0
	Setup *CalibrationSetup `json:"setup"`
}

// unitJSON is a unit that is done, in a unit event.
type unitJSON struct {
	ID int `json:"id"`
	*CalibUnit
}

// calibEndJSON ends a calibrated run, in a calibend event.
type calibEndJSON struct {
	ID int `json:"id"`
	*CalibrateEnd
}

// newCalibEvent is the event that begins a calibration, without its numbers.
func newCalibEvent(id int, s CalibrationSetup, variant string) (stored, error) {
	e, err := newCalibNote(EventCalib, s.Variant, note{Message: calibMessage(&s, variant), Calib: &calibJSON{id, &s}})
	e.calib, e.calibSetup = id, &s
	return e, err
}

// newUnitEvent is the event of a unit, without its numbers.
func newUnitEvent(id, variant int, u CalibUnit) (stored, error) {
	e, err := newCalibNote(EventUnit, variant, note{Message: unitMessage(&u), Unit: &unitJSON{id, &u}})
	e.calib, e.unit = id, &u
	return e, err
}

// newCalibEndEvent ends a calibration, without its numbers.
func newCalibEndEvent(id, variant int, end *CalibrateEnd, done, units int) (stored, error) {
	e, err := newCalibNote(EventCalibEnd, variant, note{Message: calibEndMessage(end, done, units), CalibEnd: &calibEndJSON{id, end}})
	e.calib, e.calibEnd = id, end
	return e, err
}

// newCalibNote is newNote for payloads with figures of others, which is an error
// where JSON cannot carry them.
func newCalibNote(kind EventKind, variant int, n note) (stored, error) {
	if _, err := json.Marshal(n); err != nil {
		return stored{}, fmt.Errorf("sessions: a %s event cannot be recorded: %w", kind, err)
	}
	return newNote(kind, variant, -1, n), nil
}

// calibMessage is a setup in a line of the log.
func calibMessage(s *CalibrationSetup, variant string) string {
	text := fmt.Sprintf("calibrating %s: %s", variant, count(int64(len(s.Units)), "unit"))
	switch {
	case s.Tokens > 0:
		text += fmt.Sprintf(" on %s of %s in %s", count(s.Tokens, "token"), s.Corpus, count(int64(s.Chunks), "chunk"))
	case s.Inputs != "" && s.Inputs != InputsSequential:
		text += fmt.Sprintf(" by moments that were measured before (%s)", short(s.Inputs))
	}
	if len(s.Only) > 0 {
		text += ", only " + strings.Join(s.Only, ", ")
	}
	if s.Codes != "" {
		text += ", codes in " + s.Codes
	}
	return oneLine(text)
}

// unitMessage is a unit in a line of the log: what is traded, and what fell back.
func unitMessage(u *CalibUnit) string {
	text := fmt.Sprintf("%s: %s", u.Unit, matrices(len(u.Matrices)))
	t := TradesOf(u.Matrices)
	if t.Calibrated > 0 {
		text += fmt.Sprintf(", output error %.4g → %.4g, weight error %.4g → %.4g", float64(t.BaseOut2), float64(t.Out2), float64(t.BaseRel2), float64(t.Rel2))
	}
	if t.FellBack > 0 {
		text += fmt.Sprintf(", %d fell back", t.FellBack)
	}
	if u.Again {
		text += ", read back"
	}
	return oneLine(fmt.Sprintf("%s, %.1f s", text, u.Seconds))
}

// calibEndMessage is an end in a line of the log.
func calibEndMessage(end *CalibrateEnd, done, units int) string {
	text := fmt.Sprintf("calibration %s: %d of %s, %s calibrated", end.State, done, count(int64(units), "unit"), matrices(end.Calibrated))
	if end.Params > 0 && end.FellBack > 0 {
		text += fmt.Sprintf(", %.2f %% of the parameters fell back", 100*float64(end.FellBack)/float64(end.Params))
	}
	if end.Gate != "" {
		text += ", fidelity gate FAILED: " + end.Gate
	}
	if end.Reason != "" {
		text += ": " + end.Reason
	}
	return oneLine(text)
}

// matrices is how many there are, in words.
func matrices(n int) string {
	if n == 1 {
		return "1 matrix"
	}
	return fmt.Sprintf("%d matrices", n)
}

// InputsSequential is what a setup says of inputs that went through the layers
// quantized so far.
const InputsSequential = "sequential"

// maxUnits bounds what a file may claim: more layers than any model has.
const maxUnits = 1 << 16

// decodeCalib fills in what the payload of an event about a calibration holds.
func decodeCalib(e *stored) error {
	n := &e.note
	switch e.Kind {
	case EventCalib:
		if n.Calib == nil || n.Calib.Setup == nil || n.Calib.ID < 0 {
			return errors.New("a calib event holds no setup")
		}
		if k := len(n.Calib.Setup.Units); k > maxUnits {
			return fmt.Errorf("a calib event is of %d units, of at most %d", k, maxUnits)
		}
		e.calib, e.calibSetup, n.Calib = n.Calib.ID, n.Calib.Setup, nil
	case EventUnit:
		if n.Unit == nil || n.Unit.CalibUnit == nil || n.Unit.ID < 0 || n.Unit.Unit == "" {
			return errors.New("a unit event holds no unit")
		}
		e.calib, e.unit, n.Unit = n.Unit.ID, n.Unit.CalibUnit, nil
	case EventCalibEnd:
		if n.CalibEnd == nil || n.CalibEnd.CalibrateEnd == nil || n.CalibEnd.ID < 0 {
			return errors.New("a calibend event holds no end")
		}
		switch s := n.CalibEnd.State; s {
		case RunFinished, RunCancelled, RunStopped:
		default:
			return fmt.Errorf("a calibration ended in state %q (known: %s, %s, %s)", s, RunFinished, RunCancelled, RunStopped)
		}
		e.calib, e.calibEnd, n.CalibEnd = n.CalibEnd.ID, n.CalibEnd.CalibrateEnd, nil
	}
	return nil
}
