package sessions

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"quantscope/analysis/calibrate"
)

// A calibrated variant beside a plain one: the plain one goes first, every tensor has
// a record under both, and every way of looking at the session says the same.
func TestCalibratedRun(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(40)
	f := withCalib(t, job)
	f.trade = func(t int) calibrate.Trade {
		tr := plainTrade(t)
		switch t {
		case 3:
			tr.Effective, tr.Why, tr.Tokens, tr.Out2 = "f1", "no token was routed to it", 0, calibrate.Float(math.NaN())
		case 4:
			tr.Effective, tr.Why, tr.Chosen = "f1", "only gate is calibrated", true
		}
		return tr
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"c1", "f1"}, Program: "test", Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	st := l.Snapshot()
	until(t, l, st, func() bool { return st.Progress.State == RunFinished })
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	saved := openState(t, path)
	if diff := stateDiff(saved, st); diff != "" {
		t.Errorf("the session and what was told of it differ: %s", diff)
	}
	if saved.Progress.Done != 80 || saved.Progress.Failed != 0 || len(saved.Calibrations) != 1 {
		t.Fatalf("%+v, %d calibrations", saved.Progress, len(saved.Calibrations))
	}
	c := saved.Calibrations[0]
	if len(c.Units) != 3 || c.End == nil || c.End.State != RunFinished || c.End.FellBack != 256 || c.End.Calibrated != 38 || c.Setup.Corpus != "text" {
		t.Errorf("%d units, %+v", len(c.Units), c.End)
	}
	lastPlain, firstCalibrated := int64(0), int64(math.MaxInt64)
	for i := range saved.Tensors {
		lastPlain = max(lastPlain, saved.Records[1][i].Seq)
		firstCalibrated = min(firstCalibrated, saved.Records[0][i].Seq)
		a, b := saved.Records[0][i], saved.Records[1][i]
		b.Variant = 0
		if !a.sameFigures(&b) || a.Weights == 0 || a.Weights != b.Weights {
			t.Errorf("tensor %d: %+v and %+v", i, a, b)
		}
	}
	if firstCalibrated < lastPlain {
		t.Errorf("the calibrated variant began at event %d, the plain one ended at %d", firstCalibrated, lastPlain)
	}
	if tr, ok := saved.Trade(0, 3); !ok || tr.Effective != "f1" || !math.IsNaN(float64(tr.Out2)) {
		t.Errorf("%+v, %v", tr, ok)
	}
	trades := saved.Trades(0)
	if len(trades) != 40 || !trades[3].FellBack() || trades[4].FellBack() || trades[4].Calibrated() || !trades[5].Calibrated() || saved.Trades(1) != nil {
		t.Errorf("%d trades", len(trades))
	}
	sum := c.Summary("c1")
	if sum.Trades.Calibrated != 38 || sum.Trades.FellBack != 1 || sum.Trades.Chosen != 1 || math.Abs(float64(sum.OutRatio)-0.5) > 1e-12 || math.Abs(float64(sum.WeightRatio)-1.6) > 1e-12 ||
		float64(sum.FellBackShare) != 1.0/40 || sum.Gate != "passed" || !sum.RankMet || sum.Routed == nil || sum.Routed.Experts != 48 || sum.Routed.Median != 125 {
		t.Errorf("%+v %+v", sum, sum.Routed)
	}
	var fallbacks, findings []string
	for _, e := range saved.Log {
		switch e.Kind {
		case EventFallback:
			fallbacks = append(fallbacks, e.Message)
		case EventFinding:
			findings = append(findings, e.Message)
		}
	}
	if len(fallbacks) != 1 || !strings.Contains(fallbacks[0], "f1 in place of c1: no token was routed to it") || !slices.Contains(findings, "c1: few tokens") {
		t.Errorf("%q %q", fallbacks, findings)
	}
	if s := Summarize(saved, 0); s.Effective != "c1 (f1 for 1 tensor)" {
		t.Errorf("effective %q", s.Effective)
	}
	query(t, path, `select count(*), sum(why is not null), sum(chosen), (select count(*) from tokens), (select count(*) from units), (select state || fell_back from calibrations),
		(select round(out_ratio, 9) from v_calibrated where tensor = 7) from calibrated`, func(row []driver.Value) {
		if got := strings.Trim(fmt.Sprint(row), "[]"); got != "40 2 1 48 3 finished256 0.5" {
			t.Errorf("tables: %s", got)
		}
	})
	replayed := replayState(t, path)
	if diff := stateDiff(saved, replayed); diff != "" {
		t.Errorf("a replay ends otherwise: %s", diff)
	}
	before := dumpTables(t, path)
	execSQL(t, path, "delete from calibrated where tensor = 5")
	runJob(t, job, path, "c1", "f1")
	if after := dumpTables(t, path); after != before {
		t.Error("tables are not mended as they were")
	}
	execSQL(t, path, "pragma user_version = 3")
	runJob(t, job, path, "c1", "f1")
	if after := dumpTables(t, path); after != before {
		t.Error("a rebuild makes other tables")
	}
}

