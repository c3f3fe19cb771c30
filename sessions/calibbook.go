package sessions

import (
	"fmt"
	"slices"
)

// calibBook knows the calibrations of a session while its events are read in
// order, and what fits them, as yardBook does of measurements.
type calibBook struct {
	at      map[int]int // by number in the file: index in State.Calibrations
	setups  []*CalibrationSetup
	units   []map[string]bool // by index: those that are done
	tensors []map[int]bool    // by index: those that are in a unit
}

// place gives an event about a calibration its index, and is an error where it
// does not fit what came before. tensors is how many the session has. Other
// events are left alone.
func (b *calibBook) place(e *stored, tensors int) error {
	if e.Kind == EventCalib {
		if _, twice := b.at[e.calib]; twice {
			return fmt.Errorf("calibration %d began twice", e.calib)
		}
		if e.Variant < 0 || e.calibSetup.Variant != e.Variant {
			return fmt.Errorf("calibration %d is of variant %d in an event of variant %d", e.calib, e.calibSetup.Variant, e.Variant)
		}
		if b.at == nil {
			b.at = map[int]int{}
		}
		b.at[e.calib] = len(b.setups)
		b.setups = append(b.setups, e.calibSetup)
		b.units = append(b.units, map[string]bool{})
		b.tensors = append(b.tensors, map[int]bool{})
		e.calib = len(b.setups) - 1
		return nil
	}
	if e.Kind != EventUnit && e.Kind != EventCalibEnd {
		return nil
	}
	i, ok := b.at[e.calib]
	if !ok {
		return fmt.Errorf("calibration %d has no beginning", e.calib)
	}
	if e.Variant != b.setups[i].Variant {
		return fmt.Errorf("calibration %d is of variant %d, not %d", e.calib, b.setups[i].Variant, e.Variant)
	}
	e.calib = i
	if e.Kind == EventCalibEnd {
		return nil
	}
	if !slices.Contains(b.setups[i].Units, e.unit.Unit) {
		return fmt.Errorf("calibration %d has no unit %q", i, e.unit.Unit)
	}
	if b.units[i][e.unit.Unit] {
		return fmt.Errorf("unit %q of calibration %d is done twice", e.unit.Unit, i)
	}
	seen := map[int]bool{}
	for _, m := range e.unit.Matrices {
		if m.Tensor < 0 || m.Tensor >= tensors || b.tensors[i][m.Tensor] || seen[m.Tensor] {
			return fmt.Errorf("unit %q of calibration %d has tensor %d of %d, or has it twice", e.unit.Unit, i, m.Tensor, tensors)
		}
		seen[m.Tensor] = true
	}
	for t := range seen {
		b.tensors[i][t] = true
	}
	b.units[i][e.unit.Unit] = true
	return nil
}
