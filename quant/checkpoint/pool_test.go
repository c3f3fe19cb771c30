package checkpoint

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// get takes a buffer that must be there at once.
func get(t *testing.T, p *Pool, n int) []byte {
	t.Helper()
	b, err := p.Get(context.Background(), n)
	if err != nil || len(b) != n {
		t.Fatalf("%d bytes, %v; want %d", len(b), err, n)
	}
	return b
}

func put(t *testing.T, p *Pool, b []byte) {
	t.Helper()
	if err := p.Put(b); err != nil {
		t.Fatal(err)
	}
}

func TestPoolReuses(t *testing.T) {
	p := NewPool(1 << 20)
	a := get(t, p, 100_000)
	put(t, p, a)
	if b := get(t, p, 99_000); &a[0] != &b[0] {
		t.Error("a buffer of nearly the same size was not used again")
	}
	if b := get(t, p, 0); len(b) != 0 {
		t.Errorf("%d bytes, want none", len(b))
	}
	if _, err := p.Get(context.Background(), -1); err == nil {
		t.Error("a buffer of -1 bytes was served")
	}
}

func TestPoolRefusesForeignBuffers(t *testing.T) {
	p := NewPool(1 << 20)
	a := get(t, p, 5000)
	for name, b := range map[string][]byte{"made elsewhere": make([]byte, 5000), "a part": a[1:], "cut": a[:10:10]} {
		if err := p.Put(b); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	put(t, p, a[:0])
	if err := p.Put(a); err == nil {
		t.Error("a buffer was taken twice")
	}
	if err := p.Put(nil); err != nil {
		t.Errorf("nil: %v", err)
	}
}

// Requests wait for room, in the order in which they came, and one that is
// larger than the budget is served alone.
func TestPoolWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const page = 4096
		p := NewPool(4 * page)
		a, b := get(t, p, 2*page), get(t, p, 2*page)
		order := make(chan string, 3)
		buffers := make(chan []byte, 3)
		ask := func(name string, n int) {
			go func() {
				buf, err := p.Get(context.Background(), n)
				if err != nil {
					t.Error(err)
				}
				order <- name
				buffers <- buf
			}()
			synctest.Wait()
		}
		ask("large", 10*page)
		ask("small", page)
		if len(order) != 0 {
			t.Fatalf("%s did not wait", <-order)
		}
		put(t, p, a)
		synctest.Wait()
		if len(order) != 0 {
			t.Fatalf("%s did not wait for the rest", <-order)
		}
		put(t, p, b)
		synctest.Wait()
		if len(order) != 1 || <-order != "large" {
			t.Fatal("the large one was not served first and alone")
		}
		put(t, p, <-buffers)
		synctest.Wait()
		if len(order) != 1 || <-order != "small" {
			t.Fatal("the small one was not served after it")
		}
		if p.used != page || p.waiting != 0 {
			t.Errorf("%d bytes in use, %d idle; want one page and none: what is above the budget is not kept", p.used, p.waiting)
		}
	})
}

// A buffer above the budget is not kept for use again.
func TestPoolDropsLargeBuffers(t *testing.T) {
	p := NewPool(1 << 20)
	put(t, p, get(t, p, 2<<20))
	if p.waiting != 0 || p.used != 0 {
		t.Errorf("%d bytes idle, %d in use; want none", p.waiting, p.used)
	}
	put(t, p, get(t, p, 1<<20))
	if p.waiting != 1<<20 {
		t.Errorf("%d bytes idle, want the budget", p.waiting)
	}
}

// Whoever gives up lets those behind pass.
func TestPoolGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const page = 4096
		p := NewPool(4 * page)
		a := get(t, p, 3*page)
		ctx, cancel := context.WithCancel(context.Background())
		gone, served := make(chan error, 1), make(chan []byte, 1)
		go func() {
			_, err := p.Get(ctx, 2*page)
			gone <- err
		}()
		synctest.Wait()
		go func() { served <- get(t, p, page) }()
		synctest.Wait()
		if len(served) != 0 {
			t.Fatal("overtaken")
		}
		cancel()
		synctest.Wait()
		if err := <-gone; err != context.Canceled {
			t.Errorf("%v, want the context's error", err)
		}
		if len(served) != 1 {
			t.Error("the one behind was not served")
		}
		if _, err := p.Get(ctx, 1); err != context.Canceled {
			t.Errorf("after its end the context got %v", err)
		}
		put(t, p, a)
	})
}

// Under load the pool keeps to its budget and loses nothing.
func TestPoolBudget(t *testing.T) {
	const budget = 1 << 20
	p := NewPool(budget)
	var mu sync.Mutex
	out, most := 0, 0
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 2))
			for range 500 {
				b, err := p.Get(context.Background(), 1+rng.IntN(budget/2))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				out += cap(b)
				most = max(most, out)
				mu.Unlock()
				b[0], b[len(b)-1] = 1, 1
				runtime.Gosched()
				mu.Lock()
				out -= cap(b)
				mu.Unlock()
				if err := p.Put(b); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most > budget {
		t.Errorf("%d bytes were out at once, want at most %d", most, budget)
	}
	if p.used != 0 || len(p.out) != 0 || p.queue.Len() != 0 || p.waiting > budget {
		t.Errorf("%d bytes in use, %d buffers out, %d waiting, %d bytes idle", p.used, len(p.out), p.queue.Len(), p.waiting)
	}
}

// A size class holds the size, wastes at most a quarter, and is its own class.
func TestSizeClass(t *testing.T) {
	for n := 1; n < 1<<22; n += 1 + n/50 {
		c := sizeClass(n)
		if c < n || n > 4096 && c > n+n/4 || sizeClass(c) != c {
			t.Errorf("class of %d is %d, class of that %d", n, c, sizeClass(c))
		}
	}
	const huge = math.MaxInt
	if c := sizeClass(huge); c != huge {
		t.Errorf("class of the largest int is %d", c)
	}
}
