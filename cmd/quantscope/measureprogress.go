package main

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quantscope/analysis/yardstick"
	"quantscope/sessions"
	"quantscope/views"
)

// measureProgress prints how a measurement goes.
type measureProgress struct {
	*progress
	now     atomic.Pointer[yardstick.Progress]
	running []yardstick.Running // by candidate
	yard    int
	mu      sync.Mutex // of the stream: warnings come from other goroutines
	told    time.Time  // of calibration; mu
}

// runningText is the mean of a candidate as it grows, with its standard error where
// there is one.
func runningText(r *yardstick.Running) string {
	if err := r.StdErr(); !math.IsNaN(err) {
		return nats(r.Mean()) + " ±" + nats(err)
	}
	return nats(r.Mean())
}

// tell keeps how far the measurement is for the next line. Codes are made before
// there are chunks that would bring one.
func (p *measureProgress) tell(now yardstick.Progress) {
	p.now.Store(&now)
	if !strings.HasPrefix(now.Stage, sessions.StageCalibrating) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.told) < p.every {
		return
	}
	p.told = time.Now()
	p.print(views.Clean(now.Stage))
}

func (p *measureProgress) warn(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprintln(p.w)
	}
	fmt.Fprintln(p.w, "quantscope: "+views.Clean(oneLine(s)))
}

// show takes in what a batch brings and prints a line now and then.
func (p *measureProgress) show(st *sessions.State, b sessions.Batch) {
	for _, c := range b.YardChunks {
		if c.Yard != p.yard || p.running == nil {
			p.begin(st, c.Yard)
			break // the state has the whole batch
		}
		p.take(c.Chunk)
	}
	if time.Since(p.last) < p.every {
		return
	}
	p.last = time.Now()
	p.say(st)
}

func (p *measureProgress) say(st *sessions.State) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(p.line(st))
}

// begin counts anew what a measurement holds.
func (p *measureProgress) begin(st *sessions.State, yard int) {
	if yard < 0 || yard >= len(st.Yards) {
		return
	}
	p.yard, p.running = yard, make([]yardstick.Running, len(st.Yards[yard].Setup.Candidates))
	for _, c := range st.Yards[yard].Chunks {
		p.take(c)
	}
}

func (p *measureProgress) take(c *yardstick.Chunk) {
	for k := range min(len(p.running), len(c.Rows)) {
		p.running[k].Add(c.Corpus, c.Rows[k])
	}
}

func (p *measureProgress) line(st *sessions.State) string {
	line := "measuring"
	if now := p.now.Load(); now != nil {
		if line = now.Stage; now.Of > 0 {
			line += fmt.Sprintf("  %d/%d chunks", now.Chunks, now.Of)
		}
		if now.TokensPerSec > 0 && !math.IsInf(now.TokensPerSec, 0) {
			line += fmt.Sprintf("  %s tok/s", thousands(int64(now.TokensPerSec)))
		}
		if now.ETASeconds > 0 {
			line += "  ETA " + clock(now.ETASeconds)
		}
	}
	if p.yard < len(st.Yards) {
		for k := range p.running {
			if r := &p.running[k]; !math.IsNaN(r.Mean()) {
				line += "  " + views.Clean(st.Yards[p.yard].Setup.Candidates[k].Label) + " " + runningText(r)
			}
		}
	}
	return line
}

// finish leaves the last line, where any was shown.
func (p *measureProgress) finish(st *sessions.State) {
	if p.running == nil {
		return
	}
	p.begin(st, p.yard)
	p.say(st)
	if p.live {
		fmt.Fprintln(p.w)
	}
}

// thousands writes 14100 as 14,100.
func thousands(n int64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// nats writes a divergence: five decimals, or a power of ten where these say little.
func nats(x float64) string {
	switch v := math.Abs(x); {
	case math.IsNaN(x):
		return "–"
	case math.IsInf(x, 0):
		return "∞"
	case v == 0 || v >= 0.001:
		return fmt.Sprintf("%.5f", x)
	}
	return fmt.Sprintf("%.1e", x)
}
