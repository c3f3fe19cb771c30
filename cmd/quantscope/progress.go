package main

import (
	"fmt"
	"io"
	"time"

	"quantscope/sessions"
)

// progress prints how a run goes: one line that is redrawn on a terminal, a new
// line now and then elsewhere.
type progress struct {
	w     io.Writer
	live  bool
	every time.Duration
	last  time.Time
	drawn bool
}

func newProgress(std streams) *progress {
	p := &progress{w: std.err, live: std.live, every: 5 * time.Second, last: time.Now()}
	if p.live {
		p.every = 100 * time.Millisecond
	}
	return p
}

func (p *progress) show(st *sessions.State, feed *sessions.LiveFeed) {
	if time.Since(p.last) < p.every {
		return
	}
	p.last = time.Now()
	p.print(progressLine(st) + exportProgress(feed))
}

func (p *progress) print(line string) {
	if p.live {
		fmt.Fprint(p.w, "\r"+line+"\x1b[K")
		p.drawn = true
		return
	}
	fmt.Fprintln(p.w, line)
}

// finish says how it ended.
func (p *progress) finish(st *sessions.State, feed *sessions.LiveFeed) {
	p.print(progressLine(st) + exportProgress(feed))
	if p.live {
		fmt.Fprintln(p.w)
	}
}

func progressLine(st *sessions.State) string {
	pr := st.Progress
	line := fmt.Sprintf("%s  %d/%d", pr.State, pr.Done, pr.Total)
	if pr.Failed > 0 {
		line += fmt.Sprintf("  %d failed", pr.Failed)
	}
	if pr.Variant >= 0 && pr.Variant < len(st.Variants) && pr.State == sessions.RunRunning {
		line += "  " + st.Variants[pr.Variant].Name
	}
	if c := pr.Calibrating; c.Units > 0 {
		line += "  " + calibratingText(c)
	} else if pr.BytesPerSec > 0 {
		line += fmt.Sprintf("  %s/s  %.3g Mweights/s", formatBytes(int64(pr.BytesPerSec)), pr.WeightsPerSec/1e6)
	}
	if pr.ETASeconds > 0 {
		line += "  ETA " + clock(pr.ETASeconds)
	}
	return line
}

// calibratingText says what a calibration is at.
func calibratingText(c sessions.Calibrating) string {
	text := fmt.Sprintf("%s (%d of %d done)", c.Unit, c.Done, c.Units)
	if c.Step != "" {
		text += " " + c.Step
	}
	if c.Of > 0 {
		text += fmt.Sprintf(" %d %%", 100*c.At/c.Of)
	}
	if c.TokensPerSec > 0 {
		text += fmt.Sprintf("  %.3g k tok/s", c.TokensPerSec/1000)
	}
	return text
}

// exportProgress says how much of an export is written.
func exportProgress(feed *sessions.LiveFeed) string {
	e, ok := feed.Export()
	if !ok {
		return ""
	}
	return fmt.Sprintf("  wrote %s of %s", formatBytes(e.Written), formatBytes(e.Total))
}

// clock writes seconds as m:ss or h:mm:ss.
func clock(seconds float64) string {
	s := int64(seconds + 0.5)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
