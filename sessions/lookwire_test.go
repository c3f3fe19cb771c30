package sessions

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"quantscope/analysis/bias"
	"quantscope/analysis/tier"
	"quantscope/analysis/yardstick"
)

// TestWindowPayload: every window comes back bit for bit; no part of a payload passes
// for a whole one; what no window holds is refused.
func TestWindowPayload(t *testing.T) {
	count := rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, math.MaxInt32))
	long := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, math.MaxInt64))
	rapid.Check(t, func(rt *rapid.T) {
		n := func() int { return count.Draw(rt, "n") }
		w := &tier.Window{Budget: n(), Index: n(), First: n(), Tokens: n(), Pairs: long.Draw(rt, "pairs"), Hits: long.Draw(rt, "hits"), Promoted: n(), Evicted: n(), Churn: long.Draw(rt, "churn"),
			Hot: n(), HotBytes: long.Draw(rt, "bytes"), Held: n()}
		for range rapid.IntRange(0, 5).Draw(rt, "layers") {
			w.PerLayer = append(w.PerLayer, n())
		}
		for range rapid.IntRange(0, 4).Draw(rt, "moves") {
			w.Moves = append(w.Moves, tier.Move{Layer: n(), Expert: n(), Up: rapid.Bool().Draw(rt, "up"), Score: math.Float64frombits(rapid.Uint64().Draw(rt, "score"))})
		}
		run := n()
		p, err := encodeWindow(nil, run, w)
		if err != nil {
			rt.Fatal(err)
		}
		back, got, err := decodeWindow(p)
		if err != nil || back != run {
			rt.Fatalf("run %d: %v", back, err)
		}
		for i := range w.Moves { // NaNs of one kind are one another's equals only by their bits
			if math.Float64bits(w.Moves[i].Score) != math.Float64bits(got.Moves[i].Score) {
				rt.Fatalf("score %x is read as %x", math.Float64bits(w.Moves[i].Score), math.Float64bits(got.Moves[i].Score))
			}
			got.Moves[i].Score = w.Moves[i].Score
		}
		if diff := cmp.Diff(w, got, sameBits); diff != "" {
			rt.Fatal(diff)
		}
		for n := range p {
			if _, _, err := decodeWindow(p[:n]); err == nil {
				rt.Fatalf("%d of %d bytes pass for a whole payload", n, len(p))
			}
		}
		if _, _, err := decodeWindow(append(p, 0)); !errors.Is(err, errWindowTrailed) {
			rt.Fatal("a byte too many passes")
		}
	})
	for what, change := range map[string]func(w *tier.Window){
		"index": func(w *tier.Window) { w.Index = -1 }, "pairs": func(w *tier.Window) { w.Pairs = -1 }, "held": func(w *tier.Window) { w.Held = -2 },
		"layer": func(w *tier.Window) { w.PerLayer[1] = -1 }, "expert": func(w *tier.Window) { w.Moves[0].Expert = -1 }, "move": func(w *tier.Window) { w.Moves[1].Layer = -5 },
	} {
		w := madeUpWindow(0, 1)
		change(w)
		if _, err := newWindowEvent(0, w); err == nil || !strings.Contains(err.Error(), "cannot be recorded") {
			t.Errorf("a negative %s: %v", what, err)
		}
	}
	if _, err := newWindowEvent(-1, madeUpWindow(0, 0)); err == nil {
		t.Error("a window of run -1")
	}
}

// A payload that claims what it has not the bytes for takes no memory.
func TestWindowClaims(t *testing.T) {
	head := []byte{windowVersion, 0, 0, 0, 0, 8, 48, 3, 0, 0, 0, 0, 0, 0}
	for what, p := range map[string][]byte{
		"layers": binary.AppendUvarint(bytes.Clone(head), math.MaxInt32),
		"moves":  binary.AppendUvarint(append(bytes.Clone(head), 0), 1<<30),
	} {
		allocs := testing.AllocsPerRun(5, func() {
			if _, _, err := decodeWindow(p); !errors.Is(err, errWindowShort) {
				t.Errorf("%s: %v", what, err)
			}
		})
		if allocs > 4 {
			t.Errorf("%s: %g allocations", what, allocs)
		}
	}
	if _, _, err := decodeWindow([]byte{2}); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("%v", err)
	}
}

