package sessions

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"quantscope/analysis/compare"
	"quantscope/analysis/landscape"
	"quantscope/kernels"
)

// twoSessions are sessions of one source: the first over tensors 0 … 39 with f1
// and f2, the second over 20 … 59 with f2 and f3.
func twoSessions(t testing.TB) (a, b string) {
	t.Helper()
	a, b = sessionPath(t), sessionPath(t)
	job, _ := fakeJob(60)
	job.Tensors = job.Tensors[:40]
	runJob(t, job, a, "f1", "f2")
	job, src := fakeJob(60)
	job.Tensors = slices.Clone(job.Tensors[20:])
	for i := range job.Tensors {
		job.Tensors[i].ID = i
	}
	job.Source = &shifted{src, 20}
	runJob(t, job, b, "f2", "f3")
	return a, b
}

// shifted is a source whose tensor t is tensor t + by of another.
type shifted struct {
	*fakeSource
	by int
}

func (s *shifted) Need(t int) int { return s.fakeSource.Need(t + s.by) }

func (s *shifted) Read(ctx context.Context, t int, buf []byte) (kernels.Matrix, error) {
	return s.fakeSource.Read(ctx, t+s.by, buf)
}

func TestJoin(t *testing.T) {
	pathA, pathB := twoSessions(t)
	a, b := openState(t, pathA), openState(t, pathB)
	before := [2]*State{a.Clone(), b.Clone()}
	s, err := Join(a, b, "run2")
	if err != nil {
		t.Fatal(err)
	}
	diffStates(t, before[0], a)
	diffStates(t, before[1], b)
	var names []string
	for i, v := range s.Variants {
		names = append(names, v.Name)
		if v.ID != i {
			t.Errorf("variant %d has ID %d", i, v.ID)
		}
	}
	if got := strings.Join(names, ", "); got != "f1, f2, f2 @ run2, f3 @ run2" {
		t.Errorf("variants %s", got)
	}
	if v := &s.Variants[2]; v.Plain() != "f2" || v.From != "run2" || s.Variants[1].Plain() != "f2" || s.Variants[1].From != "" {
		t.Errorf("%+v", v)
	}
	if got := Summarize(s, 2); got.Variant != "f2 @ run2" || got.Effective != got.Variant {
		t.Errorf("what ran: %q as %q", got.Variant, got.Effective)
	}
	if len(s.Tensors) != 20 {
		t.Fatalf("%d tensors, want the 20 that both have", len(s.Tensors))
	}
	for i := range s.Tensors {
		if s.Tensors[i].ID != i || s.Tensors[i].Name != a.Tensors[20+i].Name {
			t.Errorf("tensor %d is %+v", i, s.Tensors[i])
		}
		for v, want := range []*Record{&a.Records[0][20+i], &a.Records[1][20+i], &b.Records[0][i], &b.Records[1][i]} {
			got := s.Records[v][i]
			if got.Rel2 != want.Rel2 || got.Weights != want.Weights || got.Variant != v || got.Tensor != i {
				t.Errorf("variant %d, tensor %d: %+v", v, i, got)
			}
		}
	}
	if p := s.Progress; p.Done != 80 || p.Total != 80 || p.Failed != 0 || p.State != RunFinished {
		t.Errorf("%+v", p)
	}
	last := s.Log[len(s.Log)-1]
	if want := fmt.Sprintf("20 tensors in both; 20 only in %s and 20 only in %s are left out", pathA, pathB); last.Message != want {
		t.Errorf("log ends with %q, want %q", last.Message, want)
	}
	seen := map[int64]bool{}
	for _, e := range s.Log {
		if seen[e.Seq] || e.Seq > s.LastSeq || e.Variant >= 4 || e.Tensor >= 20 {
			t.Errorf("event %+v", e)
		}
		seen[e.Seq] = true
	}
}

// TestJoinNames: a session joined with itself, twice, has no name twice.
func TestJoinNames(t *testing.T) {
	job, _ := fakeJob(4)
	path := sessionPath(t)
	runJob(t, job, path, "f1")
	a := openState(t, path)
	once, err := Join(a, a, "x")
	if err != nil {
		t.Fatal(err)
	}
	twice, err := Join(once, a, "x")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range twice.Variants {
		names = append(names, twice.Variants[i].Name+"="+twice.Variants[i].Plain())
	}
	if got := strings.Join(names, "; "); got != "f1=f1; f1 @ x=f1; f1 @ x (2)=f1" {
		t.Errorf("variants %s", got)
	}
}