// stateDiff compares two states but for what is of the moment.
func stateDiff(a, b *State) string {
	x, y := a.Clone(), b.Clone()
	x.Progress, y.Progress = Progress{}, Progress{}
	return cmp.Diff(x, y, sameFigures)
}

// replayState is what a replay shows at its end.
func replayState(t *testing.T, path string) *State {
	t.Helper()
	p, err := OpenReplay(path, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	st := p.Snapshot()
	p.SeekTo(p.Position().EndUS)
	until(t, p, st, func() bool { return st.Progress.State == RunFinished })
	return st
}

// A killed or cancelled calibration is gone on with where it was: units that are kept
// are read back, and the session knows each once.
func TestCalibrationIsGoneOnWith(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(48)
	f := withCalib(t, job)
	gone := errors.New("the lights went out")
	f.after = func(unit string) error { // its codes are kept, the session does not hear of it
		if unit == "layer 1" {
			return gone
		}
		return nil
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"c1"}, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	var ce *CalibrationError
	if !errors.As(err, &ce) || !errors.Is(err, gone) {
		t.Fatalf("%v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	if st.Progress.Done != 16 || st.Progress.State != RunStopped || st.Calibrations[0].End.State != RunStopped || len(st.Calibrations[0].Units) != 1 {
		t.Fatalf("%+v %+v", st.Progress, st.Calibrations[0].End)
	}
	f.after, f.made = nil, nil
	runJob(t, job, path, "c1")
	st = openState(t, path)
	if st.Progress.Done != 48 || st.Progress.State != RunFinished || len(st.Calibrations) != 1 || !slices.Equal(f.made, []string{"layer 2"}) {
		t.Fatalf("%+v, %d calibrations, made %v", st.Progress, len(st.Calibrations), f.made)
	}
	c := st.Calibrations[0]
	var again []bool
	for _, u := range c.Units {
		again = append(again, u.Again)
	}
	if !slices.Equal(again, []bool{false, true, false}) || c.End == nil || c.End.State != RunFinished {
		t.Errorf("read back: %v, %+v", again, c.End)
	}
	f.made = nil
	last := st.LastSeq
	runJob(t, job, path, "c1") // there is nothing left to do
	if st = openState(t, path); st.LastSeq != last || f.made != nil {
		t.Errorf("event %d after %d, made %v", st.LastSeq, last, f.made)
	}
}

// What a session and the text or the codes contradict one another about is refused.
func TestCalibrationAgrees(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(48)
	f := withCalib(t, job)
	stop := func(unit string) error {
		if unit == "layer 1" {
			return errors.New("stop")
		}
		return nil
	}
	start := func() error {
		l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"c1"}, Threads: 2})
		if err != nil {
			return err
		}
		_, err = l.Wait(t.Context())
		return errors.Join(err, l.Close())
	}
	f.before = stop
	if err := start(); err == nil {
		t.Fatal("not stopped")
	}
	f.before = nil
	f.sha = "1111111111111111"
	var settings *SettingsError
	if err := start(); !errors.As(err, &settings) || !strings.Contains(err.Error(), "calibration of c1: text was 1000 tokens in 4 chunks, sha256 abcdef012345 and is now 1000 tokens in 4 chunks, sha256 111111111111") {
		t.Errorf("another text: %v", err)
	}
	f.sha = "abcdef0123456789"
	f.factor = 2
	var codes *CodesError
	if err := start(); !errors.As(err, &codes) || !strings.Contains(err.Error(), `tensor "model.layers.0.mlp.experts.0.up_proj.weight"`) {
		t.Errorf("other codes: %v", err)
	}
	f.factor = 0
	if err := os.RemoveAll(f.dir); err != nil { // all is made again, and is what it was
		t.Fatal(err)
	}
	if err := start(); err != nil {
		t.Errorf("codes that are gone: %v", err)
	}
	if st := openState(t, path); st.Progress.Done != 48 || len(st.Calibrations[0].Units) != 3 {
		t.Errorf("%+v", st.Progress)
	}
	f.fail = errors.New("needs a text")
	if _, err := StartJob(t.Context(), job, Options{Session: path + "2", Variants: []string{"c1"}}); !errors.Is(err, f.fail) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path + "2"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a session was made for a run that never began: %v", err)
	}
}

