package checkpoint

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const (
	// maxHeader is the largest header length that the format's own reader
	// takes (MAX_HEADER_SIZE in its tensor.rs).
	maxHeader = 100_000_000
	// maxRank is the most dimensions of a tensor; torch and numpy stop there
	// too.
	maxRank = 64
	// minEntry is less than the shortest entry of a tensor in a header, which
	// bounds how many there can be: "":{"dtype":"I8","shape":[],"data_offsets":[0,0]}
	minEntry = 48
	// lengthBytes is the size of the header length that a file begins with, an
	// unsigned little-endian integer.
	lengthBytes = 8

	metadataKey = "__metadata__"
)

// header is the table of one safetensors file. Offsets are from the start of
// the data until place is called.
type header struct {
	tensors  []Tensor // in the order of the header; by offset after check
	metadata map[string]string

	data  int64  // where the data begins in the file
	names []byte // all names, back to back
	ends  []int  // of each name
	dims  []int64
}

// tensorError is a FileError whose file is not known yet.
func tensorError(name, format string, args ...any) *FileError {
	return &FileError{Tensor: name, Reason: fmt.Sprintf(format, args...)}
}

// parseHeader reads the JSON text of a header that stands before dataSize
// bytes of data. It checks each entry by itself; check does the rest.
func parseHeader(text []byte, dataSize int64) (*header, error) {
	s, err := newScanner(text)
	if err != nil {
		return nil, headerError(err)
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, headerError(s.fail("want '{', found %s", s.found()))
	}
	n := min(bytes.Count(text, []byte(`"data_offsets"`)), len(text)/minEntry+1)
	h := &header{
		tensors: make([]Tensor, 0, n),
		data:    int64(len(text)) + lengthBytes,
		ends:    make([]int, 0, n),
		names:   make([]byte, 0, n*48),
	}
	err = s.members(func(key []byte) error {
		if string(key) == metadataKey {
			return h.parseMetadata(s)
		}
		return h.parseTensor(s, key, dataSize)
	})
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return nil, headerError(err)
	}
	names, start := string(h.names), 0
	for i, end := range h.ends {
		h.tensors[i].Name = names[start:end]
		start = end
	}
	return h, nil
}

// headerError names the header as the place of a syntax error.
func headerError(err error) error {
	if se, ok := err.(*syntaxError); ok {
		return &FileError{Reason: "header is not valid: " + se.Error()}
	}
	return err
}

func (h *header) parseMetadata(s *scanner) error {
	if h.metadata != nil {
		return &FileError{Reason: "duplicate key " + quoted(metadataKey) + " in the header"}
	}
	h.metadata = map[string]string{}
	return s.members(func(key []byte) error {
		k := string(key)
		if _, twice := h.metadata[k]; twice {
			return &FileError{Reason: "duplicate key " + quoted(k) + " in " + metadataKey}
		}
		if s.peek() != '"' {
			return &FileError{Reason: fmt.Sprintf("value of %s in %s is not a string (byte %d of the header)", quoted(k), metadataKey, s.pos)}
		}
		v, err := s.text()
		h.metadata[k] = string(v)
		return err
	})
}

// parseTensor reads the entry of one tensor.
func (h *header) parseTensor(s *scanner, key []byte, dataSize int64) error {
	start := len(h.names)
	h.names = append(h.names, key...)
	name := func() string { return string(h.names[start:]) }
	in := func(err error) error { // names the tensor that a syntax error is in
		if se, ok := err.(*syntaxError); ok {
			return tensorError(name(), "header is not valid: %s", se.Error())
		}
		return err
	}

	var (
		t          Tensor
		dtype      string // where it is unknown
		begin, end int64
		have       [3]bool // dtype, shape, data_offsets
	)
	field := func(i int, what string) error {
		if have[i] {
			return tensorError(name(), "duplicate field %q in the header", what)
		}
		have[i] = true
		return nil
	}
	err := s.members(func(key []byte) error {
		switch string(key) {
		case "dtype":
			if err := field(0, "dtype"); err != nil {
				return err
			}
			text, err := s.text()
			if err != nil {
				return err
			}
			var ok bool
			if t.DType, ok = parseDTypeBytes(text); !ok {
				dtype = string(text)
			}
			return nil
		case "shape":
			if err := field(1, "shape"); err != nil {
				return err
			}
			var err error
			t.Shape, err = h.parseShape(s)
			return err
		case "data_offsets":
			if err := field(2, "data_offsets"); err != nil {
				return err
			}
			var err error
			begin, end, err = parseOffsets(s)
			return err
		default:
			return s.skip(3)
		}
	})
	if err != nil {
		return in(err)
	}
	for i, what := range [...]string{"dtype", "shape", "data_offsets"} {
		if !have[i] {
			return tensorError(name(), "header gives no %s", what)
		}
	}
	if t.DType == 0 {
		err := tensorError(name(), "unknown dtype %s (known: %s)", quoted(dtype), knownDTypes())
		if begin > end || end > dataSize {
			err.Reason += fmt.Sprintf("; its bytes %d to %d do not lie in the %d bytes of data either", begin, end, dataSize)
		}
		err.Err = ErrUnsupported
		return err
	}
	if begin > end {
		return tensorError(name(), "data_offsets [%d, %d] end before they begin", begin, end)
	}
	size, ok := byteSize(t.DType, t.Shape)
	if !ok {
		if _, fits := elements(t.Shape); fits && t.DType.Bits() < 8 {
			return tensorError(name(), "shape %s of %s does not fill whole bytes", shapeText(t.Shape), t.DType)
		}
		return tensorError(name(), "size of shape %s overflows", shapeText(t.Shape))
	}
	if size != end-begin {
		return tensorError(name(), "size mismatch: shape %s of %s needs %d bytes, data_offsets [%d, %d] hold %d", shapeText(t.Shape), t.DType, size, begin, end, end-begin)
	}
	t.Offset, t.Size = begin, size
	h.tensors = append(h.tensors, t)
	h.ends = append(h.ends, len(h.names))
	return nil
}

