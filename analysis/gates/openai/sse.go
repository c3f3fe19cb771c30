package openai

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxEvent bounds one event of a stream.
const maxEvent = 16 << 20

var errEvent = errors.New("an event of the stream is too long")

// events reads server-sent events: lines that end in LF, CR or CRLF, events that end
// with an empty line, several data lines joined by LF. Comments, which servers send
// so that a connection stays open, and fields other than data are passed over, but
// that a line "error:" is data too, as some servers write it.
type events struct {
	most int // bytes of an event
	r    *bufio.Reader
	line []byte
	cr   bool // the line before ended in CR: an LF at once belongs to it
}

func newEvents(r io.Reader) *events {
	return &events{most: maxEvent, r: bufio.NewReaderSize(r, 16<<10)}
}

// next is the data of the next event. At the end of a stream an event that no empty
// line ended is given as well: what cannot be read in it is for the caller to say.
// The slice is the caller's.
func (e *events) next() ([]byte, error) {
	var data []byte
	some := false
	for {
		line, err := e.read()
		if err != nil && (len(line) == 0 || err != io.EOF) {
			if some && err != errEvent {
				return data, nil // the reader says its error again
			}
			return nil, err
		}
		if len(line) == 0 {
			if some {
				return data, nil
			}
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if n := string(name); n != "data" && n != "error" {
			continue
		}
		if some {
			data = append(data, '\n')
		}
		some = true
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		if len(data) > e.most {
			return nil, errEvent
		}
	}
}

// read is the next line without its end. The last one may come with io.EOF.
func (e *events) read() ([]byte, error) {
	e.line = e.line[:0]
	for {
		c, err := e.r.ReadByte()
		if err != nil {
			return e.line, err
		}
		if c == '\n' && e.cr {
			e.cr = false
			continue
		}
		e.cr = c == '\r'
		if c == '\n' || c == '\r' {
			return e.line, nil
		}
		if e.line = append(e.line, c); len(e.line) > e.most {
			return nil, errEvent
		}
	}
}