// The person holds a calibration between units, adds variants, which go first, and
// ends it.
func TestCalibrationIsHeldAndCancelled(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(64)
	f := withCalib(t, job)
	entered, let := make(chan string), make(chan struct{})
	f.before = func(unit string) error {
		entered <- unit
		<-let
		return nil
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"c1"}, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	st := l.Snapshot()
	<-entered
	let <- struct{}{}
	<-entered // layer 1
	until(t, l, st, func() bool { return len(st.Calibrations) == 1 && len(st.Calibrations[0].Units) == 1 })
	l.Pause()
	until(t, l, st, func() bool { return st.Progress.State == RunPaused })
	if err := l.Add("f1"); err != nil {
		t.Fatal(err)
	}
	if err := l.Add("c2"); err != nil {
		t.Fatal(err)
	}
	let <- struct{}{} // and the gate is shut: neither the unit nor f1 goes on
	select {
	case unit := <-entered:
		t.Fatalf("%s began in a paused run", unit)
	default:
	}
	l.Resume()
	<-entered // layer 2: f1 was measured before layer 1
	until(t, l, st, func() bool { return len(st.Calibrations[0].Units) == 2 })
	for i := range st.Records[1] {
		if r := st.Records[1][i]; r.Seq == 0 || r.Seq > st.Records[0][16].Seq {
			t.Fatalf("tensor %d of f1 has event %d, layer 1 came at %d", i, r.Seq, st.Records[0][16].Seq)
		}
	}
	if cal := st.Progress.Calibrating; cal.Units != 4 || cal.Unit == "" || cal.Step != "quantizing" || cal.Of != 100 {
		t.Errorf("%+v", cal)
	}
	l.Cancel()
	let <- struct{}{}
	if p, err := l.Wait(t.Context()); err != nil || p.State != RunCancelled {
		t.Fatalf("%+v, %v", p, err)
	}
	until(t, l, st, func() bool { return st.Progress.State == RunCancelled })
	if end := st.Calibrations[0].End; end == nil || end.State != RunCancelled || end.Calibrated != 16*len(st.Calibrations[0].Units) || st.Progress.Calibrating != (Calibrating{}) {
		t.Errorf("%+v, %+v", end, st.Progress.Calibrating)
	}
	go func() {
		for range entered {
			let <- struct{}{}
		}
	}()
	if err := l.Add("c2"); err != nil { // goes on with what was cancelled
		t.Fatal(err)
	}
	if p, err := l.Wait(t.Context()); err != nil || p.State != RunFinished || p.Done != 3*64 {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	close(entered)
	saved := openState(t, path)
	if len(saved.Calibrations) != 2 || len(saved.Calibrations[0].Units) != 4 || len(saved.Calibrations[1].Units) != 4 || saved.Calibrations[0].End.State != RunFinished {
		t.Errorf("%d calibrations", len(saved.Calibrations))
	}
}

// Another process that reads along sees the same.
func TestCalibrationIsFollowed(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(48)
	f := withCalib(t, job)
	entered, let := make(chan string), make(chan struct{})
	f.before = func(unit string) error {
		entered <- unit
		<-let
		return nil
	}
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"c1"}, Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	<-entered
	let <- struct{}{}
	<-entered
	feed := openFeed(t, path)
	st := feed.Snapshot()
	until(t, feed, st, func() bool { return len(st.Calibrations) == 1 && len(st.Calibrations[0].Units) >= 1 })
	until(t, feed, st, func() bool { return st.Progress.Calibrating.Units == 3 && st.Progress.Calibrating.Unit == "layer 1" })
	let <- struct{}{}
	<-entered
	let <- struct{}{}
	if _, err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, feed, st, func() bool { return st.Progress.State == RunFinished })
	if diff := stateDiff(openState(t, path), st); diff != "" {
		t.Error(diff)
	}
}

// Two sessions as one: calibrations of both, under the joined variants and tensors.
func TestCalibrationsAreJoined(t *testing.T) {
	a, b := sessionPath(t), sessionPath(t)
	job, _ := fakeJob(32)
	withCalib(t, job)
	runJob(t, job, a, "f1", "c1")
	job2, _ := fakeJob(48)
	withCalib(t, job2).trade = func(t int) calibrate.Trade {
		tr := plainTrade(t)
		tr.Out2 = calibrate.Float(float64(t))
		return tr
	}
	runJob(t, job2, b, "c1", "c2")
	f, err := OpenJoined(a, b, "B")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st := f.Snapshot()
	if len(st.Calibrations) != 3 || st.VariantByName("c2 @ B") != 3 {
		t.Fatalf("%d calibrations, %v", len(st.Calibrations), st.Variants)
	}
	if tr, ok := st.Trade(st.VariantByName("c1"), 31); !ok || tr.Out2 != 0.005 {
		t.Errorf("%+v", tr)
	}
	if tr, ok := st.Trade(st.VariantByName("c2 @ B"), 31); !ok || tr.Out2 != 31 {
		t.Errorf("%+v", tr)
	}
	if n := len(st.Trades(3)); n != 32 {
		t.Errorf("%d tensors", n)
	}
}

