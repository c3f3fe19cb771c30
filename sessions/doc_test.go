package sessions

import (
	"database/sql/driver"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentation: docs/session.md names every table, column, view, kind of
// event and exported column, and its queries run.
func TestDocumentation(t *testing.T) {
	b, err := os.ReadFile("../docs/session.md")
	if err != nil {
		t.Fatal(err)
	}
	doc := string(b)
	path := sessionPath(t)
	job, _ := fakeJob(5)
	runJob(t, job, path, "f1", "f2")
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

	named := func(word string) {
		t.Helper()
		if !strings.Contains(doc, "`"+word+"`") {
			t.Errorf("docs/session.md does not name `%s`", word)
		}
	}
	for _, table := range append([]string{"events"}, derivedTables...) {
		_, part, ok := strings.Cut(doc, "## "+table+"\n")
		if !ok {
			t.Errorf("docs/session.md has no part on %s", table)
			continue
		}
		part, _, _ = strings.Cut(part, "\n## ")
		if err := each(t.Context(), c, "select name from pragma_table_info('"+table+"')", func(row []driver.Value) error {
			if !strings.Contains(part, "`"+row[0].(string)+"`") {
				t.Errorf("docs/session.md does not say what %s.%s is", table, row[0])
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := each(t.Context(), c, "select name from sqlite_schema where type = 'view'", func(row []driver.Value) error {
		named(row[0].(string))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, k := range []EventKind{EventCreated, EventTensors, EventVariant, EventStarted, EventTap, EventFailed, EventFallback, EventFinding, EventPaused, EventResumed, EventCancelled, EventStopped, EventFinished, EventAudit, EventYard, EventScore, EventYardEnd, EventCalib, EventUnit, EventCalibEnd, EventPlan, EventGates, EventArm, EventAnswer, EventMeter, EventGatesEnd,
		EventBias, EventBiasFound, EventBiasEnd, EventTier, EventWindow, EventMoves, EventTierEnd} {
		named(string(k))
	}
	for _, col := range columns {
		named(col.name)
	}
	for _, s := range settings {
		if !strings.Contains(doc, s.name) && s.name != "tensors" {
			t.Errorf("docs/session.md does not name the setting %s", s.name)
		}
	}

	_, queries, _ := strings.Cut(doc, "## Queries\n")
	queries, _, _ = strings.Cut(queries, "\n## ")
	n := 0
	for _, q := range regexp.MustCompile(`(?s)select .*?;`).FindAllString(queries, -1) {
		n++
		if err := each(t.Context(), c, q, func([]driver.Value) error { return nil }); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
	if n < 6 {
		t.Errorf("%d queries", n)
	}
}