// TestJoinRefuses: what is not of one source is refused, and both are named.
func TestJoinRefuses(t *testing.T) {
	pathA, pathB := twoSessions(t)
	for name, c := range map[string]struct {
		change func(a, b *State)
		want   string
	}{
		"identity": {func(_, b *State) { b.Meta.SourceIdentity, b.Meta.SourcePath = "fedcba9876543210", "other" },
			"its source is other (fedcba987654), and fake (0123456789ab) there"},
		"weights": {func(a, b *State) {
			a.Records[0][25].Weights, a.Records[1][25].Weights = 1, 1
			b.Records[0][5].Weights, b.Records[1][5].Weights = 2, 2
		}, `weights of tensor "model.layers.1.mlp.experts.9.up_proj.weight" have digest 0000000000000002, and 0000000000000001 there`},
		"shape":   {func(_, b *State) { b.Tensors[0].Rows = 16 }, `tensor "model.layers.1.mlp.experts.4.up_proj.weight" is BF16 16×32, and BF16 8×32 there`},
		"dtype":   {func(_, b *State) { b.Tensors[0].DType = "F32" }, `is F32 8×32, and BF16 8×32 there`},
		"targets": {func(_, b *State) { b.Tensors = b.Tensors[20:] }, "they have no tensor in common (20 tensors and 40 tensors)"},
	} {
		a, b := openState(t, pathA), openState(t, pathB)
		c.change(a, b)
		var join *JoinError
		_, err := Join(a, b, "x")
		if !errors.As(err, &join) || !strings.Contains(err.Error(), c.want) || join.A != pathA || join.B != pathB || !strings.Contains(err.Error(), pathA) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if _, err := Comparison(a, 0, b, 0, Metrics()[0]); !errors.As(err, &join) {
			t.Errorf("%s: compared: %v", name, err)
		}
	}
	// What is not known contradicts nothing.
	a, b := openState(t, pathA), openState(t, pathB)
	b.Meta.SourceIdentity = ""
	for v := range b.Records {
		for i := range b.Records[v] {
			b.Records[v][i].Weights, b.Records[v][i].WeightsSHA = 0, 0
		}
	}
	if _, err := Join(a, b, "x"); err != nil {
		t.Errorf("without digests: %v", err)
	}
}

