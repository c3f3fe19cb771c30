package sessions

import (
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantscope/analysis/yardstick"
)

// rewrite replaces the payload of the n-th event of a kind, with the sum that
// belongs to it.
func rewrite(t *testing.T, path string, kind EventKind, n int, payload []byte) {
	t.Helper()
	f := eventsOf(t, path, kind)
	if n >= len(f) {
		t.Fatalf("%d events of kind %s", len(f), kind)
	}
	e := f[n]
	crc := eventSum(e.Seq, e.AtUS, e.Variant, e.Tensor, string(kind), payload)
	db := openSQL(t, path)
	if _, err := db.ExecContext(t.Context(), "update events set payload = ?, crc = ? where seq = ?", payload, crc, e.Seq); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// What of a measurement is damaged is left out and said; the rest is there, in
// every kind of feed. No damaged file is measured in.
func TestYardDamage(t *testing.T) {
	whole := yardSession(t)
	if err := measureOn(t, openFeed(t, whole), &fakeMeasure{setup: madeUpSetup("int4")}); err != nil {
		t.Fatal(err)
	}
	setup := madeUpSetup("nvfp4")
	score := func(change func(c *yardstick.Chunk)) []byte {
		c := madeUpChunk(setup, 0, 0)
		change(c)
		return encodeScore(nil, 0, c)
	}
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, path string)
		chunks []int // of each measurement that is left
		lost   int
	}{
		{"a flipped bit in a score", func(t *testing.T, p string) {
			execSQL(t, p, "update events set crc = crc + 1 where seq = (select min(seq) from events where kind = 'score')")
		}, []int{5, 6}, 1},
		{"a measurement without its beginning", func(t *testing.T, p string) {
			execSQL(t, p, "update events set crc = crc + 1 where seq = (select min(seq) from events where kind = 'yard')")
		}, []int{6}, 1 + 6 + 1},
		{"a beginning that is no JSON", func(t *testing.T, p string) { rewrite(t, p, EventYard, 1, []byte("{")) }, []int{6}, 1 + 6 + 1},
		{"a beginning without a setup", func(t *testing.T, p string) { rewrite(t, p, EventYard, 1, []byte(`{"yard":{"id":1}}`)) }, []int{6}, 1 + 6 + 1},
		{"a score cut short", func(t *testing.T, p string) {
			rewrite(t, p, EventScore, 0, score(func(*yardstick.Chunk) {})[:200])
		}, []int{5, 6}, 1},
		{"a score of a candidate too few", func(t *testing.T, p string) {
			rewrite(t, p, EventScore, 0, score(func(c *yardstick.Chunk) { c.Rows = c.Rows[:2] }))
		}, []int{5, 6}, 1},
		{"a score of another corpus", func(t *testing.T, p string) {
			rewrite(t, p, EventScore, 0, score(func(c *yardstick.Chunk) { c.Corpus = 2 }))
		}, []int{5, 6}, 1},
		{"a score of a chunk that there is not", func(t *testing.T, p string) {
			rewrite(t, p, EventScore, 0, score(func(c *yardstick.Chunk) { c.Index = 3 }))
		}, []int{5, 6}, 1},
		{"positions outside the chunk", func(t *testing.T, p string) {
			rewrite(t, p, EventScore, 0, score(func(c *yardstick.Chunk) { c.First = 1 }))
		}, []int{5, 6}, 1},
		{"a chunk twice", func(t *testing.T, p string) {
			rewrite(t, p, EventScore, 1, score(func(*yardstick.Chunk) {}))
		}, []int{5, 6}, 1},
		{"a reference that is not a number", func(t *testing.T, p string) {
			rewrite(t, p, EventScore, 0, score(func(c *yardstick.Chunk) { c.Ref[1].NLL = math.NaN() }))
		}, []int{5, 6}, 1},
		{"a negative divergence", func(t *testing.T, p string) {
			rewrite(t, p, EventScore, 0, score(func(c *yardstick.Chunk) { c.Rows[2][1].KL = -1e-9 }))
		}, []int{5, 6}, 1},
		{"a negative divergence the other way", func(t *testing.T, p string) {
			rewrite(t, p, EventScore, 0, score(func(c *yardstick.Chunk) { c.Rows[2][1].Reverse = -1e-9 }))
		}, []int{5, 6}, 1},
		{"an end in no known state", func(t *testing.T, p string) {
			rewrite(t, p, EventYardEnd, 0, []byte(`{"yard_end":{"id":0,"state":"soon"}}`))
		}, []int{6, 6}, 1},
		{"a probe of no candidate", func(t *testing.T, p string) {
			rewrite(t, p, EventYardEnd, 0, []byte(`{"yard_end":{"id":0,"state":"finished","probes":[{"candidate":3}]}}`))
		}, []int{6, 6}, 1},
		{"a baseline that there is not", func(t *testing.T, p string) {
			s := *setup
			s.Candidates = append([]yardstick.Party{}, setup.Candidates...)
			s.Candidates[0].Baseline = 3
			e, err := newYardEvent(1, &s)
			if err != nil {
				t.Fatal(err)
			}
			rewrite(t, p, EventYard, 1, e.payload)
		}, []int{6}, 1 + 6 + 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := copySession(t, whole)
			c.damage(t, path)
			st := openState(t, path)
			var chunks []int
			for _, y := range st.Yards {
				chunks = append(chunks, len(y.Chunks))
			}
			if len(chunks) != len(c.chunks) || chunks[0] != c.chunks[0] || chunks[len(chunks)-1] != c.chunks[len(chunks)-1] {
				t.Errorf("%v chunks are left, want %v", chunks, c.chunks)
			}
			last := st.Log[len(st.Log)-1]
			if want := "events left out: " + itoa(c.lost); last.Kind != EventFinding || !strings.Contains(last.Message, want) {
				t.Errorf("the log ends with %q, want %s", last.Message, want)
			}
			p := play(t, path, MaxSpeed)
			p.p.Step(1 << 20)
			if !p.next() {
				t.Fatal("nothing is played")
			}
			diffYards(t, st.Yards, p.st.Yards)
			fake := &fakeMeasure{setup: madeUpSetup("nvfp4")}
			if err := measureOn(t, openFeed(t, path), fake); err == nil || !strings.Contains(err.Error(), "is damaged and can be looked at") || fake.calls != 0 {
				t.Errorf("measured in: %v", err)
			}
		})
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// The tables say what the events say: the same means, and NULL for what is none.
func TestYardTables(t *testing.T) {
	path := yardSession(t)
	st := openState(t, path)
	y := st.Yards[0]
	rows := map[string][]driver.Value{}
	query(t, path, "select label, kl, kl_max, top1, nan, infinite, positions, chunks from v_kl order by candidate", func(row []driver.Value) {
		rows[row[0].(string)] = append([]driver.Value{}, row[1:]...)
	})
	if len(rows) != 3 {
		t.Fatalf("%v", rows)
	}
	for k, c := range y.Setup.Candidates {
		var sum, n, top, numbers, nan, infinite float64
		for _, chunk := range y.Chunks {
			for i, r := range chunk.Rows[k] {
				switch {
				case math.IsNaN(r.KL):
					nan++
					continue
				case math.IsInf(r.KL, 1):
					infinite++
				default:
					sum += r.KL
					n++
				}
				numbers++
				if r.Top == chunk.Ref[i].Top {
					top++
				}
			}
		}
		row := rows[c.Label]
		if math.Abs(row[0].(float64)-sum/n) > 1e-12 || math.Abs(row[2].(float64)-top/numbers) > 1e-12 || float64(row[3].(int64)) != nan ||
			float64(row[4].(int64)) != infinite || row[5].(int64) != 48 || row[6].(int64) != 6 {
			t.Errorf("%s: %v, want KL %v, top-1 %v", c.Label, row, sum/n, top/numbers)
		}
	}
	want := map[string]string{
		"select count(*) from scores": "18", "select state || ' ' || positions from yards": "finished 48",
		"select group_concat(name || ' ' || chunks || ' ' || tokens) from corpora":                             "prose 3 27,code 3 27",
		"select group_concat(label || ' ' || floor || ' ' || coalesce(baseline, 'none')) from candidates":      "nvfp4 0 none,nvfp4+mse 0 0,floor 1 none",
		"select count(*) from log where kind = 'score'":                                                        "0",
		"select sum(nan) || ' ' || sum(infinite) from v_scores where candidate_name in ('nvfp4', 'nvfp4+mse')": "6 6",
	}
	for q, w := range want {
		query(t, path, q, func(row []driver.Value) {
			if got := strings.TrimSpace(sqlText(row[0])); got != w {
				t.Errorf("%s: %s, want %s", q, got, w)
			}
		})
	}

	// They are derived: what another program did to them is mended by the next writer.
	tables := dumpTables(t, path)
	execSQL(t, path, "delete from scores where candidate = 1", "update yards set state = 'running'", "delete from corpora")
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	if got := dumpTables(t, path); got != tables {
		t.Errorf("the tables differ (-want +got):\n%.2000s", cmp.Diff(strings.Split(tables, "\n"), strings.Split(got, "\n")))
	}
}