// parseShape reads the dimensions into a shared block of memory.
func (h *header) parseShape(s *scanner) ([]int64, error) {
	if cap(h.dims)-len(h.dims) < maxRank {
		h.dims = make([]int64, 0, max(4*maxRank, min(4*cap(h.tensors), 64*maxRank)))
	}
	start := len(h.dims)
	err := s.items(func() error {
		d, err := s.count()
		if err != nil {
			return err
		}
		if len(h.dims)-start == maxRank {
			return s.fail("more than %d dimensions", maxRank)
		}
		h.dims = append(h.dims, d)
		return nil
	})
	return h.dims[start:len(h.dims):len(h.dims)], err
}

func parseOffsets(s *scanner) (begin, end int64, err error) {
	var at [2]int64
	n := 0
	err = s.items(func() error {
		if n == len(at) {
			return s.fail("want two data_offsets, found more")
		}
		var err error
		at[n], err = s.count()
		n++
		return err
	})
	if err == nil && n != len(at) {
		err = s.fail("want two data_offsets, found %d", n)
	}
	return at[0], at[1], err
}

// check validates the table as a whole: names are unique, here and among seen,
// and the tensors cover the data exactly, without overlap or hole. It adds the
// names to seen, numbered from first, in order of offset.
func (h *header) check(dataSize int64, seen map[string]int32, first int) error {
	byOffset := func(a, b Tensor) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Size, b.Size))
	}
	if !slices.IsSortedFunc(h.tensors, byOffset) {
		slices.SortStableFunc(h.tensors, byOffset)
	}
	for i := range h.tensors {
		name := h.tensors[i].Name
		if n, twice := seen[name]; twice {
			if int(n) >= first {
				return tensorError(name, "duplicate: the header has it more than once")
			}
			return &duplicateError{name, int(n)}
		}
		seen[name] = int32(first + i)
	}
	end := int64(0)
	for i := range h.tensors {
		t := &h.tensors[i]
		switch {
		case t.Offset < end:
			prev := h.tensors[i-1]
			return tensorError(t.Name, "overlap: its bytes %d to %d of the data are claimed by tensor %s too, which has %d to %d", t.Offset, t.Offset+t.Size, quoted(prev.Name), prev.Offset, prev.Offset+prev.Size)
		case t.Offset > end:
			return tensorError(t.Name, "hole before it: bytes %d to %d of the data belong to no tensor", end, t.Offset)
		case t.Size > dataSize-t.Offset:
			return h.truncated(i, dataSize)
		}
		end = t.Offset + t.Size
	}
	if end < dataSize {
		return &FileError{Reason: fmt.Sprintf("hole at the end: bytes %d to %d of the data belong to no tensor", end, dataSize)}
	}
	return nil
}

// truncated says that tensor i is the first that the file does not hold.
func (h *header) truncated(i int, dataSize int64) error {
	t := &h.tensors[i]
	want := int64(0)
	for j := range h.tensors {
		want = max(want, h.tensors[j].Offset+h.tensors[j].Size)
	}
	more := ""
	if n := len(h.tensors) - i - 1; n > 0 {
		more = fmt.Sprintf(", %d tensors after it are missing", n)
	}
	return tensorError(t.Name, "truncated: the file has %d bytes where its header describes %d; of the tensor's %d bytes %d are there%s", h.data+dataSize, h.data+want, t.Size, max(0, dataSize-t.Offset), more)
}

// place makes the tensors those of a file: offsets become absolute.
func (h *header) place(file int) {
	for i := range h.tensors {
		h.tensors[i].File = file
		h.tensors[i].Offset += h.data
	}
}

// duplicateError is a name that an earlier file has too.
type duplicateError struct {
	name  string
	other int // number of the tensor that has it
}

func (e *duplicateError) Error() string { return "duplicate " + quoted(e.name) }

// parseDTypeBytes is ParseDType without an allocation.
func parseDTypeBytes(name []byte) (DType, bool) {
	for d := F64; int(d) < len(dtypes); d++ {
		if dtypes[d].name == string(name) {
			return d, true
		}
	}
	return 0, false
}

// knownDTypes is the list for messages.
func knownDTypes() string {
	names := make([]string, 0, len(dtypes)-1)
	for _, d := range dtypes[1:] {
		names = append(names, d.name)
	}
	return strings.Join(names, " ")
}

// appendHeader encodes a table: metadata first, its keys sorted, then the
// tensors in the given order; blanks fill it up so that data that begins 8
// bytes before it is aligned to 8.
func appendHeader(dst []byte, tensors []Tensor, metadata map[string]string) []byte {
	start := len(dst)
	dst = append(dst, '{')
	if metadata != nil {
		dst = append(dst, `"`+metadataKey+`":{`...)
		for i, k := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendText(dst, k)
			dst = append(dst, ':')
			dst = appendText(dst, metadata[k])
		}
		dst = append(dst, '}')
	}
	for i := range tensors {
		if len(dst) > start+1 {
			dst = append(dst, ',')
		}
		dst = appendEntry(dst, &tensors[i])
	}
	dst = append(dst, '}')
	for (len(dst)-start)%8 != 0 {
		dst = append(dst, ' ')
	}
	return dst
}