// What JSON writes into the struct that embeds it, is put back there.
func TestExactInEmbedded(t *testing.T) {
	e, err := newBiasEvent(EventBiasFound, &biasJSON{Run: 2, Row: &bias.Row{Part: bias.MLP, Flow: bias.Flow{Rel: math.Inf(1), Gain: math.NaN(), Bias: -0.5}}})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := unpack(e.payload)
	if err != nil || !bytes.Contains(doc, []byte(`"/row/rel_l2":"Infinity"`)) || !bytes.Contains(doc, []byte(`"/row/gain":"NaN"`)) {
		t.Errorf("%s, %v", doc, err)
	}
	if r := e.bias.Row; !math.IsInf(r.Rel, 1) || !math.IsNaN(r.Gain) || r.Bias != -0.5 {
		t.Errorf("%+v", r)
	}
}

// lookEvents are events of a look and of a tier, whole ones, and the kinds that they
// may be taken for.
func lookEvents(t testing.TB) []stored {
	t.Helper()
	var out []stored
	add := func(e stored, err error) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e)
	}
	add(newBiasEvent(EventBias, &biasJSON{Message: "m", Setup: biasSetup()}))
	for _, f := range madeUpFound()[:9] {
		add(newBiasEvent(EventBiasFound, &biasJSON{Weights: f.Weights, Row: f.Row, Divergence: f.Divergence}))
	}
	add(newBiasEvent(EventBiasEnd, &biasJSON{End: &bias.End{State: "finished"}}))
	add(newTierEvent(EventTier, &tierJSON{Message: "m", Setup: tierSetup()}))
	add(newWindowEvent(0, madeUpWindow(0, 0)))
	add(newWindowEvent(0, madeUpWindow(0, 1)))
	end := tierEnd(tierSetup())
	end.State = "finished"
	add(newTierEvent(EventTierEnd, &tierJSON{End: end}))
	return out
}

var lookKinds = []EventKind{EventBias, EventBiasFound, EventBiasEnd, EventTier, EventWindow, EventMoves, EventTierEnd}

// FuzzLookPayload: whatever a file holds is taken or refused; what is taken can be asked
// about, and recorded again.
func FuzzLookPayload(f *testing.F) {
	for _, e := range lookEvents(f) {
		for i, k := range lookKinds {
			if k != e.Kind {
				continue
			}
			f.Add(uint8(i), e.payload)
			f.Add(uint8(i), e.payload[:len(e.payload)/2])
			if doc, err := unpack(e.payload); err == nil && len(doc) > 0 && doc[0] == '{' {
				f.Add(uint8(i), doc)
				f.Add(uint8(i), bytes.ReplaceAll(doc, []byte("1"), []byte("-1")))
				f.Add(uint8(i), bytes.ReplaceAll(doc, []byte("[]"), []byte("null")))
			}
		}
	}
	f.Add(uint8(1), []byte(`{"row":{},"nonfinite":{"/row/rel_l2":"NaN"}}`))
	f.Add(uint8(6), []byte(`{"end":{"state":"finished","results":[null]}}`))
	first := lookEvents(f)
	f.Fuzz(func(t *testing.T, kind uint8, p []byte) {
		var book books
		st := &State{}
		for _, i := range []int{0, 11} {
			e := first[i]
			if err := book.place(&e, 0); err != nil {
				t.Fatal(err)
			}
			st.takeBias(&e)
			st.takeTier(&e)
		}
		e := stored{Event: Event{Kind: lookKinds[int(kind)%len(lookKinds)], Variant: -1, Tensor: -1}, payload: p}
		if decodeEvent(&e) != nil || book.place(&e, 0) != nil {
			return
		}
		st.takeBias(&e)
		st.takeTier(&e)
		for _, b := range st.Biases {
			_ = b.Analyze()
		}
		for _, name := range append(st.TierMaps(), "25%", "0/50%") {
			if text, ok := st.TierMap(name); ok && text == "" {
				t.Errorf("an empty map %q", name)
			}
		}
	})
}

