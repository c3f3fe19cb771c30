package sessions

import (
	"bytes"
	"database/sql/driver"
	"os"
	"path/filepath"
	"testing"
)

// TestFormat4IsRead: a session of before there were recipes opens as it is, and a
// writer brings it to the present format with every record as it was.
func TestFormat4IsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/format4.qscope")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.qscope")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	before := openState(t, path)
	digest, err := Digest(t.Context(), path)
	if err != nil || before.Progress.Done != 18 || len(before.Recipes) != 0 {
		t.Fatalf("%+v, %v", before.Progress, err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, data) {
		t.Error("opening changes it")
	}
	feed, err := Start(t.Context(), Options{Checkpoint: "demo", Session: path, Targets: before.Meta.Targets, Variants: []string{"nvfp4", "int4-g128+range"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	diffStates(t, before, openState(t, path))
	if now, err := Digest(t.Context(), path); err != nil || now != digest {
		t.Errorf("digest %s, before %s: %v", now, digest, err)
	}
	query(t, path, "select user_version || ' ' || (select count(*) from taps) || ' ' || (select count(*) from recipes) from pragma_user_version", func(row []driver.Value) {
		if got := sqlText(row[0]); got != "7 18 0" {
			t.Errorf("format, taps, recipes: %s", got)
		}
	})
}
