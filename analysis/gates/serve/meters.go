package serve

import (
	"context"
	"errors"
	"sync"
	"time"

	"quantscope/analysis/gates/chat"
)

// Upper bounds of histograms' buckets, those of vLLM, so that what is drawn of the
// one is drawn of the other.
var (
	firstBounds   = []float64{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	betweenBounds = []float64{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	wholeBounds   = []float64{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	tokenBounds   = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000}
)

// histogram counts values by upper bounds.
type histogram struct {
	bounds []float64
	counts []uint64 // of each bound's own bucket; those above the last are in total alone
	total  uint64
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds))}
}

func (h *histogram) add(v float64) {
	h.total++
	h.sum += v
	for i, b := range h.bounds {
		if v <= b {
			h.counts[i]++
			return
		}
	}
}

// meters are what the server itself counts: how answers ended and how long they took.
type meters struct {
	mu                          sync.Mutex
	ended                       map[string]uint64 // by reason, under vLLM's names
	first, between, perTok, all *histogram
	prompt, made                *histogram
}

// Reasons for which answers end, beside those of package chat.
const (
	endAbort = "abort"
	endError = "error"
)

// endReasons lists all, so that each is told from the beginning.
var endReasons = []string{chat.FinishStop, chat.FinishLength, endAbort, endError}

func newMeters() *meters {
	return &meters{
		ended: map[string]uint64{}, first: newHistogram(firstBounds), between: newHistogram(betweenBounds), perTok: newHistogram(betweenBounds),
		all: newHistogram(wholeBounds), prompt: newHistogram(tokenBounds), made: newHistogram(tokenBounds),
	}
}

// watch times one answer.
type watch struct {
	m           *meters
	began, last time.Time
	pieces      int
}

func (m *meters) begin(now time.Time) *watch { return &watch{m: m, began: now} }

// piece notes that something came. It is called from one goroutine.
func (w *watch) piece(now time.Time) {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	if w.pieces++; w.pieces > 1 {
		w.m.between.add(now.Sub(w.last).Seconds())
	}
	w.last = now
}

// end notes how the answer ended.
func (w *watch) end(e *event) {
	took := time.Since(w.began)
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	switch {
	case errors.Is(e.err, context.Canceled):
		w.m.ended[endAbort]++
		return
	case e.err != nil:
		w.m.ended[endError]++
		return
	case e.reply.Finish == chat.FinishLength:
		w.m.ended[chat.FinishLength]++
	default: // calls end as texts do
		w.m.ended[chat.FinishStop]++
	}
	w.m.all.add(took.Seconds())
	if e.reply.First > 0 { // told by the engine: pieces may be held back
		w.m.first.add(e.reply.First.Seconds())
	}
	w.m.prompt.add(float64(max(e.reply.PromptTokens, 0)))
	w.m.made.add(float64(max(e.reply.CompletionTokens, 0)))
	if n := e.reply.CompletionTokens; n > 1 && w.pieces > 0 {
		w.m.perTok.add(w.last.Sub(w.began).Seconds() / float64(n-1))
	}
}
