package main

import (
	"fmt"
	"time"

	"quantscope/analysis/tier"
)

// tierProgress prints how a run of a tier goes.
type tierProgress struct{ gatesProgress }

func newTierProgress(std streams) *tierProgress {
	return &tierProgress{gatesProgress{progress: newProgress(std)}}
}

// tell prints a line now and then.
func (p *tierProgress) tell(now tier.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < p.every {
		return
	}
	p.last = time.Now()
	p.print(tierLine(now))
}

func tierLine(now tier.Progress) string {
	line := fmt.Sprintf("%s  %s/%s tokens", now.Stage, thousands(now.Done), thousands(now.Of))
	if now.Seconds > 0 && now.Done > 0 {
		rate := float64(now.Done) / now.Seconds
		line += fmt.Sprintf("  %s tok/s  ETA %s", thousands(int64(rate)), clock(float64(now.Of-now.Done)/rate))
	}
	return line
}
