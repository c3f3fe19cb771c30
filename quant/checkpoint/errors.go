package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrUnsupported is wrapped by errors about things that are not broken but not
// known here: a dtype, a kind of file.
var ErrUnsupported = errors.New("not supported")

// FileError says what is wrong with one file of a checkpoint. Its text is one
// line, whatever the names hold.
type FileError struct {
	File   string // path as the user gave it, with the name in the folder
	Tensor string // "" where it is about the file
	Reason string
	Err    error // what caused it, or nil
}

// Error is file, tensor, reason.
func (e *FileError) Error() string {
	var b strings.Builder
	b.WriteString("checkpoint: ")
	b.WriteString(printable(e.File))
	if e.Tensor != "" {
		b.WriteString(": tensor ")
		b.WriteString(quoted(e.Tensor))
	}
	b.WriteString(": ")
	b.WriteString(e.Reason)
	if e.Err != nil && e.Err != ErrUnsupported && e.Err != fs.ErrNotExist { // the reason has said as much
		if e.Reason != "" {
			b.WriteString(": ")
		}
		b.WriteString(printable(e.Err.Error()))
	}
	return b.String()
}

// Unwrap is the cause.
func (e *FileError) Unwrap() error { return e.Err }

// maxQuoted is the longest part of a name that a message shows, in bytes:
// longer than any name in use, short enough for a line of a log.
const maxQuoted = 400

// quoted is a name for a message: in quotes, control characters escaped, cut
// where it is absurdly long.
func quoted(name string) string {
	if len(name) <= maxQuoted {
		return strconv.Quote(name)
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes)", strconv.Quote(name[:cut]), len(name))
}

// printable is text for a message: as it is where that is one clean line, else
// quoted.
func printable(s string) string {
	if !utf8.ValidString(s) {
		return strconv.Quote(s)
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// shapeText is a shape for a message, as headers write it.
func shapeText(shape []int64) string {
	text := []byte{'['}
	for i, d := range shape {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = strconv.AppendInt(text, d, 10)
	}
	return string(append(text, ']'))
}
