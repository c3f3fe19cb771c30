package yardstick

import "time"

// meter tells how far a measurement is. It is used from the goroutine that
// measures.
type meter struct {
	tell  func(Progress)
	begun time.Time
	p     Progress
}

func newMeter(tell func(Progress), layers int, total int64, chunks int) *meter {
	return &meter{tell: tell, begun: time.Now(), p: Progress{Layers: layers, Total: total, Of: chunks}}
}

func (m *meter) stage(name string, party int) {
	m.p.Stage, m.p.Party = name, party
	m.say()
}

// layer counts a layer that so many tokens of a party went through.
func (m *meter) layer(stage string, party, layer int, tokens int64) {
	m.p.Stage, m.p.Party, m.p.Layer = stage, party, layer
	m.p.Done += tokens
	m.say()
}

func (m *meter) chunk() {
	m.p.Chunks++
	m.say()
}

func (m *meter) say() {
	if m.tell == nil {
		return
	}
	if s := time.Since(m.begun).Seconds(); s > 0 && m.p.Done > 0 && m.p.Layers > 0 {
		m.p.TokensPerSec = float64(m.p.Done) / float64(m.p.Layers) / s
		m.p.ETASeconds = s * float64(max(m.p.Total-m.p.Done, 0)) / float64(m.p.Done)
	}
	m.tell(m.p)
}
