package model

import "sync"

// handles are a source and its forks, which are used again. A source that cannot
// fork is its own only handle: it is read where it is needed, and released when a
// layer is done.
type handles struct {
	src  Source
	fork Forker // nil where it cannot

	mu   sync.Mutex
	free []Source
}

func newHandles(src Source) *handles {
	h := &handles{src: src}
	if f, ok := src.(Forker); ok {
		if other := f.Fork(); other != nil {
			h.fork, h.free = f, []Source{other}
		}
	}
	return h
}

func (h *handles) forks() bool { return h.fork != nil }

// get is a handle that nobody uses.
func (h *handles) get() Source {
	if h.fork == nil {
		return h.src
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.free); n > 0 {
		src := h.free[n-1]
		h.free = h.free[:n-1]
		return src
	}
	return h.fork.Fork()
}

// put releases what a handle gave.
func (h *handles) put(src Source) {
	src.Release()
	if h.fork == nil {
		return
	}
	h.mu.Lock()
	h.free = append(h.free, src)
	h.mu.Unlock()
}

func (h *handles) close() { h.src.Release() }

// future is a value that is being made.
type future[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// async makes a value beside what else is done.
func async[T any](f func() (T, error)) *future[T] {
	u := &future[T]{done: make(chan struct{})}
	go func() {
		defer close(u.done)
		u.value, u.err = f()
	}()
	return u
}

func (u *future[T]) wait() (T, error) {
	<-u.done
	return u.value, u.err
}

// registry lends weights of one layer: what a party read is used by later ones
// where the origins are the same.
type registry struct {
	owner map[any]*party    // who reads an origin that others use too
	until map[*party]*party // who uses a party's weights last; itself where nobody else does
	held  []held

	mu      sync.Mutex
	weights map[any]Weight
}

// held is memory that is given back when the last user is done.
type held struct {
	last *party
	back func()
}

// plan finds out who lends to whom in a layer. Sources that cannot fork lend
// nothing.
func plan(steps []step, spec *Spec, l *Layer) *registry {
	g := &registry{owner: map[any]*party{}, until: map[*party]*party{}, weights: map[any]Weight{}}
	for _, s := range steps {
		g.until[s.party] = s.party
	}
	if len(steps) < 2 {
		return g
	}
	places := l.places(spec)
	for _, s := range steps {
		if s.party.org == nil {
			continue
		}
		for _, p := range places {
			o := s.party.org.WeightOrigin(p)
			if o == nil {
				continue
			}
			if of := g.owner[o]; of != nil {
				g.until[of] = s.party
			} else if s.party.lend.forks() {
				g.owner[o] = s.party
			}
		}
	}
	return g
}

// origin is that of a party's weight, nil where it is not known.
func (g *registry) origin(p *party, at Place) any {
	if g == nil || p.org == nil {
		return nil
	}
	return p.org.WeightOrigin(at)
}

// find is a weight that another party has read.
func (g *registry) find(origin any) (Weight, bool) {
	if origin == nil {
		return Weight{}, false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	w, ok := g.weights[origin]
	return w, ok
}

// keep lends a weight that stays until done.
func (g *registry) keep(p *party, origin any, w Weight) {
	if origin == nil || g.owner[origin] != p || g.until[p] == p {
		return
	}
	g.mu.Lock()
	g.weights[origin] = w
	g.mu.Unlock()
}

// done gives back what was read for party p, now or when its last user is done.
func (g *registry) done(p *party, back ...func()) {
	for _, b := range back {
		g.held = append(g.held, held{g.until[p], b})
	}
	rest := g.held[:0]
	for _, h := range g.held {
		if h.last == p {
			h.back()
		} else {
			rest = append(rest, h)
		}
	}
	g.held = rest
}
