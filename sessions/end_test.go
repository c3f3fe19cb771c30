package sessions

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// TestEndThatCannotBeRead damages the last leaf of the events so that SQLite
// cannot say what the highest number is, while a scan ends early without an
// error: the loss is said all the same. The high bits of the last two events'
// cells are flipped, in which their lengths and numbers are.
func TestEndThatCannotBeRead(t *testing.T) {
	whole := sessionPath(t)
	job, _ := fakeJob(60)
	runJob(t, job, whole, "f1")
	want := openState(t, whole)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	// The cells of a leaf grow downwards, so the newest stands first. Its kind and
	// the one before it are found by their text.
	last := bytes.LastIndex(content, []byte("finished"))
	if last < 0 {
		t.Fatal("no event says that the run finished")
	}
	lost := 0
	path := copySession(t, whole)
	from := bytes.LastIndex(content[:last+1], []byte("finished")) - 32
	for bit := 8 * from; bit < 8*(last+640) && bit < 8*len(content); bit++ {
		if bit%8 < 6 { // the high bits do the most to lengths and numbers
			continue
		}
		b := bytes.Clone(content)
		b[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := OpenSession(path)
		if err != nil {
			continue
		}
		st := f.Snapshot()
		if st.Progress.Done < want.Progress.Done {
			lost++
			if end := st.Log[len(st.Log)-1]; end.Kind != EventFinding || !strings.Contains(end.Message, "is damaged") {
				t.Errorf("byte %d, bit %d: %d records are lost, and the log says %+v", bit/8, bit%8, want.Progress.Done-st.Progress.Done, end)
			}
		}
	}
	if lost == 0 {
		t.Error("no flip lost a record: the test looks at the wrong bytes")
	}
}
