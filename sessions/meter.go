package sessions

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// meter is what an engine measures of itself: how fast its source is read, and
// how fast the kernels are under each variant.
type meter struct {
	bytes, weights atomic.Int64              // through the kernels, counted once a variant
	partial        atomic.Int64              // weights of these whose tensor is not settled yet
	calib          atomic.Pointer[calibLive] // the calibration that goes on; nil without one

	mu        sync.Mutex
	readBytes int64
	readNanos int64         // of all reads, one after the other
	readWall  time.Duration // in which at least one read was under way
	active    int           // reads under way
	since     time.Time     // when the first of these began
	kernels   []kernelTime  // by variant
}

type kernelTime struct{ bytes, nanos int64 }

// reads notes that a read begins.
func (m *meter) reads() time.Time {
	now := time.Now()
	m.mu.Lock()
	if m.active++; m.active == 1 {
		m.since = now
	}
	m.mu.Unlock()
	return now
}

// read notes that a read ended.
func (m *meter) read(start time.Time, bytes int64) {
	now := time.Now()
	m.mu.Lock()
	m.readBytes += bytes
	m.readNanos += int64(now.Sub(start))
	if m.active--; m.active == 0 {
		m.readWall += now.Sub(m.since)
	}
	m.mu.Unlock()
}

// passed notes what went through the kernels under a variant.
func (m *meter) passed(variant int, bytes, weights int64, took time.Duration) {
	m.bytes.Add(bytes)
	m.weights.Add(weights)
	m.partial.Add(weights)
	m.mu.Lock()
	for len(m.kernels) <= variant {
		m.kernels = append(m.kernels, kernelTime{})
	}
	k := &m.kernels[variant]
	k.bytes += bytes
	k.nanos += int64(took)
	m.mu.Unlock()
}

// rates are what a meter measured up to now; bytes are of the source.
type rates struct {
	read     float64   // bytes/s of the source, over the time in which it was read
	measured int64     // bytes that were read
	kernels  []float64 // bytes/s of one thread by variant, 0 where it is not known
	perByte  float64   // seconds of one thread in the kernels for each byte that was read
}

func (m *meter) rates() rates {
	m.mu.Lock()
	defer m.mu.Unlock()
	wall := m.readWall
	if m.active > 0 {
		wall += time.Since(m.since)
	}
	r := rates{measured: m.readBytes}
	if wall > 0 {
		r.read = float64(m.readBytes) / wall.Seconds()
	}
	var nanos int64
	for _, k := range m.kernels {
		rate := 0.0
		if k.nanos > 0 {
			rate = float64(k.bytes) / (float64(k.nanos) / 1e9)
		}
		r.kernels = append(r.kernels, rate)
		nanos += k.nanos
	}
	if m.readBytes > 0 {
		r.perByte = float64(nanos) / 1e9 / float64(m.readBytes)
	}
	return r
}

// byteRate writes a rate in powers of 1000.
func byteRate(r float64) string {
	switch {
	case r >= 1e9:
		return fmt.Sprintf("%.2f GB/s", r/1e9)
	case r >= 1e6:
		return fmt.Sprintf("%.0f MB/s", r/1e6)
	}
	return fmt.Sprintf("%.0f kB/s", r/1e3)
}
