package sessions

import (
	"fmt"
	"strconv"
	"strings"

	"quantscope/quant/checkpoint"
	"quantscope/quant/export"
)

// Part is one of several runs that share a checkpoint, each over its own files.
// The zero value is the whole.
type Part struct{ K, Of int }

// String is K/N, "" for the whole.
func (p Part) String() string {
	if p.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", p.K, p.Of)
}

// ParsePart reads K/N.
func ParsePart(s string) (Part, error) {
	k, n, ok := strings.Cut(s, "/")
	var p Part
	var errK, errN error
	p.K, errK = strconv.Atoi(k)
	p.Of, errN = strconv.Atoi(n)
	if !ok || errK != nil || errN != nil || p.K < 1 || p.K > p.Of {
		return Part{}, fmt.Errorf("%q is no part such as 1/3 (the first of three)", s)
	}
	return p, nil
}

// of finds the matrices of a part, which are consecutive, of those
// whose files are given in their order.
func (p Part) of(ck *checkpoint.Checkpoint, files []int) (first, n int, err error) {
	if p.Of == 0 {
		return 0, len(files), nil
	}
	parts, err := export.Split(ck.Files, p.Of)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", ck.Path, err)
	}
	mine := parts[p.K-1]
	for first < len(files) && files[first] < mine[0] {
		first++
	}
	for first+n < len(files) && files[first+n] <= mine[len(mine)-1] {
		n++
	}
	return first, n, nil
}

// partJSON places the tensors of a part among those of the whole.
type partJSON struct {
	K     int `json:"k"`
	Of    int `json:"of"`
	First int `json:"first"` // of the whole's tensors
	Whole int `json:"whole"` // tensors of the whole
}
