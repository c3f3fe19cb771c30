package sessions

// calibration enters a calibration of one side.
func (j *joining) calibration(side joinedSide, c *Calibration) *Calibration {
	out := *c
	out.Setup = j.calibBegun(side, c.Setup)
	out.Units = nil
	for _, u := range c.Units {
		out.Units = append(out.Units, j.calibUnit(side, u))
	}
	return &out
}

// calibBegun enters a calibration that began on one side.
func (j *joining) calibBegun(side joinedSide, s CalibrationSetup) CalibrationSetup {
	j.calibs[side] = append(j.calibs[side], j.ncalibs)
	j.ncalibs++
	if s.Variant >= 0 && s.Variant < len(j.at[side]) {
		s.Variant = j.at[side][s.Variant]
	} else {
		s.Variant = -1
	}
	return s
}

// calibUnit moves the matrices of a unit to the joined tensors; what the other side
// does not have is left out.
func (j *joining) calibUnit(side joinedSide, u CalibUnit) CalibUnit {
	var kept []CalibMatrix
	for _, m := range u.Matrices {
		if m.Tensor < 0 || m.Tensor >= len(j.joined[side]) || j.joined[side][m.Tensor] < 0 {
			continue
		}
		m.Tensor = j.joined[side][m.Tensor]
		kept = append(kept, m)
	}
	u.Matrices = kept
	return u
}

// sideProgress is the progress of one side with the joined variant that it
// calibrates.
func (j *joining) sideProgress(side joinedSide, p Progress) Progress {
	if c := &p.Calibrating; c.Units > 0 && c.Variant >= 0 && c.Variant < len(j.at[side]) {
		c.Variant = j.at[side][c.Variant]
	} else {
		*c = Calibrating{}
	}
	return p
}

// calibBatch moves what a batch of one side says of calibrations.
func (j *joining) calibBatch(side joinedSide, b Batch, out *Batch) {
	for _, c := range b.CalibsBegun {
		if c.Calibration != len(j.calibs[side]) {
			continue
		}
		c.Setup = j.calibBegun(side, c.Setup)
		c.Calibration = j.calibs[side][c.Calibration]
		out.CalibsBegun = append(out.CalibsBegun, c)
	}
	for _, d := range b.CalibsDone {
		if d.Calibration < 0 || d.Calibration >= len(j.calibs[side]) {
			continue
		}
		d.Calibration, d.Unit = j.calibs[side][d.Calibration], j.calibUnit(side, d.Unit)
		out.CalibsDone = append(out.CalibsDone, d)
	}
	for _, e := range b.CalibsEnded {
		if e.Calibration < 0 || e.Calibration >= len(j.calibs[side]) {
			continue
		}
		e.Calibration = j.calibs[side][e.Calibration]
		out.CalibsEnded = append(out.CalibsEnded, e)
	}
}
