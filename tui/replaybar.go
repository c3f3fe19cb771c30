package tui

import (
	"fmt"
	"math"
	"strings"

	"quantscope/views"
)

// replayStatus is the clock of a replay in at most w cells: state, speed, time
// and a bar. The rectangle is where the bar stands, from the line's start.
func (m *Model) replayStatus(w int) (string, Rect) {
	t, p := m.scene.Theme, m.pos
	mark := "‖"
	switch {
	case p.Playing:
		mark = "▶"
	case p.AtUS >= p.EndUS:
		mark = "■"
	}
	head := fmt.Sprintf("%s %s  %s/%s", mark, speed(p.Speed), clock(p.AtUS, p.EndUS), clock(p.EndUS, p.EndUS))
	bar := min(w-views.Width(head)-2, 40)
	if bar < 4 {
		return t.Accent.Render(views.Truncate(head, w)), Rect{}
	}
	done := 0
	if p.EndUS > 0 {
		done = int(float64(bar) * min(max(float64(p.AtUS)/float64(p.EndUS), 0), 1))
	}
	line := t.Accent.Render(head) + "  " + t.Accent.Render(strings.Repeat("━", done)) + t.Faint.Render(strings.Repeat("─", bar-done))
	return line, Rect{X: views.Width(head) + 2, W: bar, H: 1}
}

// speed is a factor as short as it can be said: ¼×, ½×, 4×.
func speed(x float64) string {
	switch x {
	case 0.25:
		return "¼×"
	case 0.5:
		return "½×"
	}
	return fmt.Sprintf("%.3g×", x)
}

// clock is a time of a replay in microseconds as mm:ss, with hours where there
// are any, and with hundredths where the whole replay takes less than a minute.
func clock(us, end int64) string {
	us = max(us, 0)
	s := us / 1e6
	text := minutes(s)
	if s < 600 {
		text = "0" + text
	}
	if end < 60e6 {
		text += fmt.Sprintf(".%02d", us/1e4%100)
	}
	return text
}

// minutes is a time in seconds as m:ss, with hours where there are any.
func minutes(s int64) string {
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// rate is bytes per second in decimal units with three digits.
func rate(bytes float64) string {
	if text := size(bytes); text != "" {
		return text + "/s"
	}
	return ""
}

// size is bytes in decimal units with three digits; "" for what is no number.
func size(bytes float64) string {
	if math.IsNaN(bytes) || math.IsInf(bytes, 0) {
		return ""
	}
	for _, unit := range []string{"B", "kB", "MB", "GB"} {
		if bytes < 999.5 {
			return fmt.Sprintf("%s %s", threeDigits(bytes), unit)
		}
		bytes /= 1000
	}
	return fmt.Sprintf("%s TB", threeDigits(bytes))
}

func threeDigits(x float64) string {
	switch {
	case x < 9.995:
		return fmt.Sprintf("%.2f", x)
	case x < 99.95:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.0f", x)
}