func sqlText(v driver.Value) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case string:
		return v
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// TestFormat2IsRead: a session from before there were measurements opens as it is,
// and the first measurement brings it up to this format with all that it held.
func TestFormat2IsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/format2.qscope")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.qscope")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	before := openState(t, path)
	if before.Progress.Done != 9 || len(before.Yards) != 0 {
		t.Fatalf("%+v", before.Progress)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(data) {
		t.Error("opening changes it")
	}
	digest, err := Digest(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if err := measureOn(t, openFeed(t, path), &fakeMeasure{setup: madeUpSetup("nvfp4")}); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	if len(st.Yards) != 1 || len(st.Yards[0].Chunks) != 6 {
		t.Errorf("%d measurements", len(st.Yards))
	}
	st.Yards, st.Log, st.LastSeq, st.LastUS = nil, st.Log[:len(before.Log)], before.LastSeq, before.LastUS
	diffStates(t, before, st)
	if got, err := Digest(t.Context(), path); err != nil || got != digest {
		t.Errorf("records have the digest %s, before %s: %v", got, digest, err)
	}
	query(t, path, "select user_version || ' ' || (select count(*) from taps) || ' ' || (select count(*) from scores) from pragma_user_version", func(row []driver.Value) {
		if got := sqlText(row[0]); got != "7 9 18" {
			t.Errorf("format, taps, scores: %s", got)
		}
	})
}

// TestFormat3IsRead: a session from before there were calibrations opens as it is,
// and a run that goes on with it brings it up to this format.
func TestFormat3IsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/format3.qscope")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.qscope")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	before := openState(t, path)
	if before.Progress.Done != 6 || len(before.Yards) != 1 || len(before.Yards[0].Chunks) != 1 || len(before.Calibrations) != 0 {
		t.Fatalf("%+v, %d measurements", before.Progress, len(before.Yards))
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(data) {
		t.Error("opening changes it")
	}
	feed, err := Start(t.Context(), Options{Checkpoint: "demo", Session: path, Targets: "*layers.1.*experts.0.*", Variants: []string{"nvfp4", "int4-g128"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	diffStates(t, before, openState(t, path))
	query(t, path, "select user_version || ' ' || (select count(*) from taps) || ' ' || (select count(*) from scores) || ' ' || (select count(*) from calibrations) from pragma_user_version", func(row []driver.Value) {
		if got := sqlText(row[0]); got != "7 6 1 0" {
			t.Errorf("format, taps, scores, calibrations: %s", got)
		}
	})
}

// Large scores are read a few at a time where the tables are made anew, and where
// another process writes them.
func TestScoresAreReadInParts(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(2)
	runJob(t, job, path, "f1")
	s := madeUpSetup("nvfp4")
	for c := range s.Corpora {
		for k := range s.Corpora[c].IDs {
			s.Corpora[c].IDs[k] = make([]int32, 40_000)
		}
	}
	if err := measureOn(t, openFeed(t, path), &fakeMeasure{setup: s}); err != nil {
		t.Fatal(err)
	}
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
	seen, looks := int64(0), 0
	for more := true; more; looks++ {
		var events []stored
		if events, more, err = readEvents(t.Context(), c, seen, 1<<20); err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, e := range events {
			size += len(e.payload)
			seen = e.Seq
		}
		if size > readBytes+4<<20 {
			t.Errorf("%d bytes at once", size)
		}
	}
	if looks < 2 || seen != openState(t, path).LastSeq {
		t.Errorf("%d looks, up to event %d", looks, seen)
	}
	execSQL(t, path, "delete from scores")
	runJob(t, job, path, "f1", "f2")
	query(t, path, "select count(*) from scores", func(row []driver.Value) {
		if row[0].(int64) != 18 {
			t.Errorf("%v scores after mending", row[0])
		}
	})
}

// eventsOf are the events of a kind, in order.
func eventsOf(t *testing.T, path string, kind EventKind) []stored {
	t.Helper()
	var out []stored
	query(t, path, "select seq, at_us, variant, tensor from events where kind = '"+string(kind)+"' order by seq", func(row []driver.Value) {
		out = append(out, stored{Event: Event{Seq: row[0].(int64), AtUS: row[1].(int64), Variant: int(row[2].(int64)), Tensor: int(row[3].(int64))}})
	})
	return out
}

// query reads rows of a session.
func query(t *testing.T, path, q string, f func(row []driver.Value)) {
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
	if err := each(t.Context(), c, q, func(row []driver.Value) error {
		f(row)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// openSQL opens a file as any SQLite tool would.
func openSQL(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	return db
}
