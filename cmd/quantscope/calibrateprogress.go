package main

import (
	"fmt"
	"time"

	"quantscope/analysis/calibrate"
)

// calibrateProgress prints how a calibration goes.
type calibrateProgress struct {
	*progress
	tokens      int64 // of the text
	units, done int
	had         int // units that were there before
	began       time.Time
	measured    int64 // tokens through layers since
	shown       bool
}

// begin counts what is there already.
func (p *calibrateProgress) begin(w *calibrate.FileWriter, units []calibrate.KeptUnit) {
	p.units, p.began = len(units), time.Now()
	for _, u := range units {
		if w.Has(u.Name) {
			p.had++
		}
	}
	p.done = p.had
	if p.had > 0 {
		p.print(fmt.Sprintf("going on: %d of %s were measured before", p.had, counted(p.units, "unit", "units")))
		p.shown = true
	}
}

func (p *calibrateProgress) sink() calibrate.Sink {
	return calibrate.Sink{
		Progress: p.tell,
		Unit: func(string, float64) error {
			return nil
		},
	}
}

// tell prints a line now and then.
func (p *calibrateProgress) tell(now calibrate.Progress) {
	p.measured, p.done = now.Tokens, max(now.Done, p.had)
	if time.Since(p.last) < p.every {
		return
	}
	p.last, p.shown = time.Now(), true
	p.print(p.line(now))
}

func (p *calibrateProgress) line(now calibrate.Progress) string {
	line := fmt.Sprintf("%s %s  %d/%d units", now.Step, now.Unit, now.Done, now.Units)
	if now.Of > 0 && now.At > 0 {
		line += fmt.Sprintf("  %s of %s", thousands(now.At), thousands(now.Of))
	}
	seconds := time.Since(p.began).Seconds()
	if now.Tokens > 0 && seconds > 0.1 {
		line += fmt.Sprintf("  %s tok/s a layer", thousands(int64(float64(now.Tokens)/seconds)))
		if now.Done > 0 {
			line += "  ETA " + clock(seconds/float64(now.Done)*float64(now.Units-now.Done))
		}
	}
	return line
}

// end leaves the last line.
func (p *calibrateProgress) end() {
	if p.live && p.shown {
		fmt.Fprintln(p.w)
	}
}
