package tier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"quantscope/quant/checkpoint"
)

// Precision is what an expert is stored in.
type Precision string

// Precisions.
const (
	Hot  Precision = "hot"
	Cold Precision = "cold"
)

// Source is a hot variant that leaves experts as the checkpoint has them.
const Source = "source"

// MapFormat is the format of a precision map.
const MapFormat = "quantscope-tier-1"

// Map says which experts are hot. It is a JSON document.
type Map struct {
	Format   string      `json:"format"`
	Source   string      `json:"source"` // identity of the checkpoint
	Model    string      `json:"model"`
	Hot      string      `json:"hot"` // variants; hot may be source
	Cold     string      `json:"cold"`
	Experts  int         `json:"experts"` // a layer
	Budget   Budget      `json:"budget"`
	HotBytes int64       `json:"hot_bytes"`
	Workload WorkloadRef `json:"workload"`
	Policy   Policy      `json:"policy"`
	How      string      `json:"how"` // managed, fixed, random, coldest
	Program  string      `json:"program"`
	Layers   []MapLayer  `json:"layers"`
}

// How a map came about.
const (
	Managed = "managed" // by a Manager: what was hot at the end
	Fixed   = "fixed"   // control: what a workload that is known as a whole asked for most
	Random  = "random"  // control: by chance
	Coldest = "coldest" // control: what the workload asked for least
)

// MapLayer are the hot experts of one layer, ascending.
type MapLayer struct {
	Layer int   `json:"layer"`
	Hot   []int `json:"hot"`
}

// ErrMap is wrapped by errors about a precision map that cannot be meant.
var ErrMap = errors.New("tier map")

// PrecisionOf is what an expert is stored in; not ok where the map has no such
// expert.
func (m *Map) PrecisionOf(layer, expert int) (Precision, bool) {
	i, ok := slices.BinarySearchFunc(m.Layers, layer, func(l MapLayer, layer int) int { return l.Layer - layer })
	if !ok || expert < 0 || expert >= m.Experts {
		return "", false
	}
	if _, hot := slices.BinarySearch(m.Layers[i].Hot, expert); hot {
		return Hot, true
	}
	return Cold, true
}

// maxMap is the largest map that is read, in bytes.
const maxMap = 64 << 20

// ParseMap reads a map; name is what errors call it.
func ParseMap(name string, text []byte) (*Map, error) {
	refuse := func(format string, args ...any) (*Map, error) {
		return nil, fmt.Errorf("%w %s: %s", ErrMap, name, fmt.Sprintf(format, args...))
	}
	if len(text) > maxMap {
		return refuse("is larger than %d bytes", maxMap)
	}
	m := &Map{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return refuse("is no map: %v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return refuse("goes on after its end")
	}
	switch {
	case m.Format != MapFormat:
		return refuse("format is %q, not %q", m.Format, MapFormat)
	case m.Experts < 1 || m.Experts > maxExperts:
		return refuse("%d experts a layer", m.Experts)
	case m.Hot == "" || m.Cold == "":
		return refuse("names no variant for hot or for cold experts")
	case m.Cold == Source:
		return refuse("cold experts are stored as a variant, not as the source has them")
	case len(m.Layers) == 0 || len(m.Layers) > maxLayers:
		return refuse("%d layers", len(m.Layers))
	}
	for i, l := range m.Layers {
		if i > 0 && l.Layer <= m.Layers[i-1].Layer || l.Layer < 0 {
			return refuse("layer %d is out of order", l.Layer)
		}
		for k, e := range l.Hot {
			if e < 0 || e >= m.Experts {
				return refuse("layer %d has no expert %d", l.Layer, e)
			}
			if k > 0 && e <= l.Hot[k-1] {
				return refuse("expert %d of layer %d is out of order", e, l.Layer)
			}
		}
	}
	return m, nil
}

// Text is the map as a document.
func (m *Map) Text() ([]byte, error) {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMap, err)
	}
	return append(text, '\n'), nil
}

// WriteMap writes a map to a file, whole or not at all: at every moment the path has
// what it had, or all of the map.
func WriteMap(path string, m *Map) error {
	text, err := m.Text()
	if err != nil {
		return err
	}
	return checkpoint.AtomicWriteFile(path, text)
}

// mapOf is the map of a hot set.
func (s *Setup) mapOf(budget int, hot []bool, how string) *Map {
	m := &Map{
		Format: MapFormat, Source: s.Source, Model: s.Model, Hot: s.Hot, Cold: s.Cold, Experts: s.Shape.Experts, Budget: s.Budgets[budget],
		Workload: s.Workload, Policy: s.Policy, How: how, Program: s.Program,
	}
	for l, layer := range s.Shape.Layers {
		ml := MapLayer{Layer: layer, Hot: []int{}}
		for e := range s.Shape.Experts {
			if hot[l*s.Shape.Experts+e] {
				ml.Hot = append(ml.Hot, e)
				m.HotBytes += s.Shape.Hot[l]
			}
		}
		m.Layers = append(m.Layers, ml)
	}
	return m
}
