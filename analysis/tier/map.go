package tier

import (
	"errors"
)

// Precision is what an expert is stored in.
type Precision string

// Precisions.
const (
	Hot  Precision = "hot"
	Cold Precision = "cold"
)

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
	How      string      `json:"how"` // managed, random, coldest
	Program  string      `json:"program"`
	Layers   []MapLayer  `json:"layers"`
}

// MapLayer are the hot experts of one layer, ascending.
type MapLayer struct {
	Layer int   `json:"layer"`
	Hot   []int `json:"hot"`
}

// ErrMap is wrapped by errors about a precision map that cannot be meant.
var ErrMap = errors.New("tier map")

// PrecisionOf is what an expert is stored in; not ok where the map has no such
// expert.
func (m *Map) PrecisionOf(layer, expert int) (Precision, bool) { return "", false }

// ParseMap reads a map; name is what errors call it.
func ParseMap(name string, text []byte) (*Map, error) { return nil, errors.ErrUnsupported }

// WriteMap writes a map to a file, whole or not at all.
func WriteMap(path string, m *Map) error { return errors.ErrUnsupported }
