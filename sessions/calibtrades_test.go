package sessions

import (
	"testing"

	"quantscope/analysis/calibrate"
)

// Of a tensor that was calibrated more than once under a variant the newest trade
// counts, in the list as in the look-up, and no other variant's.
func TestNewestTradeCounts(t *testing.T) {
	unit := func(tensor int, tokens int64) CalibUnit {
		return CalibUnit{Matrices: []CalibMatrix{{Tensor: tensor, Trade: calibrate.Trade{Tokens: tokens}}}}
	}
	s := &State{Tensors: make([]Tensor, 3), Calibrations: []*Calibration{
		{Setup: CalibrationSetup{Variant: 1}, Units: []CalibUnit{unit(0, 10), unit(2, 11)}},
		{Setup: CalibrationSetup{Variant: 1}, Units: []CalibUnit{unit(0, 20), unit(0, 21), unit(9, 22)}},
		{Setup: CalibrationSetup{Variant: 2}, Units: []CalibUnit{unit(0, 30)}},
	}}
	list := s.Trades(1)
	if len(list) != 3 || list[0] == nil || list[0].Tokens != 21 || list[1] != nil || list[2] == nil || list[2].Tokens != 11 {
		t.Errorf("%+v", list)
	}
	for tensor, want := range map[int]int64{0: 21, 1: -1, 2: 11} {
		got, ok := s.Trade(1, tensor)
		if ok != (want >= 0) || ok && got.Tokens != want {
			t.Errorf("tensor %d: %+v, %v; want %d", tensor, got, ok, want)
		}
	}
	if s.Trades(0) != nil || s.Trades(2)[0].Tokens != 30 {
		t.Error("trades of another variant")
	}
}

// A unit that comes after the end of a calibration means that it is gone on with:
// it has no end until the next one.
func TestCalibrationIsOpenedAgain(t *testing.T) {
	s := &State{Calibrations: []*Calibration{{End: &CalibrateEnd{State: RunStopped}}, {End: &CalibrateEnd{State: RunFinished}}}}
	s.applyCalibrations(Batch{CalibsDone: []CalibDone{{Calibration: 0, Unit: CalibUnit{Unit: "layer 1"}}, {Calibration: 7}}})
	if c := s.Calibrations[0]; c.End != nil || len(c.Units) != 1 {
		t.Errorf("%+v", c)
	}
	if s.Calibrations[1].End == nil {
		t.Error("another calibration was opened")
	}
	s.applyCalibrations(Batch{CalibsEnded: []CalibEnded{{Calibration: 0, End: &CalibrateEnd{State: RunFinished}}}})
	if e := s.Calibrations[0].End; e == nil || e.State != RunFinished {
		t.Errorf("%+v", e)
	}
}
