package checkpoint

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"
)

// Pool hands out byte buffers and takes them back for use again. Those that
// are out and those that wait for use never hold more than the budget
// together, but for one buffer above the budget, which is served when
// everything else is back. Requests are served in the order in which they
// came, so a large one is not starved by small ones.
type Pool struct {
	budget int64

	mu      sync.Mutex
	out     map[*byte]int // buffers in use: address to size
	used    int64         // bytes of those
	idle    map[int][][]byte
	waiting int64     // bytes of idle buffers
	queue   list.List // of *request, first come first
}

type request struct {
	size  int
	ready chan []byte // capacity 1
}

// NewPool is a pool of budget bytes. A budget below 1 serves one buffer at a
// time.
func NewPool(budget int64) *Pool {
	return &Pool{budget: budget, out: map[*byte]int{}, idle: map[int][][]byte{}}
}

// Get waits until there is room for n bytes and returns a buffer of that
// length, whose content is whatever it was last used for. It ends early with
// the context's error.
func (p *Pool) Get(ctx context.Context, n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("checkpoint: buffer of %d bytes", n)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if n == 0 {
		return []byte{}, nil
	}
	r := &request{sizeClass(n), make(chan []byte, 1)}
	p.mu.Lock()
	place := p.queue.PushBack(r)
	p.serve()
	p.mu.Unlock()
	select {
	case b := <-r.ready:
		return b[:n], nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case b := <-r.ready: // served at the same moment
		p.take(b)
	default:
		p.queue.Remove(place)
	}
	p.serve() // whoever stood behind may fit
	return nil, ctx.Err()
}

// Put gives a buffer of Get back. Its capacity must be untouched. What is not
// from Get, or was given back already, is an error and left alone.
func (p *Pool) Put(b []byte) error {
	if cap(b) == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b = b[:cap(b)]
	if size, ok := p.out[&b[0]]; !ok || size != len(b) {
		return errForeign
	}
	p.take(b)
	p.serve()
	return nil
}

var errForeign = errors.New("checkpoint: a buffer that is not out was put into the pool")

// take moves a buffer from those that are out to the idle ones.
func (p *Pool) take(b []byte) {
	delete(p.out, &b[0])
	p.used -= int64(len(b))
	if int64(len(b)) <= p.budget-p.used-p.waiting {
		p.idle[len(b)] = append(p.idle[len(b)], b)
		p.waiting += int64(len(b))
	}
}

// serve hands buffers to the requests at the head of the queue as long as
// they fit.
func (p *Pool) serve() {
	for e := p.queue.Front(); e != nil; e = p.queue.Front() {
		r := e.Value.(*request)
		if p.used > 0 && int64(r.size) > p.budget-p.used {
			return
		}
		b := p.find(r.size)
		p.out[&b[0]] = len(b)
		p.used += int64(len(b))
		p.queue.Remove(e)
		r.ready <- b
	}
}

// find takes an idle buffer of the size or makes one, dropping idle buffers
// of other sizes where the budget wants it.
func (p *Pool) find(size int) []byte {
	if len(p.idle[size]) > 0 {
		return p.pop(size)
	}
	for other := range p.idle {
		for len(p.idle[other]) > 0 && p.used+p.waiting+int64(size) > p.budget {
			p.pop(other)
		}
	}
	return make([]byte, size)
}

// pop takes an idle buffer of a size that has one.
func (p *Pool) pop(size int) []byte {
	free := p.idle[size]
	last := len(free) - 1
	b := free[last]
	free[last] = nil // so that a dropped buffer is garbage
	if p.idle[size] = free[:last]; last == 0 {
		delete(p.idle, size)
	}
	p.waiting -= int64(size)
	return b
}

// sizeClass rounds up to one of four sizes an octave, so that tensors of
// nearly the same size share buffers at no more than a quarter of waste.
func sizeClass(n int) int {
	const smallest = 4096
	if n <= smallest {
		return smallest
	}
	step := 1 << (bits.Len(uint(n-1)) - 3)
	if c := (n + step - 1) &^ (step - 1); c > 0 {
		return c
	}
	return n
}
