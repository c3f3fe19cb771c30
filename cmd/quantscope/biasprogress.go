package main

import (
	"fmt"
	"sync"
	"time"

	"quantscope/analysis/bias"
	"quantscope/views"
)

// biasProgress prints how a look at biases goes.
type biasProgress struct {
	*progress
	mu sync.Mutex // of the stream: progress and warnings come from other goroutines
}

// tell prints a line now and then.
func (p *biasProgress) tell(now bias.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < p.every {
		return
	}
	p.last = time.Now()
	p.print(biasLine(now))
}

func biasLine(now bias.Progress) string {
	line := views.BiasStage(now.Stage)
	if now.Of > 0 {
		line += fmt.Sprintf("  %.0f %%", 100*float64(now.Done)/float64(now.Of))
	}
	if now.Layer >= 0 && now.Stage != "heads" && now.Stage != "" {
		line += fmt.Sprintf("  layer %d", now.Layer)
	}
	if now.Tokens > 0 {
		line += fmt.Sprintf("  %s tokens", thousands(now.Tokens))
	}
	if now.Seconds > 0 {
		line += "  " + clock(now.Seconds)
	}
	return line
}

func (p *biasProgress) warn(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
	fmt.Fprintln(p.w, "quantscope: "+views.Clean(oneLine(s)))
}

// end leaves a redrawn line as it is.
func (p *biasProgress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave()
}

func (p *biasProgress) leave() {
	if p.drawn {
		fmt.Fprintln(p.w)
		p.drawn = false
	}
}
