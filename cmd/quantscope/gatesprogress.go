package main

import (
	"fmt"
	"sync"
	"time"

	"quantscope/analysis/gates"
	"quantscope/views"
)

// gatesProgress prints how a run of gates goes.
type gatesProgress struct {
	*progress
	mu sync.Mutex // of the stream: progress and warnings come from other goroutines
}

// tell prints a line now and then.
func (p *gatesProgress) tell(now gates.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < p.every {
		return
	}
	p.last = time.Now()
	p.print(gatesLine(now))
}

func gatesLine(now gates.Progress) string {
	line := views.Clean(now.Stage)
	if now.Of > 0 {
		line += fmt.Sprintf("  %d/%d answers", now.Done, now.Of)
	}
	if now.PerSecond > 0 {
		line += fmt.Sprintf("  %.3g tok/s", now.PerSecond)
	}
	if now.ETA > 0 {
		line += "  ETA " + clock(now.ETA.Seconds())
	}
	return line
}

func (p *gatesProgress) warn(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end0()
	fmt.Fprintln(p.w, "quantscope: "+views.Clean(oneLine(s)))
}

// end leaves a redrawn line as it is.
func (p *gatesProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.end0()
}

func (p *gatesProgress) end0() {
	if p.drawn {
		fmt.Fprintln(p.w)
		p.drawn = false
	}
}
