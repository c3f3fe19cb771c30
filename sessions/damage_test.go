package sessions

import (
	"bytes"
	"database/sql"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// edit changes the bytes of a file.
func edit(t *testing.T, path string, f func(b []byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o644); err != nil {
		t.Fatal(err)
	}
}

// execSQL runs statements on a file, as any SQLite tool would.
func execSQL(t *testing.T, path string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, s := range statements {
		if _, err := db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

const damagedTensors = 300

// TestDamage: what of a damaged file survives, or what the error says. Opening
// changes no byte of the file.
func TestDamage(t *testing.T) {
	whole := sessionPath(t)
	job, _ := fakeJob(damagedTensors)
	runJob(t, job, whole, "f1")
	want := openState(t, whole)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	// A payload that is not torn apart by pages, to be damaged.
	victim := payloads(t, whole)[pair{0, 150}]
	at := bytes.Index(content, victim)
	if at < 0 || bytes.Count(content, victim) != 1 {
		t.Fatal("the payload is not found once")
	}

	for _, c := range []struct {
		name   string
		damage func(t *testing.T, path string)
		least  int64  // records that must survive
		most   int64  // and no more can
		says   string // in the log, or in the error where none survives
	}{
		{"undamaged", func(*testing.T, string) {}, damagedTensors, damagedTensors, ""},
		{"last 17 bytes cut off", func(t *testing.T, p string) {
			edit(t, p, func(b []byte) []byte { return b[:len(b)-17] })
		}, 200, damagedTensors, "cut short"},
		{"two pages and a bit cut off", func(t *testing.T, p string) {
			edit(t, p, func(b []byte) []byte { return b[:len(b)-9000] })
		}, 100, damagedTensors, "cut short"},
		{"cut to a third", func(t *testing.T, p string) {
			edit(t, p, func(b []byte) []byte { return b[:len(b)/3] })
		}, 0, 0, "cut short"},
		{"cut to 60 bytes", func(t *testing.T, p string) {
			edit(t, p, func(b []byte) []byte { return b[:60] })
		}, 0, 0, "cut short after 60 bytes"},
		{"a flipped bit in a payload", func(t *testing.T, p string) {
			edit(t, p, func(b []byte) []byte { b[at+40] ^= 1; return b })
		}, damagedTensors - 1, damagedTensors - 1, "events left out: 1 (seq "},
		{"an event about another tensor", func(t *testing.T, p string) {
			execSQL(t, p, "update events set tensor = 7 where tensor = 8")
		}, damagedTensors - 1, damagedTensors - 1, "events left out: 1 (seq "},
		{"a variant that there is not", func(t *testing.T, p string) {
			execSQL(t, p, "update events set variant = 5 where tensor = 8")
		}, damagedTensors - 1, damagedTensors - 1, "events left out: 1"},
		{"a page of zeros in the middle", func(t *testing.T, p string) {
			edit(t, p, func(b []byte) []byte { clear(b[at/4096*4096 : at/4096*4096+4096]); return b })
		}, 1, damagedTensors - 1, "is damaged: unreadable from event "},
		{"typed tables gone", func(t *testing.T, p string) {
			execSQL(t, p, "drop view v_taps", "drop view v_variants", "drop table taps", "drop table tensors", "drop table variants")
		}, damagedTensors, damagedTensors, ""},
		{"a log event that is no JSON", func(t *testing.T, p string) {
			execSQL(t, p, "update events set payload = x'7b' where kind = 'finished'")
		}, damagedTensors, damagedTensors, "events left out: 1"},
		{"how it was created is gone", func(t *testing.T, p string) {
			execSQL(t, p, "delete from events where kind = 'created'")
		}, 0, 0, "how the session was created cannot be read"},
		{"a list of tensors is gone", func(t *testing.T, p string) {
			execSQL(t, p, "delete from events where kind = 'tensors'")
		}, 0, 0, "tensor 0 of 300 is in no list"},
		{"no events at all", func(t *testing.T, p string) { execSQL(t, p, "drop table events") }, 0, 0, "it has no events"},
		{"an absent log", func(t *testing.T, p string) { _ = os.Remove(p + "-wal") }, damagedTensors, damagedTensors, ""},
		{"a newer format", func(t *testing.T, p string) { execSQL(t, p, "pragma user_version = 8") }, 0, 0, "has format 8, this program reads up to format 7"},
		{"format 0", func(t *testing.T, p string) { execSQL(t, p, "pragma user_version = 0") }, 0, 0, "has format 0"},
		{"a foreign SQLite file", func(t *testing.T, p string) { execSQL(t, p, "pragma application_id = 1196444487") }, 0, 0, "an SQLite file of another program"},
		{"not an SQLite file", func(t *testing.T, p string) {
			edit(t, p, func([]byte) []byte { return []byte("version https://git-lfs.github.com/spec/v1\n") })
		}, 0, 0, "not an SQLite file"},
		{"an empty file", func(t *testing.T, p string) { edit(t, p, func([]byte) []byte { return nil }) }, 0, 0, "is empty"},
		{"a missing file", func(t *testing.T, p string) { _ = os.Remove(p) }, 0, 0, "no such file"},
		{"a folder", func(t *testing.T, p string) {
			if err := errors.Join(os.Remove(p), os.Mkdir(p, 0o755)); err != nil {
				t.Fatal(err)
			}
		}, 0, 0, "is not a regular file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := copySession(t, whole)
			c.damage(t, path)
			before, _ := os.ReadFile(path)

			f, err := OpenSession(path)
			switch {
			case c.most == 0:
				var fe *FileError
				if !errors.As(err, &fe) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
					t.Fatalf("error %v", err)
				}
			case err != nil:
				t.Fatal(err)
			default:
				st := f.Snapshot()
				checkSurvivors(t, st, want, c.least, c.most, c.says, path)
				if info, err := Inspect(path); err == nil && c.says == "" && (info.Progress.Done != st.Progress.Done || info.Progress.State != st.Progress.State) {
					t.Errorf("inspected: %+v, opened: %+v", info.Progress, st.Progress)
				}
				p, err := OpenReplay(path, 1)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Close(); err != nil {
					t.Fatal(err)
				}
			}
			// What is damaged is not gone on with, and nothing is left beside it.
			if c.says != "" {
				if l, err := StartJob(t.Context(), job, Options{Session: path}); err == nil && len(before) > 0 {
					_ = l.Close()
					t.Error("it is gone on with")
				} else if err == nil {
					_ = l.Close()
				}
			}
			if len(before) > 0 {
				if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
					t.Error("the file was changed")
				}
			}
			for _, suffix := range []string{"-wal", "-shm", lockSuffix, ".new"} {
				if _, err := os.Stat(path + suffix); err == nil && c.says != "" && len(before) > 0 {
					t.Errorf("%s is left beside it", suffix)
				}
			}
		})
	}
}

