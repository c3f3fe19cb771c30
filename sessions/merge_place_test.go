package sessions

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rowsOf are the rows of a query, as text.
func rowsOf(t *testing.T, path, query string) []string {
	t.Helper()
	r, err := openReader(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := r.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var rows []string
	if err := each(t.Context(), c, query, func(row []driver.Value) error {
		rows = append(rows, fmt.Sprint(row))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestMergedTablesAndTimes: the typed tables have the records under the tensors
// of the whole, and each event stands at the time at which it happened.
func TestMergedTablesAndTimes(t *testing.T) {
	source, base := synthetic(t), t.TempDir()
	at := func(name string) string { return filepath.Join(base, name+Extension) }
	runPart(t, source, at("whole"), Part{}, "nvfp4")
	parts := []string{at("1"), at("2"), at("3")}
	for k, path := range parts {
		runPart(t, source, path, Part{k + 1, 3}, "nvfp4")
	}
	if err := Merge(t.Context(), at("merged"), parts, MergeOptions{}); err != nil {
		t.Fatal(err)
	}
	const taps = "select tensor, variant, failed, cos, rel2, w2, e2, amax, shallow, deep, depth from taps order by variant, tensor"
	want := rowsOf(t, at("whole"), taps)
	if diff := cmp.Diff(want, rowsOf(t, at("merged"), taps)); len(want) == 0 || diff != "" {
		t.Errorf("%d records; the whole's (-) and the merged ones: %.600s", len(want), diff)
	}
	created := func(path string) int64 {
		return openState(t, path).Meta.CreatedUnixMS
	}
	const when = "select t.name, e.at_us + %d from events e join tensors t on t.id = e.tensor where e.kind = 'tap' order by t.id"
	var times []string
	for _, path := range parts {
		later := 1000 * (created(path) - created(at("merged")))
		times = append(times, rowsOf(t, path, fmt.Sprintf(when, later))...)
	}
	if diff := cmp.Diff(times, rowsOf(t, at("merged"), fmt.Sprintf(when, 0))); diff != "" {
		t.Errorf("times of the parts (-) and the merged ones: %.600s", diff)
	}
	const falls = "select a.kind, b.kind from events a join events b on b.seq = a.seq + 1 where b.at_us < a.at_us"
	if rows := rowsOf(t, at("merged"), falls); len(rows) > 0 {
		t.Errorf("time falls between %q", rows)
	}
}

// partOf is a part that holds so many tensors from first on.
func partOf(k, of, first, n, whole int) *mergePart {
	p := &mergePart{path: fmt.Sprint("p", k), loaded: &loaded{st: &State{}, settings: map[string]string{SettingPart: Part{k, of}.String()}}}
	p.meta.Part = &partJSON{K: k, Of: of, First: first, Whole: whole}
	for i := range n {
		p.st.Tensors = append(p.st.Tensors, Tensor{Name: fmt.Sprint("t", first+i)})
	}
	return p
}

// A gap of one tensor is one, before, between or after parts.
func TestMergePlaces(t *testing.T) {
	for _, c := range []struct {
		name  string
		parts [][2]int // first tensor and how many
		says  string
	}{
		{"whole", [][2]int{{0, 3}, {3, 4}, {7, 3}}, ""},
		{"a part without targets", [][2]int{{0, 3}, {3, 0}, {3, 7}}, ""},
		{"one before", [][2]int{{1, 2}, {3, 4}, {7, 3}}, "1 tensor before its first"},
		{"one between", [][2]int{{0, 3}, {4, 3}, {7, 3}}, "1 tensor before its first"},
		{"one after", [][2]int{{0, 3}, {3, 4}, {7, 2}}, "1 tensor after its last"},
		{"one twice", [][2]int{{0, 4}, {3, 4}, {7, 3}}, `tensor "t3" is in p1 too`},
	} {
		for _, partial := range []bool{false, true} {
			m := &merging{}
			for i, p := range c.parts {
				m.parts = append(m.parts, partOf(i+1, len(c.parts), p[0], p[1], 10))
			}
			err := m.place(MergeOptions{Partial: partial})
			gap := strings.Contains(c.says, "before") || strings.Contains(c.says, "after")
			switch {
			case c.says == "" || partial && gap:
				if err != nil || m.whole != (c.says == "") {
					t.Errorf("%s, partial %t: whole %t, %v", c.name, partial, m.whole, err)
				}
				at := 0
				for _, p := range m.parts {
					if p.first != at {
						t.Errorf("%s: %s begins at %d, want %d", c.name, p.path, p.first, at)
					}
					at += len(p.st.Tensors)
				}
			default:
				var me *MergeError
				if !errors.As(err, &me) || !strings.Contains(me.Reason, c.says) {
					t.Errorf("%s, partial %t: %v, want %q", c.name, partial, err, c.says)
				}
			}
		}
	}
}

// The next event is the earliest; of equal times the one of the earlier part.
func TestMergeTakesTheEarliest(t *testing.T) {
	m := &merging{}
	for k, times := range [][]int64{{3, 5, 5}, {1, 5, 9}, {5}} {
		p := partOf(k+1, 3, 0, 0, 0)
		for _, us := range times {
			p.queue = append(p.queue, stored{Event: Event{AtUS: us, Message: p.path}})
		}
		m.parts = append(m.parts, p)
	}
	var got []string
	for {
		e, err := m.next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		got = append(got, fmt.Sprint(e.Message, "@", e.AtUS))
	}
	if want := strings.Fields("p2@1 p1@3 p1@5 p1@5 p2@5 p3@5 p2@9"); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
