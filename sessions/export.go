package sessions

import (
	"encoding/json"
	"io"
)

// ExportJSONL writes one tap record a line, histograms included.
func ExportJSONL(w io.Writer, path string) error { return errUnwired }

// ExportCSV writes one tap record a row, without histograms.
func ExportCSV(w io.Writer, path string) error { return errUnwired }

// ExportParquet writes one tap record a row, with typed columns.
func ExportParquet(w io.Writer, path string) error { return errUnwired }

// ReadJSONL reads a file of one JSON object a line. A last line that was torn in
// mid-write is not a record: fragmentBytes is its length.
func ReadJSONL(r io.Reader) (records []json.RawMessage, fragmentBytes int64, err error) {
	return nil, 0, errUnwired
}
