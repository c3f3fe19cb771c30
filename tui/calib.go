package tui

import (
	"fmt"

	"quantscope/sessions"
	"quantscope/views"
)

// calibrating is the calibration that runs, nil where none does.
func (m *Model) calibrating() *sessions.Calibration {
	st := m.scene.State
	c := &st.Progress.Calibrating
	if c.Unit == "" && c.Step == "" {
		return nil
	}
	for i := len(st.Calibrations) - 1; i >= 0; i-- {
		if k := st.Calibrations[i]; k.Setup.Variant == c.Variant && k.End == nil {
			return k
		}
	}
	return nil
}

// calibrationParts say how far the calibration that runs is: the unit with its
// place among all, the step with its share, and what was read back; nil where
// none runs.
func (m *Model) calibrationParts() (variant string, parts []string) {
	st := m.scene.State
	c := &st.Progress.Calibrating
	if c.Unit == "" && c.Step == "" || c.Variant < 0 || c.Variant >= len(st.Variants) {
		return "", nil
	}
	where := views.Clean(c.Unit)
	if c.Units > 0 {
		where = fmt.Sprintf("%s (%d/%d)", where, min(c.Done+1, c.Units), c.Units)
	}
	if c.Step != "" {
		if c.Unit != "" {
			where += " · "
		}
		where += views.Clean(c.Step)
		if c.Of > 0 {
			where += fmt.Sprintf(" %s/%s", views.Thousands(c.At), views.Thousands(c.Of))
		}
	}
	parts = append(parts, where)
	if k := m.calibrating(); k != nil {
		if n := readBack(k); n > 0 {
			parts = append(parts, fmt.Sprintf("%d read back", n))
		}
	}
	return views.Clean(st.Variants[c.Variant].Name), parts
}

// tokenRate writes tokens a second: 12.3 k tok/s.
func tokenRate(perSec float64) string {
	switch {
	case perSec >= 999_500:
		return fmt.Sprintf("%.1f M tok/s", perSec/1e6)
	case perSec >= 1000:
		return fmt.Sprintf("%.1f k tok/s", perSec/1e3)
	}
	return fmt.Sprintf("%.0f tok/s", perSec)
}

// statusRoom is how much of the first line the status may take.
func (m *Model) statusRoom(w int) int {
	if c := &m.scene.State.Progress.Calibrating; c.Unit != "" || c.Step != "" {
		return w * 2 / 3
	}
	return w * 3 / 5
}

// readBack is how many units of a calibration were read from the codes folder.
func readBack(k *sessions.Calibration) int {
	n := 0
	for i := range k.Units {
		if k.Units[i].Again {
			n++
		}
	}
	return n
}
