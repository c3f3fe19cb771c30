package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const (
	indexSuffix = ".safetensors.index.json"
	// maxIndex is the largest index that is read, in bytes: 100 times that of
	// the largest models, whose indexes have about 100,000 names.
	maxIndex = 1 << 30
)

// index is what an index file says: which shard each tensor is in.
type index struct {
	name    string
	shards  []string         // sorted
	weights map[string]int32 // tensor to shard
	counts  []int            // tensors of each shard
	total   string           // metadata.total_size as written, "" where there is none
}

// readIndex reads an index and checks it by itself.
func readIndex(src source, name string) (*index, error) {
	text, err := src.readSmall(name, maxIndex)
	if err != nil {
		return nil, err
	}
	if what := notWeights(text[:min(len(text), sniffBytes)], int64(len(text))); what != "" {
		return nil, src.fail(name, "%s", what)
	}
	ix, err := parseIndex(text)
	if se, ok := err.(*syntaxError); ok {
		return nil, src.fail(name, "index is not valid: %s", se.Error())
	}
	if err != nil {
		return nil, src.place(name, err)
	}
	ix.name = name
	return ix, nil
}

func parseIndex(text []byte) (*index, error) {
	s, err := newScanner(text)
	if err != nil {
		return nil, err
	}
	ix := &index{}
	var haveMetadata bool
	err = s.members(func(key []byte) error {
		switch string(key) {
		case "metadata":
			if haveMetadata {
				return &FileError{Reason: `duplicate key "metadata"`}
			}
			haveMetadata = true
			return ix.parseMetadata(s)
		case "weight_map":
			if ix.weights != nil {
				return &FileError{Reason: `duplicate key "weight_map"`}
			}
			return ix.parseWeights(s)
		default:
			return s.skip(1)
		}
	})
	if err == nil {
		err = s.end()
	}
	if err == nil && len(ix.weights) == 0 {
		err = &FileError{Reason: "index has no weight_map, or an empty one"}
	}
	if err != nil {
		return nil, err
	}
	ix.sortShards()
	return ix, nil
}

func (ix *index) parseMetadata(s *scanner) error {
	if s.peek() != '{' { // null in some
		return s.skip(1)
	}
	return s.members(func(key []byte) error {
		if string(key) != "total_size" {
			return s.skip(2)
		}
		if ix.total != "" {
			return &FileError{Reason: `duplicate key "total_size" in metadata`}
		}
		n, err := s.number()
		ix.total = string(n)
		return err
	})
}

func (ix *index) parseWeights(s *scanner) error {
	ix.weights = map[string]int32{}
	numbers := map[string]int32{}
	return s.members(func(key []byte) error {
		name := string(key)
		if s.peek() != '"' {
			return &FileError{Tensor: name, Reason: fmt.Sprintf("index gives no shard name: want a string, found %s at byte %d", s.found(), s.pos)}
		}
		value, err := s.text()
		if err != nil {
			return err
		}
		if _, twice := ix.weights[name]; twice {
			return &FileError{Tensor: name, Reason: "duplicate: the index has it more than once"}
		}
		n, ok := numbers[string(value)]
		if !ok {
			shard := string(value)
			if !localName(shard) {
				return &FileError{Tensor: name, Reason: "shard name " + quoted(shard) + " leads out of the checkpoint's folder"}
			}
			n = int32(len(ix.shards))
			ix.shards = append(ix.shards, shard)
			ix.counts = append(ix.counts, 0)
			numbers[shard] = n
		}
		ix.weights[name] = n
		ix.counts[n]++
		return nil
	})
}

// localName reports whether a name is a plain relative path below its folder,
// on every system.
func localName(name string) bool {
	return fs.ValidPath(name) && name != "." && filepath.IsLocal(filepath.FromSlash(name)) && !strings.ContainsAny(name, `\:`)
}

// sortShards numbers the shards by name.
func (ix *index) sortShards() {
	order := make([]int, len(ix.shards))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(ix.shards[a], ix.shards[b]) })
	shards, counts, number := make([]string, len(order)), make([]int, len(order)), make([]int32, len(order))
	for to, from := range order {
		shards[to], counts[to], number[from] = ix.shards[from], ix.counts[from], int32(to)
	}
	ix.shards, ix.counts = shards, counts
	for name, n := range ix.weights {
		ix.weights[name] = number[n]
	}
}

// missing wants every shard to be there.
func (ix *index) missing(src source) error {
	var first *FileError
	at, shards, tensors := 0, 0, 0
	for i, shard := range ix.shards {
		_, err := src.stat(shard)
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if first == nil {
			errors.As(err, &first)
			at = i
		}
		shards++
		tensors += ix.counts[i]
	}
	if first == nil {
		return nil
	}
	what := fmt.Sprintf("shard %s, which would hold %d of %d tensors, is missing", quoted(ix.shards[at]), ix.counts[at], len(ix.weights))
	if shards > 1 {
		what += fmt.Sprintf(", as are %d more; %d tensors in all", shards-1, tensors)
	}
	if strings.HasPrefix(first.Reason, "is a link") {
		what += "; it " + first.Reason
	}
	return &FileError{File: src.file(ix.name), Reason: what, Err: fs.ErrNotExist}
}

// apply compares the index with what the shards hold. Tensors that the index
// does not know are left out, with a finding.
func (ix *index) apply(c *Checkpoint) error {
	kept := c.Tensors[:0]
	for _, t := range c.Tensors {
		n, ok := ix.weights[t.Name]
		switch {
		case !ok:
			c.Findings = append(c.Findings, Finding{
				ID: NotIndexed, File: c.Files[t.File].Name, Tensor: t.Name,
				Message: "not listed in the index " + printable(ix.name) + ": left out",
			})
			delete(c.byName, t.Name)
			continue
		case int(n) != t.File:
			return &FileError{File: c.src.file(ix.name), Tensor: t.Name, Reason: fmt.Sprintf("index says shard %s, but it is in %s", quoted(ix.shards[n]), quoted(ix.shards[t.File]))}
		}
		c.byName[t.Name] = int32(len(kept))
		kept = append(kept, t)
	}
	c.Tensors = kept
	if len(kept) < len(ix.weights) {
		var lost []string
		for name := range ix.weights {
			if _, ok := c.byName[name]; !ok {
				lost = append(lost, name)
			}
		}
		slices.Sort(lost)
		more := ""
		if len(lost) > 1 {
			more = fmt.Sprintf(" (%d more are not in theirs)", len(lost)-1)
		}
		return &FileError{File: c.src.file(ix.name), Tensor: lost[0], Reason: fmt.Sprintf("missing: the index says shard %s, which does not have it%s", quoted(ix.shards[ix.weights[lost[0]]]), more)}
	}
	if ix.total != "" && !sameTotal(ix.total, c.Bytes()) {
		c.Findings = append(c.Findings, Finding{
			ID: IndexTotal, File: ix.name,
			Message: fmt.Sprintf("metadata.total_size is %s, the tensors have %d bytes", printable(ix.total), c.Bytes()),
		})
	}
	return nil
}

// sameTotal compares total_size, which some tools write as a float.
func sameTotal(text string, bytes int64) bool {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n == bytes
	}
	f, err := strconv.ParseFloat(text, 64)
	return err == nil && f == float64(bytes)
}
