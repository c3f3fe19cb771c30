package tui

import (
	"fmt"
	"slices"
	"strings"

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

// calibrationStep is how far the calibration that runs is, in more and in fewer
// words.
type calibrationStep struct {
	variant string
	// where is the unit with its place among all and the step with its share: in
	// figures, in percent, and without the step.
	where [3]string
	back  string // what was read back, "" for nothing
}

// parts are all that is said of it.
func (c *calibrationStep) parts() []string { return said(c.where[0], c.back) }

// calibrationStep is nil where none runs.
func (m *Model) calibrationStep() *calibrationStep {
	st := m.scene.State
	c := &st.Progress.Calibrating
	if c.Unit == "" && c.Step == "" || c.Variant < 0 || c.Variant >= len(st.Variants) {
		return nil
	}
	out := &calibrationStep{variant: views.Clean(st.Variants[c.Variant].Name)}
	unit := views.Clean(c.Unit)
	if c.Units > 0 {
		unit = fmt.Sprintf("%s (%d/%d)", unit, min(c.Done+1, c.Units), c.Units)
	}
	out.where = [3]string{unit, unit, unit}
	if c.Step != "" {
		step := views.Clean(c.Step)
		if c.Unit != "" {
			step = unit + " · " + step
		}
		out.where[0], out.where[1] = step, step
		if c.Of > 0 {
			of := views.Thousands(c.Of) // as wide from the first token to the last
			out.where[0] += fmt.Sprintf(" %*s/%s", len(of), views.Thousands(c.At), of)
			out.where[1] += fmt.Sprintf(" %2d %%", 100*min(c.At, c.Of)/c.Of)
		}
		if c.Unit == "" {
			out.where[2] = out.where[1]
		}
	}
	if k := m.calibrating(); k != nil {
		if n := readBack(k); n > 0 {
			out.back = fmt.Sprintf("%d read back", n)
		}
	}
	return out
}

// fitted are the parts of a status in w cells, of which what the person waits for
// goes last: where it is, and then.
func (c *calibrationStep) fitted(w int, rate, then string) []string {
	for _, parts := range [][]string{
		said(c.where[0], c.back, rate, then), said(c.where[0], rate, then), said(c.where[0], then), said(c.where[1], then), said(c.where[1]),
	} {
		if views.Width(strings.Join(parts, "  ")) <= w {
			return parts
		}
	}
	return said(c.where[2])
}

// said leaves out what is not said.
func said(parts ...string) []string {
	return slices.DeleteFunc(parts, func(s string) bool { return s == "" })
}

// endsWith says what becomes of what is under way when the run stops, or ends.
func (m *Model) endsWith(verb string) string {
	c := &m.scene.State.Progress.Calibrating
	switch {
	case m.calibrationStep() == nil || c.Unit == "":
	case c.Step == "passing": // what goes through it is quantized
		return fmt.Sprintf("The layers that were quantized are kept, and the run %s.", verb)
	default:
		return fmt.Sprintf("What is done of %s is dropped, and the run %s; layers before it are kept.", views.Clean(c.Unit), verb)
	}
	return fmt.Sprintf("The tensors that are being measured are finished, then the run %s.", verb)
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
		const short, name = 60, 20 // of a checkpoint
		return max(w*2/3, min(w-name, short))
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
