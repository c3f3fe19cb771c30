package sessions

import (
	"context"
	"maps"
	"slices"
	"sync"

	"quantscope/kernels"
	"quantscope/quant/export"
	"quantscope/quant/topology"
)

// sharing gives matrices that a server fuses one global scale: that of the
// largest magnitude among them. A nil one gives each its own.
type sharing struct {
	set   kernels.Set
	src   *storedSource // all matrices of the checkpoint that are measured
	first int           // matrix that is the job's tensor 0
	picks []int         // matrices that are the job's tensors, where they do not follow one another; else nil
	group []int         // of a matrix, −1 for one without partners
	all   []fused
}

// fused are matrices with one global scale.
type fused struct {
	mu      sync.Mutex
	members []int
	amax    []float32 // of each member, −1 where it is not known
}

func newSharing(set kernels.Set, src *storedSource, first int) *sharing {
	return sharingOf(set, src, first, export.SharedGroups(src.matrices))
}

// newKindSharing is newSharing where only matrices of one kind share a scale;
// those of an empty one have none.
func newKindSharing(set kernels.Set, src *storedSource, first int, kind []string) *sharing {
	of := map[string][]int{}
	for i, k := range kind {
		if k != "" {
			of[k] = append(of[k], i)
		}
	}
	var groups [][]int
	for _, k := range slices.Sorted(maps.Keys(of)) {
		list := make([]topology.Matrix, len(of[k]))
		for n, i := range of[k] {
			list[n] = src.matrices[i]
		}
		for _, members := range export.SharedGroups(list) {
			own := make([]int, len(members))
			for n, m := range members {
				own[n] = of[k][m]
			}
			groups = append(groups, own)
		}
	}
	return sharingOf(set, src, first, groups)
}

func sharingOf(set kernels.Set, src *storedSource, first int, groups [][]int) *sharing {
	s := &sharing{set: set, src: src, first: first, group: make([]int, len(src.matrices))}
	for i := range s.group {
		s.group[i] = -1
	}
	s.all = make([]fused, len(groups))
	for g, members := range groups {
		s.all[g].members = members
		for _, m := range members {
			s.group[m] = g
			s.all[g].amax = append(s.all[g].amax, -1)
		}
	}
	return s
}

// amax is the largest magnitude that a tensor's global scale is taken from; own
// is the tensor's. Partners are read only to look at them, once.
func (s *sharing) amax(ctx context.Context, format string, t int, own float32) (float32, error) {
	if s == nil || !export.SharesGlobal(format) || s.group[s.matrix(t)] < 0 {
		return own, nil
	}
	g := &s.all[s.group[s.matrix(t)]]
	g.mu.Lock()
	defer g.mu.Unlock()
	largest := float32(0)
	for i, m := range g.members {
		if m == s.matrix(t) {
			g.amax[i] = own
		}
		if g.amax[i] < 0 {
			a, err := s.look(ctx, m)
			if err != nil {
				return 0, err
			}
			g.amax[i] = a
		}
		largest = max(largest, g.amax[i])
	}
	return largest, nil
}

// matrix is which one is a tensor of the job.
func (s *sharing) matrix(t int) int {
	if s.picks != nil {
		return s.picks[t]
	}
	return s.first + t
}

// look reads a matrix for its largest magnitude.
func (s *sharing) look(ctx context.Context, i int) (float32, error) {
	m, err := s.src.Shape(i)
	if err != nil {
		return 0, err
	}
	largest := float32(0)
	buf := gatherBuffers.Get().(*[]byte)
	defer gatherBuffers.Put(buf)
	rowBytes := m.Cols * m.Element.Size()
	room := *buf
	if rowBytes > len(room) {
		room = make([]byte, rowBytes)
	}
	rows := len(room) / max(rowBytes, 1)
	for from := 0; from < m.Rows && rowBytes > 0; from += rows {
		part := room[:min(rows, m.Rows-from)*rowBytes]
		if err := s.src.ReadRows(ctx, i, from, part); err != nil {
			return 0, err
		}
		a, err := s.set.AbsMax(kernels.Matrix{Element: m.Element, Rows: 1, Cols: len(part) / m.Element.Size(), Data: part})
		if err != nil {
			return 0, err
		}
		largest = max(largest, a)
	}
	return largest, nil
}