// checkSurvivors: what is there is right, and the log says whether something is
// not.
func checkSurvivors(t *testing.T, st, want *State, least, most int64, says, path string) {
	t.Helper()
	if n := st.Progress.Done; n < least || n > most {
		t.Errorf("%d records, want %d to %d", n, least, most)
	}
	for i, r := range st.Records[0] {
		if w := want.Records[0][i]; r.Seq != 0 && !sameRecord(r, w) {
			t.Errorf("tensor %d: %+v, was %+v", i, r, w)
		}
	}
	last := st.Log[len(st.Log)-1]
	warned := last.Kind == EventFinding && strings.Contains(last.Message, "session file "+path+" is damaged")
	if warned != (says != "") || !strings.Contains(last.Message, says) {
		t.Errorf("the log ends with %+v", last)
	}
	t.Logf("%d records; %s", st.Progress.Done, last.Message)
}

// TestFlippedBitsAreNeverBelieved flips one bit in each of many places of a
// session: it opens with the right figures or not at all.
func TestFlippedBitsAreNeverBelieved(t *testing.T) {
	whole := sessionPath(t)
	job, _ := fakeJob(60)
	runJob(t, job, whole, "f1")
	want := openState(t, whole)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	path := copySession(t, whole)
	refused, lost := 0, 0
	for at := 0; at < len(content); at += 211 {
		b := bytes.Clone(content)
		b[at] ^= 1 << (at % 8)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := OpenSession(path)
		if err != nil {
			refused++
			continue
		}
		st := f.Snapshot()
		if st.Progress.Done < want.Progress.Done {
			lost++
			if last := st.Log[len(st.Log)-1]; last.Kind != EventFinding {
				t.Errorf("byte %d: %d records are lost, and the log says %+v", at, want.Progress.Done-st.Progress.Done, last)
			}
		}
		for v := range st.Records {
			for i, r := range st.Records[v] {
				if r.Seq != 0 && !sameRecord(r, want.Records[v][i]) {
					t.Fatalf("byte %d: tensor %d has %+v, not %+v", at, i, r, want.Records[v][i])
				}
			}
		}
		for _, e := range st.Log {
			if e.Seq != 0 && !slices.Contains(want.Log, e) {
				t.Fatalf("byte %d: there never was an event %+v", at, e)
			}
		}
	}
	t.Logf("%d bytes: %d times refused, %d times with a loss", len(content), refused, lost)
}

