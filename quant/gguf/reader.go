package gguf

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"quantscope/quant/checkpoint"
)

// Bounds on what a header may ask for. The largest vocabularies have a few
// hundred thousand entries, the largest models some hundred thousand tensors.
const (
	maxKey     = 1 << 16
	maxTensors = 1 << 22
	maxPairs   = 1 << 20
	maxDims    = 8
	maxNesting = 4
	windowSize = 1 << 20
)

// cursor reads a header through a window, with every length held against the
// file.
type cursor struct {
	r     io.ReaderAt
	name  string
	size  int64
	at    int64
	order binary.ByteOrder
	buf   []byte
	start int64 // of buf in the file
	what  string
}

func (c *cursor) fail(format string, args ...any) error {
	return &checkpoint.FileError{File: c.name, Reason: fmt.Sprintf(format, args...)}
}

// take is the next n bytes; they are valid until the next call.
func (c *cursor) take(n int64) ([]byte, error) {
	if n < 0 || n > c.size-c.at {
		return nil, c.fail("%s: %d bytes at %d go beyond the end of the file of %d bytes (truncated, or a length that is wrong)", c.what, uint64(n), c.at, c.size)
	}
	if c.at < c.start || c.at+n > c.start+int64(len(c.buf)) {
		want := min(max(n, windowSize), c.size-c.at)
		if int64(cap(c.buf)) < want {
			c.buf = make([]byte, want)
		}
		c.buf = c.buf[:want]
		if _, err := c.r.ReadAt(c.buf, c.at); err != nil && err != io.EOF {
			return nil, checkpoint.SystemError(c.name, err)
		}
		c.start = c.at
	}
	b := c.buf[c.at-c.start:][:n]
	c.at += n
	return b, nil
}

func (c *cursor) u32() (uint32, error) {
	b, err := c.take(4)
	if err != nil {
		return 0, err
	}
	return c.order.Uint32(b), nil
}

func (c *cursor) u64() (uint64, error) {
	b, err := c.take(8)
	if err != nil {
		return 0, err
	}
	return c.order.Uint64(b), nil
}

// text is a string: its length and its bytes.
func (c *cursor) text(most int64) (string, error) {
	n, err := c.u64()
	if err != nil {
		return "", err
	}
	if n > uint64(most) || int64(n) > c.size-c.at {
		return "", c.fail("%s: a length of %d bytes goes beyond the end of the file, or beyond %d", c.what, n, most)
	}
	b, err := c.take(int64(n))
	return string(b), err
}

// value reads a metadata value.
func (c *cursor) value(depth int) (Value, error) {
	t, err := c.u32()
	if err != nil {
		return Value{}, err
	}
	return c.valueOf(ValueType(t), depth)
}

func (c *cursor) valueOf(t ValueType, depth int) (Value, error) {
	v := Value{Type: t}
	switch {
	case t == String:
		s, err := c.text(c.size)
		v.V = s
		return v, err
	case t == Array:
		return c.array(depth)
	case t.size() == 0:
		return v, c.fail("%s: metadata type %d is not known", c.what, uint32(t))
	}
	b, err := c.take(t.size())
	if err != nil {
		return v, err
	}
	switch u, i, f := c.number(t, b); {
	case t == Bool:
		v.V = u != 0
	case t == Float32:
		v.V = float32(f)
	case t == Float64:
		v.V = f
	case t == Int8 || t == Int16 || t == Int32 || t == Int64:
		v.V = i
	default:
		v.V = u
	}
	return v, nil
}

// number decodes a value of fixed size, as whichever of the three it is.
func (c *cursor) number(t ValueType, b []byte) (u uint64, i int64, f float64) {
	switch t.size() {
	case 1:
		u, i = uint64(b[0]), int64(int8(b[0]))
	case 2:
		x := c.order.Uint16(b)
		u, i = uint64(x), int64(int16(x))
	case 4:
		x := c.order.Uint32(b)
		u, i = uint64(x), int64(int32(x))
		f = float64(math.Float32frombits(x))
	case 8:
		x := c.order.Uint64(b)
		u, i = x, int64(x)
		f = math.Float64frombits(x)
	}
	return u, i, f
}

// array reads an array. Its bytes must be in the file before memory is taken.
func (c *cursor) array(depth int) (Value, error) {
	v := Value{Type: Array}
	if depth >= maxNesting {
		return v, c.fail("%s: arrays nest more than %d deep", c.what, maxNesting)
	}
	t, err := c.u32()
	if err != nil {
		return v, err
	}
	v.Elem = ValueType(t)
	n, err := c.u64()
	if err != nil {
		return v, err
	}
	least := v.Elem.size()
	switch v.Elem {
	case String:
		least = 8
	case Array:
		least = 12
	default:
		if least == 0 {
			return v, c.fail("%s: an array of metadata type %d, which is not known", c.what, t)
		}
	}
	if n > uint64((c.size-c.at)/least) {
		return v, c.fail("%s: an array with a count of %d goes beyond the end of the file", c.what, n)
	}
	switch v.Elem {
	case String:
		list := make([]string, 0, min(n, 1<<16))
		for range n {
			s, err := c.text(c.size)
			if err != nil {
				return v, err
			}
			list = append(list, s)
		}
		v.List = list
	case Array:
		list := make([]Value, 0, min(n, 1<<10))
		for range n {
			e, err := c.array(depth + 1)
			if err != nil {
				return v, err
			}
			list = append(list, e)
		}
		v.List = list
	default:
		return v, c.numbers(&v, int(n))
	}
	return v, nil
}

func (c *cursor) numbers(v *Value, n int) error {
	size := v.Elem.size()
	var us []uint64
	var is []int64
	var fs []float64
	var bs []bool
	for range n {
		b, err := c.take(size)
		if err != nil {
			return err
		}
		u, i, f := c.number(v.Elem, b)
		switch v.Elem {
		case Bool:
			bs = append(bs, u != 0)
		case Float32, Float64:
			fs = append(fs, f)
		case Int8, Int16, Int32, Int64:
			is = append(is, i)
		default:
			us = append(us, u)
		}
	}
	switch v.Elem {
	case Bool:
		v.List = bs
	case Float32, Float64:
		v.List = fs
	case Int8, Int16, Int32, Int64:
		v.List = is
	default:
		v.List = us
	}
	return nil
}
