package sessions

import (
	"encoding/json"
	"fmt"

	"quantscope/quant/topology"
)

// tensorChunk is how many tensors one tensors event carries: some 400 KB of
// JSON, so that several can be decoded at once.
const tensorChunk = 4096

// words is a column of few different words: each once, then which one a row has.
type words struct {
	Words []string `json:"words"`
	At    []int    `json:"at"`
}

func (w *words) add(s string, index map[string]int) {
	i, ok := index[s]
	if !ok {
		i = len(w.Words)
		index[s] = i
		w.Words = append(w.Words, s)
	}
	w.At = append(w.At, i)
}

// tensorsJSON is the payload of a tensors event: columns, so that 37,152
// tensors are read in milliseconds. Source is absent where it equals Name
// throughout.
type tensorsJSON struct {
	First      int      `json:"first"` // ID of the first one
	Name       []string `json:"name"`
	Source     []string `json:"source,omitempty"`
	File       words    `json:"file"`
	DType      words    `json:"dtype"`
	Rows       []int    `json:"rows"`
	Cols       []int    `json:"cols"`
	Kind       words    `json:"kind"`
	Layer      []int    `json:"layer"`  // -1: none
	Expert     []int    `json:"expert"` // -1: none
	Projection words    `json:"projection"`
	Param      words    `json:"param"`
	MTP        []int    `json:"mtp,omitempty"` // rows that belong to an MTP layer
}

// encodeTensors is the payloads of the tensors events of a session.
func encodeTensors(ts []Tensor) ([][]byte, error) {
	var out [][]byte
	for first := 0; first < len(ts); first += tensorChunk {
		p, err := json.Marshal(tensorColumns(first, ts[first:min(first+tensorChunk, len(ts))]))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func tensorColumns(first int, ts []Tensor) *tensorsJSON {
	c := &tensorsJSON{First: first}
	var index [5]map[string]int
	for i := range index {
		index[i] = map[string]int{}
	}
	differ := false
	for i, t := range ts {
		c.Name = append(c.Name, t.Name)
		c.Source = append(c.Source, t.Source)
		differ = differ || t.Source != t.Name
		c.File.add(t.File, index[0])
		c.DType.add(t.DType, index[1])
		c.Kind.add(t.Role.Kind.String(), index[2])
		c.Projection.add(t.Role.Projection, index[3])
		c.Param.add(t.Role.Param, index[4])
		c.Rows = append(c.Rows, t.Rows)
		c.Cols = append(c.Cols, t.Cols)
		c.Layer = append(c.Layer, t.Role.Layer)
		c.Expert = append(c.Expert, t.Role.Expert)
		if t.Role.MTP {
			c.MTP = append(c.MTP, i)
		}
	}
	if !differ {
		c.Source = nil
	}
	return c
}

// decodeTensors puts the tensors of one event where their IDs say.
func decodeTensors(payload []byte, into []Tensor) error {
	ts, err := decodeTensorChunk(payload)
	if err != nil || len(ts) == 0 {
		return err
	}
	first := ts[0].ID
	if first < 0 || first+len(ts) > len(into) {
		return fmt.Errorf("tensors %d to %d are listed, there are %d", first, first+len(ts), len(into))
	}
	copy(into[first:], ts)
	return nil
}

// decodeTensorChunk reads the tensors of one event.
func decodeTensorChunk(payload []byte) ([]Tensor, error) {
	var c tensorsJSON
	if err := json.Unmarshal(payload, &c); err != nil {
		return nil, err
	}
	if c.Source == nil {
		c.Source = c.Name
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	kinds := make([]topology.Kind, len(c.Kind.Words))
	for i, w := range c.Kind.Words {
		if err := kinds[i].UnmarshalText([]byte(w)); err != nil {
			return nil, err
		}
	}
	ts := make([]Tensor, len(c.Name))
	for i := range ts {
		ts[i] = Tensor{
			ID: c.First + i, Name: c.Name[i], Source: c.Source[i], File: c.File.Words[c.File.At[i]],
			DType: c.DType.Words[c.DType.At[i]], Rows: c.Rows[i], Cols: c.Cols[i],
			Role: topology.Role{
				Kind: kinds[c.Kind.At[i]], Layer: c.Layer[i], Expert: c.Expert[i],
				Projection: c.Projection.Words[c.Projection.At[i]], Param: c.Param.Words[c.Param.At[i]],
			},
		}
	}
	for _, i := range c.MTP {
		ts[i].Role.MTP = true
	}
	return ts, nil
}

// check says whether all columns are as long as the names and all words exist.
func (c *tensorsJSON) check() error {
	n := len(c.Name)
	for _, l := range []int{len(c.Source), len(c.File.At), len(c.DType.At), len(c.Rows), len(c.Cols), len(c.Kind.At),
		len(c.Layer), len(c.Expert), len(c.Projection.At), len(c.Param.At)} {
		if l != n {
			return fmt.Errorf("a list of %d tensors has a column of %d", n, l)
		}
	}
	for _, w := range []words{c.File, c.DType, c.Kind, c.Projection, c.Param} {
		for _, i := range w.At {
			if i < 0 || i >= len(w.Words) {
				return fmt.Errorf("a list of tensors names word %d of %d", i, len(w.Words))
			}
		}
	}
	for _, i := range c.MTP {
		if i < 0 || i >= n {
			return fmt.Errorf("a list of %d tensors marks row %d", n, i)
		}
	}
	return nil
}
