package sessions

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestMailboxUnderLoad: four workers put 100,000 records and post 1,000 events
// each way within one frame of fake time. The bubble also fails when a goroutine
// stays behind.
func TestMailboxUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			workers = 4
			each    = 25_000
			tensors = 600
			frame   = 33 * time.Millisecond
		)
		m := NewMailbox(nil)
		var wg sync.WaitGroup
		for w := range workers {
			wg.Go(func() {
				for i := range each {
					seq := int64(i*workers + w + 1)
					m.Put(Record{Seq: seq, Variant: w, Tensor: i % tensors, Cos: float64(seq)})
					if i%100 == 0 {
						m.Post(Event{Seq: seq, Variant: w, Tensor: i})
					}
				}
			})
		}
		last := map[pair]Record{}
		next := make([]int, workers)
		batches, events := 0, 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			b, err := m.Next(ctx, frame)
			if errors.Is(err, context.DeadlineExceeded) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			batches++
			for i, r := range b.Records {
				if i > 0 && r.Seq <= b.Records[i-1].Seq {
					t.Fatal("records are not in order of seq")
				}
				if old := last[pair{r.Variant, r.Tensor}]; old.Seq >= r.Seq {
					t.Fatalf("record %d came after %d", r.Seq, old.Seq)
				}
				last[pair{r.Variant, r.Tensor}] = r
			}
			for _, e := range b.Events {
				if e.Tensor != next[e.Variant] {
					t.Fatalf("worker %d: event %d in place of %d", e.Variant, e.Tensor, next[e.Variant])
				}
				next[e.Variant] += 100
				events++
			}
		}
		wg.Wait()
		if batches > 3 {
			t.Errorf("%d batches", batches)
		}
		if events != workers*each/100 {
			t.Errorf("%d events", events)
		}
		for w := range workers {
			for tensor := range tensors {
				i := lastIndex(each, tensors, tensor)
				if want := int64(i*workers + w + 1); last[pair{w, tensor}].Seq != want {
					t.Fatalf("worker %d, tensor %d: the last is %d, not %d", w, tensor, last[pair{w, tensor}].Seq, want)
				}
			}
		}
	})
}

// lastIndex is the largest i below n with i mod m = r.
func lastIndex(n, m, r int) int { return (n-1-r)/m*m + r }

func TestMailboxKeepsTheNewestRecord(t *testing.T) {
	m := NewMailbox(nil)
	m.Put(Record{Seq: 7, Tensor: 1})
	m.Put(Record{Seq: 5, Tensor: 1})
	m.Close()
	b, err := m.Next(t.Context(), 0)
	if err != nil || len(b.Records) != 1 || b.Records[0].Seq != 7 || !b.Closed || b.LastSeq != 7 {
		t.Fatalf("%+v, %v", b, err)
	}
	// After the last batch there is only waiting.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Next(ctx, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("after Closed: %v", err)
	}
}

// TestMailboxHandsOverWhenCancelled: news that had come before the context ended
// is not lost.
func TestMailboxHandsOverWhenCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMailbox(nil)
		m.Post(Event{Seq: 1})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		b, err := m.Next(ctx, time.Hour)
		if err != nil || len(b.Events) != 1 {
			t.Fatalf("%+v, %v", b, err)
		}
	})
}