// TestJoinedFeed: what is asked of a tensor goes to the session that measured it.
func TestJoinedFeed(t *testing.T) {
	pathA, pathB := twoSessions(t)
	f, err := OpenJoined(pathA, pathB, "run2")
	if err != nil {
		t.Fatal(err)
	}
	s := f.Snapshot()
	if f.Mode() != Saved || len(s.Variants) != 4 {
		t.Errorf("mode %v, %d variants", f.Mode(), len(s.Variants))
	}
	for v := range s.Variants {
		for i := range s.Tensors {
			tap, err := f.Detail(t.Context(), v, i)
			if err != nil {
				t.Fatal(err)
			}
			if got := tap.SumE2 / tap.SumW2; math.Abs(got-s.Records[v][i].Rel2) > 1e-12 {
				t.Fatalf("variant %d, tensor %d: rel2 %v of the detail, %v of the record", v, i, got, s.Records[v][i].Rel2)
			}
		}
	}
	for _, p := range [][2]int{{-1, 0}, {4, 0}, {0, -1}, {0, 20}} {
		if _, err := f.Detail(t.Context(), p[0], p[1]); err == nil || !strings.Contains(err.Error(), "20 tensors, 4 variants") {
			t.Errorf("variant %d, tensor %d: %v", p[0], p[1], err)
		}
	}
	if _, err := f.RowErrors(t.Context(), 3, 0); err == nil || !strings.Contains(err.Error(), "fake") {
		t.Errorf("rows of a source that is gone: %v", err)
	}
	closed := false
	for !closed {
		b, err := f.Next(t.Context(), time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		s.Apply(b)
		closed = b.Closed
	}
	if s.Progress.State != RunFinished || s.Progress.Done != 80 {
		t.Errorf("%+v", s.Progress)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Next(ended, time.Millisecond); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// scripted is a feed that says what it is told to.
type scripted struct {
	Feed
	state   *State
	batches chan Batch
}

func (s *scripted) Mode() Mode       { return Follow }
func (s *scripted) Snapshot() *State { return s.state }
func (s *scripted) Close() error     { return nil }
func (s *scripted) Next(ctx context.Context, _ time.Duration) (Batch, error) {
	select {
	case b := <-s.batches:
		return b, nil
	case <-ctx.Done():
		return Batch{}, ctx.Err()
	}
}

// TestJoinedFeedFollows: batches of both sides, a new variant among them, bring
// the joined state to where Join gets with the final ones.
func TestJoinedFeedFollows(t *testing.T) {
	pathA, pathB := twoSessions(t)
	endA, endB := openState(t, pathA), openState(t, pathB)
	// The second session has its second variant, and the first its last records, only later.
	startA, startB := endA.Clone(), endB.Clone()
	startB.Variants, startB.Records = startB.Variants[:1], startB.Records[:1]
	startB.Log = slices.DeleteFunc(startB.Log, func(e Event) bool { return e.Variant == 1 })
	again := startA.Records[0][30] // measured anew: it counts once
	again.Seq = endA.LastSeq + 1
	late := Batch{Records: []Record{again}, Progress: endA.Progress, LastSeq: endA.LastSeq + 5, LastUS: endA.LastUS, Closed: true}
	for i := range startA.Records[1] {
		late.Records = append(late.Records, startA.Records[1][i])
		startA.Records[1][i] = Record{}
	}
	added := Batch{Variants: endB.Variants[1:], Records: endB.Records[1], Progress: endB.Progress, LastSeq: endB.LastSeq + 7, LastUS: endB.LastUS, Closed: true}

	a, b := &scripted{state: startA, batches: make(chan Batch, 1)}, &scripted{state: startB, batches: make(chan Batch, 1)}
	f, err := JoinFeeds(a, b, "run2")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Snapshot()
	if f.Mode() != Follow || len(s.Variants) != 3 || s.Progress.Done != 40 || s.Progress.Total != 60 {
		t.Fatalf("mode %v, %d variants, %+v", f.Mode(), len(s.Variants), s.Progress)
	}
	a.batches <- late
	seq := s.LastSeq
	batch, err := f.Next(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if s.Apply(batch); s.LastSeq <= seq || batch.Closed || s.Progress.Done != 60 {
		t.Errorf("after the first: %d events, closed %v, %+v", s.LastSeq, batch.Closed, s.Progress)
	}
	b.batches <- added
	if batch, err = f.Next(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if s.Apply(batch); !batch.Closed || s.Progress.Done != 80 || s.Progress.Total != 80 {
		t.Errorf("after the second: closed %v, %+v", batch.Closed, s.Progress)
	}
	endA.Records[0][30] = again
	want, err := Join(endA, endB, "run2")
	if err != nil {
		t.Fatal(err)
	}
	want.LastSeq, want.Log, s.Log = s.LastSeq, nil, nil
	diffStates(t, want, s)
}

func TestJoinedFeedRefusesReplays(t *testing.T) {
	path, _ := twoSessions(t)
	saved, err := OpenSession(path)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	replay, err := OpenReplay(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	if _, err := JoinFeeds(saved, replay, "x"); err == nil || !strings.Contains(err.Error(), "replay") {
		t.Errorf("error %v", err)
	}
}

// TestComparisonOfSessions: the input has the tensors of both, paired by name,
// with the state that each side is in.
func TestComparisonOfSessions(t *testing.T) {
	pathA, pathB := twoSessions(t)
	a, b := openState(t, pathA), openState(t, pathB)
	a.Records[0][20], b.Records[0][1] = Record{}, Record{Seq: 3, Failed: true}
	a.Records[0][22].Rel2 = math.NaN()
	by, err := MetricByName("rel2")
	if err != nil {
		t.Fatal(err)
	}
	in, err := Comparison(a, 0, b, 0, by)
	if err != nil {
		t.Fatal(err)
	}
	if in.A.Alone != 20 || in.B.Alone != 20 || in.A.Variant != "f1" || in.B.Variant != "f2" || in.A.Session != pathA || in.B.Session != pathB {
		t.Errorf("%+v %+v", in.A, in.B)
	}
	if in.A.States[0] != landscape.Pending || in.B.States[1] != landscape.Failed || in.A.Bytes[0] != -1 {
		t.Errorf("states %v %v, bytes %v", in.A.States[0], in.B.States[1], in.A.Bytes[0])
	}
	r, err := compare.Run(in, 3)
	if err != nil {
		t.Fatal(err)
	}
	if r.Tensors != 20 || r.Pairs != 17 || r.Pending != 1 || r.Failed != 1 || r.NotFinite != 1 || !strings.Contains(r.Size.Why, "how f1 stores") {
		t.Errorf("%+v", r)
	}
	if got, want := in.A.Values[5], a.Records[0][25].Rel2; got != want {
		t.Errorf("figure %v, want %v", got, want)
	}
	if _, err := MetricByName("rel3"); err == nil || !strings.Contains(err.Error(), "rel_l2, rel2, cos") {
		t.Errorf("error %v", err)
	}
}