// Events that do not fit are damage, not part of the state.
func TestCalibrationDamage(t *testing.T) {
	job, _ := fakeJob(32)
	withCalib(t, job)
	whole := sessionPath(t)
	runJob(t, job, whole, "f1", "c1")
	for name, c := range map[string]struct {
		kind   EventKind
		old    string
		new    string
		units  int
		calibs int
	}{
		"a unit of no calibration":     {EventUnit, `"id":0`, `"id":7`, 0, 1},
		"a unit that is not asked for": {EventUnit, `"unit":"layer`, `"unit":"Layer`, 0, 1},
		"a tensor that is not there":   {EventUnit, `"tensor":1,`, `"tensor":9999,`, 1, 1},
		"a tensor twice":               {EventUnit, `"tensor":1,`, `"tensor":2,`, 1, 1},
		"a setup of another variant":   {EventCalib, `"variant":1`, `"variant":0`, 0, 0},
		"no setup":                     {EventCalib, `"setup"`, `"sEt"`, 0, 0},
		"a negative number":            {EventCalib, `"id":0`, `"id":-3`, 0, 0},
		"a state that there is not":    {EventCalibEnd, `"state":"finished"`, `"state":"running"`, 2, 1},
	} {
		t.Run(name, func(t *testing.T) {
			path := sessionPath(t)
			data, err := os.ReadFile(whole)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, data, 0o644); err != nil {
				t.Fatal(err)
			}
			rewriteEvents(t, path, c.kind, c.old, c.new)
			st := openState(t, path)
			units := 0
			for _, k := range st.Calibrations {
				units += len(k.Units)
			}
			if len(st.Calibrations) != c.calibs || units != c.units || !strings.Contains(st.Log[len(st.Log)-1].Message, "is damaged") {
				t.Errorf("%d calibrations, %d units, %s", len(st.Calibrations), units, st.Log[len(st.Log)-1].Message)
			}
			if st.Progress.Done != 64 {
				t.Errorf("%+v", st.Progress)
			}
		})
	}
}

// rewriteEvents changes the payloads of all events of a kind, with sums that are right.
func rewriteEvents(t *testing.T, path string, kind EventKind, old, now string) {
	t.Helper()
	type change struct {
		seq     int64
		payload []byte
		crc     int64
	}
	var changes []change
	query(t, path, "select seq, at_us, variant, tensor, payload from events where kind = '"+string(kind)+"'", func(row []driver.Value) {
		p := []byte(strings.ReplaceAll(string(row[4].([]byte)), old, now))
		seq, at := row[0].(int64), row[1].(int64)
		changes = append(changes, change{seq, p, eventSum(seq, at, int(row[2].(int64)), int(row[3].(int64)), string(kind), p)})
	})
	db := openSQL(t, path)
	defer db.Close()
	for _, c := range changes {
		if _, err := db.ExecContext(context.Background(), "update events set payload = ?, crc = ? where seq = ?", c.payload, c.crc, c.seq); err != nil {
			t.Fatal(err)
		}
	}
}

// Exports say what was traded, where something was.
func TestExportOfTrades(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(20)
	withCalib(t, job).trade = func(t int) calibrate.Trade {
		tr := plainTrade(t)
		if t == 2 {
			tr.Effective, tr.Why = "f1", "too small"
		}
		return tr
	}
	runJob(t, job, path, "f1", "c1")
	var b strings.Builder
	if err := ExportJSONL(t.Context(), &b, path); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 40 || strings.Contains(lines[0], "out2") || !strings.Contains(lines[22], `"effective":"f1","why":"too small"`) ||
		!strings.Contains(lines[25], `"out2":0.005,"base_out2":0.01,"base_rel2":0.0125,"damp_share":0.125,"tokens":1000,"rank":32,"changed":40`) {
		t.Errorf("%d lines: %s\n%.900s\n%.900s", len(lines), lines[0][:200], lines[22], lines[25])
	}
	for _, format := range []string{"csv", "parquet"} {
		if err := ExportFile(t.Context(), path, path+"."+format, format, false); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(path + ".csv")
	if rows := strings.Split(string(text), "\n"); err != nil || !strings.HasSuffix(rows[1], ",,,,,,,,,,") || !strings.HasSuffix(rows[23], ",0.005,0.01,0.0125,0.125,1000,32,40,,f1,too small,") {
		t.Errorf("%v: %s / %s", err, rows[1], rows[23])
	}
	table, err := parquet.ReadFile[parquetRow](path + ".parquet")
	if err != nil || len(table) != 40 {
		t.Fatalf("%d rows, %v", len(table), err)
	}
	for _, r := range table {
		if (r.Variant == "c1") != (r.Effective != nil) || r.Variant == "c1" && *r.Out2 != 0.005 {
			t.Errorf("%+v", r)
		}
	}
}
