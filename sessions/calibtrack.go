package sessions

// calibTrack follows the calibration that goes on through the events of a session.
type calibTrack struct {
	units   []string
	at      Calibrating // Units is 0 where none goes on
	fromUS  int64       // when it was begun, or gone on with
	already int         // units that were done then
}

// resume takes over a calibration that never ended.
func (c *calibTrack) resume(st *State) {
	for _, k := range st.Calibrations {
		if k.End == nil {
			c.begin(&k.Setup, len(k.Units), st.LastUS)
		}
	}
}

func (c *calibTrack) begin(s *CalibrationSetup, done int, atUS int64) {
	*c = calibTrack{units: s.Units, at: Calibrating{Variant: s.Variant, Units: len(s.Units)}, fromUS: atUS}
	c.reach(done)
	c.already = done
}

// reach notes that so many units are done.
func (c *calibTrack) reach(done int) {
	c.at.Done, c.at.Unit = done, ""
	if done < len(c.units) {
		c.at.Unit = c.units[done]
	}
}

func (c *calibTrack) observe(e *stored) {
	switch e.Kind {
	case EventCalib:
		c.begin(e.calibSetup, 0, e.AtUS)
	case EventUnit:
		if c.at.Units > 0 {
			c.reach(c.at.Done + 1)
		}
	case EventResumed:
		c.fromUS, c.already = e.AtUS, c.at.Done
	case EventCalibEnd, EventFinished, EventCancelled, EventStopped:
		*c = calibTrack{}
	}
}

// calibrating puts the calibration that goes on into p, and is the seconds that it
// will take; 0 where that is not known. A live run knows more than its events say.
func (t *tracker) calibrating(p *Progress, nowUS int64) (eta float64) {
	if t.meter != nil {
		live := t.meter.calib.Load()
		if live == nil || live.Units == 0 {
			return 0
		}
		p.Calibrating, p.Variant = live.Calibrating, live.Variant
		return live.eta
	}
	c := &t.calib
	if c.at.Units == 0 {
		return 0
	}
	p.Calibrating = c.at
	if n := c.at.Done - c.already; n > 0 && nowUS > c.fromUS {
		eta = float64(nowUS-c.fromUS) / 1e6 * float64(c.at.Units-c.at.Done) / float64(n)
	}
	return eta
}
