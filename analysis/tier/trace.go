package tier

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
)

// Trace is a workload: which experts each token chose in each layer.
type Trace struct {
	Name    string
	Kind    string // recorded, zipf, file
	Layers  []int
	Experts int
	TopK    int
	Tokens  int
	Phases  []Phase
	// Choices are token by token, layer by layer, TopK of each, none twice.
	Choices []uint16
}

// Kinds of workloads.
const (
	Recorded = "recorded"
	Zipf     = "zipf"
	File     = "file"
)

// maxChoices bounds a trace: 1 GiB in memory.
const maxChoices = 1 << 29

// Of are the experts that a token chose in a layer, by its index in Layers.
func (t *Trace) Of(token, layer int) []uint16 {
	at := (token*len(t.Layers) + layer) * t.TopK
	return t.Choices[at : at+t.TopK]
}

// Ref is the trace as a setup names it.
func (t *Trace) Ref() WorkloadRef {
	return WorkloadRef{Name: t.Name, Kind: t.Kind, SHA256: t.SHA256(), Tokens: t.Tokens, Phases: t.Phases}
}

// SHA256 is over layers, experts, experts a token, and all choices as little-endian
// uint16.
func (t *Trace) SHA256() string {
	h := sha256.New()
	fmt.Fprintln(h, t.Layers, t.Experts, t.TopK, t.Tokens)
	var buf [4096]byte
	for rest := t.Choices; len(rest) > 0; {
		n := min(len(rest), len(buf)/2)
		for i, c := range rest[:n] {
			binary.LittleEndian.PutUint16(buf[2*i:], c)
		}
		_, _ = h.Write(buf[:2*n]) // a hash never fails
		rest = rest[n:]
	}
	return hex.EncodeToString(h.Sum(nil))
}

// check is an error where a trace is not what it says, with the place.
func (t *Trace) check() error {
	if len(t.Layers) == 0 || len(t.Layers) > maxLayers || t.Experts < 1 || t.Experts > maxExperts || t.TopK < 1 || t.TopK > t.Experts {
		return fmt.Errorf("tier: %s: %d of %d experts a token in %d layers", t.Name, t.TopK, t.Experts, len(t.Layers))
	}
	if t.Tokens < 1 {
		return fmt.Errorf("tier: %s: a workload of no tokens", t.Name)
	}
	if a := len(t.Layers) * t.TopK; t.Tokens > maxChoices/a || len(t.Choices) != t.Tokens*a {
		return fmt.Errorf("tier: %s: %d choices for %d tokens, %d layers and %d experts a token, of at most %d", t.Name, len(t.Choices), t.Tokens, len(t.Layers), t.TopK, maxChoices)
	}
	for at := 0; at < len(t.Choices); at += t.TopK {
		some := t.Choices[at : at+t.TopK]
		for i, e := range some {
			token, layer := at/t.TopK/len(t.Layers), t.Layers[at/t.TopK%len(t.Layers)]
			if int(e) >= t.Experts {
				return fmt.Errorf("tier: %s: token %d chose expert %d of %d in layer %d", t.Name, token, e, t.Experts, layer)
			}
			for _, o := range some[:i] {
				if o == e {
					return fmt.Errorf("tier: %s: token %d chose expert %d twice in layer %d", t.Name, token, e, layer)
				}
			}
		}
	}
	for i, p := range t.Phases {
		if p.First < 0 || p.First >= t.Tokens || i == 0 && p.First != 0 || i > 0 && p.First <= t.Phases[i-1].First {
			return fmt.Errorf("tier: %s: phase %q begins at token %d of %d", t.Name, p.Name, p.First, t.Tokens)
		}
	}
	return nil
}

// counts are how often each expert was chosen: layer·Experts+expert.
func (t *Trace) counts() []int64 {
	n := make([]int64, len(t.Layers)*t.Experts)
	layer := 0
	for at := 0; at < len(t.Choices); at += t.TopK {
		of := n[layer*t.Experts:][:t.Experts]
		for _, e := range t.Choices[at : at+t.TopK] {
			of[e]++
		}
		if layer++; layer == len(t.Layers) {
			layer = 0
		}
	}
	return n
}