// Events that do not fit their run are left out and said, all others are read.
func TestLookDamage(t *testing.T) {
	whole := lookSession(t)
	row := func(change func(r *bias.Row)) *biasJSON {
		r := &bias.Row{Candidate: 1, Layer: 2, Part: bias.Residual}
		change(r)
		return &biasJSON{Run: 1, Row: r}
	}
	window := func(change func(w *tier.Window)) *tierJSON {
		w := madeUpWindow(1, 9)
		change(w)
		return &tierJSON{Run: 1, window: w}
	}
	end := func(change func(e *tier.End)) *tierJSON {
		e := tierEnd(tierSetup())
		e.State = "finished"
		change(e)
		return &tierJSON{Run: 1, End: e}
	}
	setup := func(change func(s *tier.Setup)) *tierJSON {
		s := tierSetup()
		change(s)
		return &tierJSON{Run: 2, Setup: s}
	}
	two := sessionPathOf(t, whole) // with a second look and tier that have not ended
	for what, d := range map[string]struct {
		kind EventKind
		doc  any
	}{
		"a look that never began":          {EventBiasFound, &biasJSON{Run: 7, Row: &bias.Row{Part: bias.MLP}}},
		"a look that began twice":          {EventBias, &biasJSON{Run: 1, Setup: biasSetup()}},
		"a look of no candidates":          {EventBias, &biasJSON{Run: 2, Setup: &bias.Setup{Layers: 1}}},
		"a look of too many layers":        {EventBias, &biasJSON{Run: 2, Setup: &bias.Setup{Candidates: make([]yardstick.Party, 1), Layers: maxDepth + 1}}},
		"a candidate there is not":         {EventBiasFound, row(func(r *bias.Row) { r.Candidate = 2 })},
		"a layer there is not":             {EventBiasFound, row(func(r *bias.Row) { r.Layer = 3 })},
		"a part there is not":              {EventBiasFound, row(func(r *bias.Row) { r.Part = "head" })},
		"negative positions":               {EventBiasFound, row(func(r *bias.Row) { r.Positions = -1 })},
		"weights of nobody":                {EventBiasFound, &biasJSON{Run: 1, Weights: &bias.Weights{Candidate: -1}}},
		"a divergence of nobody":           {EventBiasFound, &biasJSON{Run: 1, Divergence: &bias.Divergence{Candidate: 5}}},
		"two things at once":               {EventBiasFound, &biasJSON{Run: 1, Row: &bias.Row{Part: bias.MLP}, End: &bias.End{State: "finished"}}},
		"a look with an unknown end":       {EventBiasEnd, &biasJSON{Run: 1, End: &bias.End{State: "over"}}},
		"nothing of what it says":          {EventBiasEnd, row(func(*bias.Row) {})},
		"a tier that never began":          {EventWindow, &tierJSON{Run: 7, window: madeUpWindow(0, 0)}},
		"a tier that began twice":          {EventTier, &tierJSON{Run: 1, Setup: tierSetup()}},
		"a tier without experts":           {EventTier, setup(func(s *tier.Setup) { s.Shape.Experts = 0 })},
		"a tier with too many experts":     {EventTier, setup(func(s *tier.Setup) { s.Shape.Experts = 1 << 30 })},
		"a tier without budgets":           {EventTier, setup(func(s *tier.Setup) { s.Budgets = nil })},
		"a trace there is not":             {EventTier, setup(func(s *tier.Setup) { s.Trace = 3 })},
		"a budget there is not":            {EventMoves, window(func(w *tier.Window) { w.Budget = 2 })},
		"a window before the last":         {EventMoves, window(func(w *tier.Window) { w.Index = 1 })},
		"a budget before the last":         {EventMoves, window(func(w *tier.Window) { w.Budget = 0 })},
		"more hits than pairs":             {EventMoves, window(func(w *tier.Window) { w.Hits = 49 })},
		"other layers":                     {EventMoves, window(func(w *tier.Window) { w.PerLayer = []int{3} })},
		"more hot experts than there are":  {EventMoves, window(func(w *tier.Window) { w.PerLayer, w.Hot = []int{5, 0, 0}, 5 })},
		"hot experts that do not add up":   {EventMoves, window(func(w *tier.Window) { w.Hot = 4 })},
		"a move in a layer without any":    {EventMoves, window(func(w *tier.Window) { w.Moves[0].Layer = 3 })},
		"a move of an expert there is not": {EventMoves, window(func(w *tier.Window) { w.Moves[1].Expert = 4 })},
		"more moves than experts can make": {EventMoves, window(func(w *tier.Window) { w.Moves = slices.Repeat([]tier.Move{{Layer: 1}}, 2*tierSetup().Shape.Total()+1) })},
		"moves in a window without":        {EventWindow, window(func(*tier.Window) {})},
		"a tier with an unknown end":       {EventTierEnd, end(func(e *tier.End) { e.State = "over" })},
		"a result of no budget":            {EventTierEnd, end(func(e *tier.End) { e.Results[0].Budget = 2 })},
		"a result of other layers":         {EventTierEnd, end(func(e *tier.End) { e.Results[0].PerLayer = nil })},
		"a map of other layers":            {EventTierEnd, end(func(e *tier.End) { e.Results[0].Map.Layers[0].Layer = 0 })},
		"a map of other experts":           {EventTierEnd, end(func(e *tier.End) { e.Results[1].Controls[0].Map.Layers[1].Hot = []int{4} })},
		"a curve that is none":             {EventTierEnd, end(func(e *tier.End) { e.Curve.Hits = nil })},
		"a curve that goes back":           {EventTierEnd, end(func(e *tier.End) { slices.Reverse(e.Curve.Share) })},
	} {
		path := copySession(t, two)
		before := openState(t, path)
		addLook(t, path, d.kind, d.doc)
		st := openState(t, path)
		last := st.Log[len(st.Log)-1]
		if last.Kind != EventFinding || !strings.Contains(last.Message, "events left out: 1") {
			t.Errorf("%s: %+v", what, last)
			continue
		}
		st.Log, st.LastSeq, st.LastUS = st.Log[:len(st.Log)-1], before.LastSeq, before.LastUS
		diffStates(t, before, st)
		if err := tierOn(t, openFeed(t, path), newFakeLooks()); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: gone on with: %v", what, err)
		}
	}
	// Without its beginning a tier is not there, and the one after it is.
	path := copySession(t, whole)
	if err := tierOn(t, openFeed(t, path), newFakeLooks()); err != nil {
		t.Fatal(err)
	}
	execSQL(t, path, "update events set crc = crc + 1 where seq = (select min(seq) from events where kind = 'tier')")
	if st := openState(t, path); len(st.Tiers) != 1 || len(st.Tiers[0].Windows) != 10 || len(st.Biases) != 1 {
		t.Errorf("%d tiers", len(st.Tiers))
	}
}

