package sessions

import (
	"quantscope/quant/demo"
)

// NoCalibration is why calibrated variants cannot be added to the run as far as
// can be told without reading anything, "" where they can.
func (l *LiveFeed) NoCalibration() string {
	if l.job.calibrator == nil {
		return "this run has nothing to calibrate with"
	}
	j, ok := l.job.calibrator.(*jobCalibrator)
	if !ok || j.o.Calibration.Corpus != "" || j.o.Calibration.File != "" || j.o.Checkpoint == demo.Label {
		return ""
	}
	for _, c := range l.st.Calibrations {
		if c.Setup.Tokens > 0 { // its text is known
			return ""
		}
	}
	return "the session has no calibration text: quantize CHECKPOINT --calib FILE names one"
}
