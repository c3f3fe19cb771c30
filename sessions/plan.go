package sessions

import (
	"fmt"
	"math"
	"strings"
	"sync"
)

// plan decides how many workers a run has use for, from what it measures of
// itself. A worker reads a tensor and then measures it, so those that wait for
// the source are what is read ahead.
type plan struct {
	mu      sync.Mutex
	batch   int64 // most bytes of tensors that are read together
	buffer  int   // bytes of every buffer: if all are of one size, none becomes garbage
	threads int
	hands   int // workers that the kernels keep busy while the source delivers
	ahead   int // workers more, that read meanwhile
	seen    rates
	decided int64 // bytes that were read when this was decided
	reviews int
}

// A plan is looked at anew each reviewBytes. What was read ahead is given up
// again where it did not make the source faster by a tenth, and never more than
// maxAhead: disks and network stores gain from a few requests at a time.
const (
	reviewBytes = 64 << 20
	maxAhead    = 8
)

// begin makes the plan of a pass: all threads, until something is measured.
func (p *plan) begin(e *engine) {
	var todoBytes, largest int64
	e.mu.Lock()
	for t := range e.job.Tensors {
		for v := range e.work {
			if e.work[v][t] == todo && !e.variants[v].Calibrated {
				n := int64(e.job.Source.Need(t))
				todoBytes += n
				largest = max(largest, n)
				break
			}
		}
	}
	e.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	// Small enough that the last batches keep all threads busy, and that one of
	// each fits into memory.
	p.batch = max(min(batchBytes, e.share/2, todoBytes/int64(8*e.threads)), 64<<10)
	p.buffer = int(max(min(largest, e.share), p.batch, int64(2*e.piece)))
	if p.threads == 0 {
		p.threads, p.hands = e.threads, e.threads
	}
}

// room is the size of a buffer for so many bytes.
func (p *plan) room(bytes int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.buffer, bytes)
}

func (p *plan) wanted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hands + p.ahead
}

// review is how many workers there should be by now.
func (p *plan) review(e *engine) (workers int, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := e.meter.rates()
	if r.measured-p.decided < reviewBytes {
		return p.hands + p.ahead, false
	}
	before := p.hands + p.ahead
	p.decide(r)
	p.decided = r.measured
	return p.hands + p.ahead, before != p.hands+p.ahead
}

// decide makes the plan anew.
func (p *plan) decide(r rates) {
	p.reviews++
	// A quarter more than what the source can feed, so that the kernels are never
	// what is waited for.
	fed := p.threads
	if r.perByte > 0 {
		fed = int(min(math.Ceil(1.25*r.read*r.perByte), float64(p.threads)))
	}
	p.hands = max(fed, 1)
	switch {
	case r.read*r.perByte >= float64(p.threads): // the kernels are slower than one reader
		p.ahead = min(p.ahead, 1)
	case p.seen.read == 0 || r.read > 1.1*p.seen.read:
		p.ahead = min(max(2*p.ahead, 1), maxAhead)
	case p.ahead > 1 && r.read < p.seen.read/1.1:
		p.ahead /= 2
	}
	p.seen = r
}

// said is the plan with the figures behind it, "" where too little was read to
// have any.
func (p *plan) said(e *engine) (string, *paceJSON) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := e.meter.rates()
	if r.measured < reviewBytes {
		return "", nil
	}
	j := &paceJSON{ReadBytesPerSec: r.read, Workers: p.hands, Ahead: p.ahead, Kernels: map[string]float64{}}
	var rates []string
	e.mu.Lock()
	for v, q := range e.variants {
		if v < len(r.kernels) && r.kernels[v] > 0 {
			j.Kernels[q.Variant.Name] = r.kernels[v]
			rates = append(rates, fmt.Sprintf("%s %s", q.Variant.Name, byteRate(r.kernels[v])))
		}
	}
	e.mu.Unlock()
	return fmt.Sprintf("source read at %s; a thread does %s; %d of %s useful, %d ahead", byteRate(r.read), strings.Join(rates, ", "), p.hands, count(int64(p.threads), "thread"), p.ahead), j
}
