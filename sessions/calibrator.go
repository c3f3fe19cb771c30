package sessions

import (
	"context"
	"errors"
	"fmt"

	"quantscope/analysis/calibrate"
	"quantscope/kernels"
	"quantscope/quant/codes"
)

// calibrator makes the calibrated variants of a job.
type calibrator interface {
	// prepare opens and checks all that a calibrated run of a variant reads. Nothing
	// is computed, and no file is made.
	prepare(ctx context.Context, w calibWant) (preparedCalib, error)
}

// codesReader is a calibrator whose codes can be looked at.
type codesReader interface {
	// codes finds what a calibrated run of a variant chose for a tensor, and how it
	// is decoded. codes is the folder that its setup names.
	codes(session, variant, folder, tensor string) (kernels.Spec, codes.Matrix, error)
}

// calibWant is what is to be calibrated.
type calibWant struct {
	variant string
	id      int          // of the variant
	prior   *Calibration // what the session holds of it; nil for none
	env     note         // program, kernel set, for the record
	session string       // path, for errors
}

// preparedCalib is a calibrated run that is ready. It has one user.
type preparedCalib interface {
	setup() CalibrationSetup
	// notes are what a person should know of what is read.
	notes() []calibNote
	run(ctx context.Context, sink calibrate.Sink) (*calibrate.Outcome, error)
	close() error
}

// ErrPartCalibrated is wrapped where a calibrated variant is asked for of what is
// not a whole checkpoint.
var ErrPartCalibrated = errors.New("calibration goes through the whole model")

// CalibrationError is a calibrated run that could not be made.
type CalibrationError struct {
	Variant string
	Err     error
}

func (e *CalibrationError) Error() string {
	return fmt.Sprintf("sessions: calibrating %s: %s", e.Variant, oneLine(e.Err.Error()))
}

// Unwrap is the cause.
func (e *CalibrationError) Unwrap() error { return e.Err }

// CodesError says that a folder of codes and a session contradict one another.
type CodesError struct {
	Dir    string
	Reason string
}

func (e *CodesError) Error() string { return "sessions: codes in " + e.Dir + ": " + e.Reason }

// agrees compares what a calibrated variant was made on with what it is to be
// gone on with.
func (s *CalibrationSetup) agrees(session string, now *CalibrationSetup, variant string) error {
	differs := func(what, was, is string) error {
		return &SettingsError{session, "calibration of " + variant + ": " + what, orNone(was), orNone(is)}
	}
	if was, is := s.text(), now.text(); was != is {
		return differs("text", was, is)
	}
	if was, is := s.Inputs, now.Inputs; was != is {
		return differs("inputs", was, is)
	}
	if was, is := fmt.Sprint(s.Only), fmt.Sprint(now.Only); was != is {
		return differs("projections", was, is)
	}
	if s.Damp != now.Damp {
		return differs("damping", fmt.Sprint(s.Damp), fmt.Sprint(now.Damp))
	}
	return nil
}

// text is what a setup's text is, without the name of its file.
func (s *CalibrationSetup) text() string {
	if s.CorpusSHA == "" {
		return ""
	}
	return fmt.Sprintf("%s in %s, sha256 %s", count(s.Tokens, "token"), count(int64(s.Chunks), "chunk"), short(s.CorpusSHA))
}