// sessionPathOf is a copy of a session, with a look and a tier beside those that it has,
// which nobody ended.
func sessionPathOf(t *testing.T, whole string) string {
	t.Helper()
	path := copySession(t, whole)
	addLook(t, path, EventBias, &biasJSON{Run: 1, Setup: biasSetup()})
	addLook(t, path, EventBiasFound, &biasJSON{Run: 1, Row: &bias.Row{Part: bias.MLP}})
	addLook(t, path, EventTier, &tierJSON{Run: 1, Setup: tierSetup()})
	addLook(t, path, EventMoves, &tierJSON{Run: 1, window: madeUpWindow(1, 3)})
	return path
}

// addLook appends an event to a session, with a sum that is right.
func addLook(t *testing.T, path string, kind EventKind, doc any) {
	t.Helper()
	var payload []byte
	var err error
	if d, ok := doc.(*tierJSON); ok && d.window != nil {
		payload, err = encodeWindow(nil, d.Run, d.window)
	} else {
		payload, err = newDoc(kind, doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	seq := openState(t, path).LastSeq + 1
	crc := eventSum(seq, 1<<40, -1, -1, string(kind), payload)
	execSQL(t, path, fmt.Sprintf("insert into events values (%d, %d, '%s', -1, -1, x'%x', %d)", seq, int64(1)<<40, kind, payload, crc))
}

// What a run tells that cannot be read again ends it, and what came before stays.
func TestLookRecordsNothingThatIsRefused(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	feed := openFeed(t, path)
	f := newFakeLooks()
	r := f.tierRequest(feed)
	feed.(*savedFeed).looks.tier = func(ctx context.Context, s *tier.Setup, tr *tier.Trace, o tier.Options, sink tier.Sink) (*tier.End, error) {
		if err := sink(madeUpWindow(0, 0)); err != nil {
			return nil, err
		}
		return nil, sink(madeUpWindow(0, 0)) // the same again
	}
	if err := feed.(Tierer).Tier(t.Context(), r); err == nil || !strings.Contains(err.Error(), "window 0 of budget 0 after window 0 of budget 0") {
		t.Fatal(err)
	}
	st := openState(t, path)
	if tr := st.Tiers[0]; len(tr.Windows) != 1 || tr.End.State != string(RunStopped) || st.Log[len(st.Log)-1].Kind != EventTierEnd {
		t.Errorf("%+v", tr)
	}
}

// Tables that another program changed are made anew from the events.
func TestLookTablesAreRebuilt(t *testing.T) {
	path := lookSession(t)
	want := dumpTables(t, path)
	if !strings.Contains(want, "tier_moves") || !strings.Contains(want, "bias_tensors") || !strings.Contains(want, "v_tier") {
		t.Fatal("there is nothing in the tables")
	}
	for _, change := range []string{
		"delete from bias_rows where layer = 1", "delete from bias_weights", "delete from bias_candidates", "delete from bias_runs", "delete from bias_kl",
		"delete from tier_windows where budget = 1", "delete from tier_moves where window = 2", "delete from tier_budgets", "delete from tier_runs", "drop table tier_moves",
	} {
		p := copySession(t, path)
		execSQL(t, p, change)
		job, _ := fakeJob(4)
		runJob(t, job, p, "f1")
		got := dumpTables(t, p)
		if strings.Count(got, "\n") < strings.Count(want, "\n") || !strings.Contains(got, "tier_moves") {
			t.Errorf("%s: the tables are not made anew", change)
		}
		if table := strings.Fields(change)[2]; countLines(got, table) != countLines(want, table) {
			t.Errorf("%s: %d rows, were %d", change, countLines(got, table), countLines(want, table))
		}
	}
	rows := map[string]string{}
	query(t, path, "select 'hits', round(hit_share, 6) || ' ' || coverage || ' ' || budget_bytes from v_tier where budget = 1 and window = 2 union all "+
		"select 'row', candidate_name || ' ' || shift || ' ' || (gain is null) from v_bias where candidate = 1 and layer = 2 and part = 'residual' union all "+
		"select 'result', hits_random || ' ' || (hits_hindsight is null) || ' ' || beside_bytes from tier_budgets where id = 0 union all "+
		"select 'run', knee || ' ' || verdict || ' ' || state from tier_runs union all select 'books', codebooks from bias_weights where candidate = 0 and layer = -1", func(row []driver.Value) { rows[row[0].(string)] = sqlText(row[1]) })
	if diff := cmp.Diff(map[string]string{"hits": "0.25 0.25 500", "row": "code2+sym 0.2 1", "result": "0.25 1 900", "run": "0.25 it breathes finished", "books": "-6 -1 0 3: 1; -3 -1 1 3: 1"}, rows); diff != "" {
		t.Error(diff)
	}
}

func countLines(dump, table string) (n int) {
	for _, l := range strings.Split(dump, "\n") {
		if strings.HasPrefix(l, table+" ") {
			n++
		}
	}
	return n
}

func init() {
	childVerbs["tierhold"] = func(path string) error { // tells 7 windows, and stays
		f, err := OpenSession(path)
		if err != nil {
			return err
		}
		fake := newFakeLooks()
		fake.tells = func(n int) {
			if n == 7 {
				_, _ = os.Stdin.Read(make([]byte, 1)) // until the parent lets go
			}
		}
		r := fake.tierRequest(f)
		ended := make(chan error, 1)
		go func() { ended <- f.(Tierer).Tier(context.Background(), r) }()
		st := f.Snapshot()
		for {
			b, err := f.Next(context.Background(), 0)
			if err != nil {
				return err
			}
			st.Apply(b)
			if len(st.Tiers) > 0 {
				fmt.Println("done", len(st.Tiers[0].Windows))
				if st.Tiers[0].End != nil {
					return errors.Join(<-ended, f.Close())
				}
			}
		}
	}
}

// A process that is killed leaves the windows that it told of; a reader alongside sees
// them come; the next run is one of its own.
func TestTierIsKilled(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	p := startChild(t, "tierhold "+path)
	if !p.until(7) {
		t.Fatal("the child tells nothing")
	}
	f := openFeed(t, path)
	if f.Mode() != Follow {
		t.Errorf("mode %v", f.Mode())
	}
	st := f.Snapshot()
	until(t, f, st, func() bool { return len(st.Tiers) == 1 && len(st.Tiers[0].Windows) == 7 })
	if err := f.(Tierer).Tier(t.Context(), newFakeLooks().tierRequest(f)); !errors.As(err, new(*BusyError)) {
		t.Errorf("a tier in a session that another process writes: %v", err)
	}
	if err := p.kill(); err == nil {
		t.Fatal("the child was not killed")
	}
	fresh := openState(t, path)
	if tr := fresh.Tiers[0]; len(tr.Windows) != 7 || tr.End != nil || len(tr.Windows[6].Moves) != 2 {
		t.Errorf("%d windows are left, %+v", len(tr.Windows), tr.End)
	}
	if !reflect.DeepEqual(fresh.Tiers[0].Setup, st.Tiers[0].Setup) {
		t.Error("a reader alongside saw another setup")
	}
	if err := tierOn(t, openFeed(t, path), newFakeLooks()); err != nil {
		t.Fatal(err)
	}
	if fresh = openState(t, path); len(fresh.Tiers) != 2 || len(fresh.Tiers[0].Windows) != 7 || len(fresh.Tiers[1].Windows) != 10 {
		t.Errorf("%d runs", len(fresh.Tiers))
	}
}