func TestHeaderOfEveryLength(t *testing.T) {
	b := make([]byte, 100)
	copy(b, sqliteMagic)
	binary.BigEndian.PutUint32(b[68:], applicationID)
	binary.BigEndian.PutUint16(b[16:], 4096)
	binary.BigEndian.PutUint32(b[60:], 1)
	for n := range len(b) + 1 {
		if _, err := parseHeader("x", b[:n], int64(n)); (err == nil) != (n == 100) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestIsSession(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(2)
	runJob(t, job, path, "f1")
	newer := copySession(t, path)
	execSQL(t, newer, "pragma user_version = 9")
	foreign := filepath.Join(t.TempDir(), "foreign.db")
	if err := os.Rename(copySession(t, path), foreign); err != nil {
		t.Fatal(err)
	}
	execSQL(t, foreign, "pragma application_id = 5")
	for p, want := range map[string]bool{path: true, newer: true, foreign: false, t.TempDir(): false} {
		if got, err := IsSession(p); got != want || err != nil {
			t.Errorf("%s: %v, %v", p, got, err)
		}
	}
	if _, err := IsSession(path + "x"); err == nil {
		t.Error("a missing file can be looked at")
	}
}

// TestHostileSessions have the right checksums and break the order that a writer
// keeps. Nothing panics, whichever way they are read.
func TestHostileSessions(t *testing.T) {
	tap := bigTap(1)
	payload := encodeTap(nil, &tap, 1<<40+7)
	tapEvent := func(variant, tensor int) stored {
		return stored{Event: Event{Kind: EventTap, Variant: variant, Tensor: tensor}, payload: payload, rec: NewRecord(variant, tensor, &tap)}
	}
	variant := func(id int) stored { return newVariantEvent(id, Variant{Name: "v", Effective: "v"}) }
	for name, events := range map[string][]stored{
		"a tap before its variant":           {tapEvent(0, 1), variant(0), tapEvent(0, 2)},
		"a failure before its variant":       {newNote(EventFailed, 0, 1, note{}), variant(0)},
		"a tap of a tensor that there isn't": {variant(0), tapEvent(0, 3), tapEvent(0, -1), tapEvent(-1, 0), tapEvent(1, 0)},
		"a failure of one":                   {variant(0), newNote(EventFailed, 0, 99, note{}), newNote(EventFailed, 5, 0, note{})},
		"findings about nothing":             {newNote(EventFinding, 77, -9, note{}), newNote(EventFallback, -5, 1<<30, note{Effective: "x"})},
		"a variant that was left out":        {variant(1)},
		"a variant twice":                    {variant(0), variant(0)},
		"a second beginning":                 {newNote(EventCreated, -1, -1, note{Meta: &metaJSON{Tensors: 1 << 30}})},
		"a kind of the future":               {newNote("hologram", -1, -1, note{Message: "?"})},
	} {
		t.Run(name, func(t *testing.T) {
			path := sessionPath(t)
			job, _ := fakeJob(3)
			s, err := newSession(job, Options{Clock: realClock{}}, nil, path)
			if err != nil {
				t.Fatal(err)
			}
			lock, err := lockSession(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := createAndOpen(t.Context(), path, lock, s.events)
			if err != nil {
				t.Fatal(err)
			}
			for i := range events {
				events[i].Seq = int64(len(s.events) + i + 1)
			}
			_ = f.append(t.Context(), events) // the typed tables may refuse: then nothing is there to be read
			if err := f.close(); err != nil {
				t.Fatal(err)
			}
			if f, err := OpenSession(path); err == nil {
				st := f.Snapshot()
				for v := range st.Variants {
					Summarize(st, v)
				}
				for _, e := range st.Log {
					if e.Variant < -1 || e.Variant >= len(st.Variants) || e.Tensor < -1 || e.Tensor >= len(st.Tensors) {
						t.Errorf("the log has %+v", e)
					}
				}
			} else if !errors.As(err, new(*FileError)) {
				t.Error(err)
			}
			if p, err := OpenReplay(path, 64); err == nil {
				p.Snapshot()
				p.Step(1000)
				if _, err := p.Next(t.Context(), 0); err != nil {
					t.Error(err)
				}
				p.Step(-1000)
				if _, err := p.Next(t.Context(), 0); err != nil {
					t.Error(err)
				}
			}
			if _, err := Inspect(path); err != nil && !errors.As(err, new(*FileError)) {
				t.Error(err)
			}
			_ = ExportJSONL(t.Context(), io.Discard, path)
			if l, err := StartJob(t.Context(), job, Options{Session: path}); err == nil {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
