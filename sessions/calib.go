package sessions

import (
	"quantscope/analysis/calibrate"
)

// Calibration is one calibrated run of a variant that a session holds.
type Calibration struct {
	Setup CalibrationSetup
	AtUS  int64         // of its beginning
	Units []CalibUnit   // in the order in which they were done; not changed once they are here
	End   *CalibrateEnd // nil while it runs, and where it never ended
}

// CalibrationSetup says what is calibrated, and on what.
type CalibrationSetup struct {
	Variant      int                 `json:"variant"`
	Corpus       string              `json:"corpus"`                 // name
	CorpusSource string              `json:"corpusSource,omitempty"` // file, or demo
	CorpusSHA    string              `json:"corpusSHA"`
	Chunks       int                 `json:"chunks"`
	Tokens       int64               `json:"tokens"`
	Damp         float64             `json:"damp"`
	Only         []string            `json:"only,omitempty"`
	Inputs       string              `json:"inputs"` // sequential, or the identity of a saved calibration
	Codes        string              `json:"codes"`  // folder
	Units        []string            `json:"units"`  // that it will do
	Rank         calibrate.RankBound `json:"rank"`
	Program      string              `json:"program"`
	KernelSet    string              `json:"kernelSet"`
	ParamsOfAll  int64               `json:"params"`
}

// CalibUnit is one layer, or the head, that was calibrated.
type CalibUnit struct {
	Unit     string             `json:"unit"`
	Again    bool               `json:"again,omitempty"`  // read back from the codes folder
	Counts   []calibrate.Counts `json:"counts,omitempty"` // of a layer with experts
	Matrices []CalibMatrix      `json:"matrices"`
	Seconds  float64            `json:"seconds"`
}

// CalibMatrix is one matrix of it.
type CalibMatrix struct {
	Tensor int `json:"tensor"`
	calibrate.Trade
}

// CalibrateEnd ends a calibration.
type CalibrateEnd struct {
	State      RunState `json:"state"` // finished, cancelled, stopped
	Reason     string   `json:"reason,omitempty"`
	Calibrated int      `json:"calibrated"` // matrices
	Changed    int64    `json:"changed"`    // codes and parameters that are not the baseline's
	FellBack   int64    `json:"fellBack"`   // parameters of matrices that fell back
	Params     int64    `json:"params"`
	Gate       string   `json:"gate,omitempty"` // why the fidelity gate failed; "" where it passed
	Warnings   []string `json:"warnings,omitempty"`
}

// CalibBegun, CalibDone and CalibEnded are what batches bring; Calibration is the
// index in State.Calibrations.
type (
	CalibBegun struct {
		Calibration int
		AtUS        int64
		Setup       CalibrationSetup
	}
	CalibDone struct {
		Calibration int
		Unit        CalibUnit
	}
	CalibEnded struct {
		Calibration int
		End         *CalibrateEnd
	}
)

// Calibrating is what a live calibration is at; the zero value where none runs.
type Calibrating struct {
	Variant     int
	Unit, Step  string // layer 3; looking, factoring, quantizing, passing
	Done, Units int
	At, Of      int64 // of the step
	// TokensPerSec is how fast text goes through layers, 0 where nothing goes; what
	// is left of the whole is Progress.ETASeconds.
	TokensPerSec float64
}

// Trade is the newest of a tensor under a variant.
func (s *State) Trade(variant, tensor int) (calibrate.Trade, bool) {
	for i := len(s.Calibrations) - 1; i >= 0; i-- {
		c := s.Calibrations[i]
		if c.Setup.Variant != variant {
			continue
		}
		for k := len(c.Units) - 1; k >= 0; k-- {
			for _, m := range c.Units[k].Matrices {
				if m.Tensor == tensor {
					return m.Trade, true
				}
			}
		}
	}
	return calibrate.Trade{}, false
}

// applyCalibrations takes in what a batch says of calibrations.
func (s *State) applyCalibrations(b Batch) {
	for _, c := range b.CalibsBegun {
		if c.Calibration == len(s.Calibrations) {
			s.Calibrations = append(s.Calibrations, &Calibration{Setup: c.Setup, AtUS: c.AtUS})
		}
	}
	for _, d := range b.CalibsDone {
		if d.Calibration >= 0 && d.Calibration < len(s.Calibrations) {
			c := s.Calibrations[d.Calibration]
			c.Units, c.End = append(c.Units, d.Unit), nil
		}
	}
	for _, e := range b.CalibsEnded {
		if e.Calibration >= 0 && e.Calibration < len(s.Calibrations) {
			s.Calibrations[e.Calibration].End = e.End
		}
	}
}

// takeCalib puts what an event says of a calibration into a batch. The event's
// index must be that of State.Calibrations.
func (b *Batch) takeCalib(e *stored) {
	switch {
	case e.calibSetup != nil:
		b.CalibsBegun = append(b.CalibsBegun, CalibBegun{Calibration: e.calib, AtUS: e.AtUS, Setup: *e.calibSetup})
	case e.unit != nil:
		b.CalibsDone = append(b.CalibsDone, CalibDone{Calibration: e.calib, Unit: *e.unit})
	case e.calibEnd != nil:
		b.CalibsEnded = append(b.CalibsEnded, CalibEnded{Calibration: e.calib, End: e.calibEnd})
	}
}

// takeCalib brings the state up to date with one event.
func (s *State) takeCalib(e *stored) {
	var b Batch
	b.takeCalib(e)
	s.applyCalibrations(b)
}

// cloneCalibrations copies what applyCalibrations changes.
func cloneCalibrations(cs []*Calibration) []*Calibration {
	out := make([]*Calibration, len(cs))
	for i, c := range cs {
		d := *c
		d.Units = append([]CalibUnit(nil), c.Units...)
		out[i] = &d
	}
	return out
}
