package sessions

import (
	"bytes"
	"database/sql/driver"
	"encoding/csv"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"quantscope/kernels"
)

// Codebooks of two biases: −6 −1 0 3, and the largest magnitudes.
const (
	bookA = 1<<15 | 1<<10 | 1<<0 | 1<<5
	bookB = 1<<15 | 1<<14 | 1<<6 | 1<<7
)

// madeUpBias is the sign bias of tensor n.
func madeUpBias(n int) kernels.Bias {
	b := kernels.Bias{SumErr: float64(1-2*(n%2)) * 0.5 * float64(n+1), SumAbsW: 8, Rows: 4, Positive: int64(n), SumRow2: 0.01, RowMax: 0.125, Codebook: bookA, L2: 0.0625, Sym: 0.09375}
	if n == 3 {
		b.Codebook, b.Sym = bookB, math.NaN()
	}
	return b
}

// biasSession is a session whose records under f2 have a bias, and under f1 none.
func biasSession(t *testing.T) string {
	t.Helper()
	path := sessionPath(t)
	job, src := fakeJob(4)
	parse := job.Parse
	job.Parse = func(name string) (Quantizer, error) {
		q, err := parse(name)
		measure := q.Measure
		if name == "f2" {
			q.Measure = func(m kernels.Matrix) (Measurement, error) {
				x, err := measure(m)
				for i := range src.tensors { // it is told by its weights which one it is
					w := make([]byte, src.Need(i))
					if own, e := src.Read(t.Context(), i, w); e == nil && bytes.Equal(own.Data, m.Data) {
						x.Tap.HasBias, x.Tap.Bias = true, madeUpBias(i)
					}
				}
				return x, err
			}
		}
		return q, err
	}
	runJob(t, job, path, "f1", "f2")
	return path
}

// What a record says of its sign bias is in the state, in tables, in the exports and in
// the summary, and nothing stands there of formats without a codebook.
func TestRecordedBias(t *testing.T) {
	path := biasSession(t)
	st := openState(t, path)
	for i := range st.Tensors {
		if r := st.Records[0][i]; !math.IsNaN(r.Bias) || !math.IsNaN(r.RowBias) || !math.IsNaN(r.RowBiasMax) || !math.IsNaN(r.L2) || r.Codebook != 0 {
			t.Errorf("a bias without a codebook: %+v", r)
		}
		r, b := st.Records[1][i], madeUpBias(i)
		if r.Bias != b.SumErr/8 || r.RowBias != 0.05 || r.RowBiasMax != 0.125 || r.L2 != 0.0625 || r.Codebook != b.Codebook || math.IsNaN(r.Sym) != (i == 3) {
			t.Errorf("tensor %d: %+v", i, r)
		}
		tap, err := openFeed(t, path).Detail(t.Context(), 1, i)
		if err != nil || !tap.HasBias || tap.Bias.Positive != int64(i) || tap.Bias.SumErr != b.SumErr {
			t.Errorf("detail of tensor %d: %+v, %v", i, tap.Bias, err)
		}
		if other := r; other.sameFigures(&r) {
			other.Bias += 0.25
			if other.sameFigures(&r) {
				t.Error("another bias is the same")
			}
			other.Bias, other.Codebook = math.NaN(), 0 // as an older program recorded it
			if !other.sameFigures(&r) {
				t.Error("what an older record does not know is compared")
			}
		} else {
			t.Error("a record differs from itself")
		}
	}

	var rows []string
	query(t, path, "select tensor, sign_bias, row_bias_rms, row_bias_max, codebook, l2_rel2, sym_rel2 from v_taps order by variant, tensor", func(row []driver.Value) {
		rows = append(rows, sqlText(row[0])+" "+sqlText(row[1])+" "+sqlText(row[4])+" "+sqlText(row[6]))
	})
	want := []string{"0 null null null", "1 null null null", "2 null null null", "3 null null null",
		"0 0.0625 -6 -1 0 3 0.09375", "1 -0.125 -6 -1 0 3 0.09375", "2 0.1875 -6 -1 0 3 0.09375", "3 -0.25 -6 -4 4 6 null"}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Error(diff)
	}

	var b bytes.Buffer
	if err := ExportJSONL(t.Context(), &b, path); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, l := range lines {
		var x map[string]any
		if err := json.Unmarshal([]byte(l), &x); err != nil {
			t.Fatal(err)
		}
		_, has := x["sign_bias"]
		if has != (i >= 4) {
			t.Errorf("line %d: %v", i, has)
		}
		if has && (x["sign_bias"] != st.Records[1][i-4].Bias || x["codebook"] != CodebookText(st.Records[1][i-4].Codebook) || x["bias_rows"] != 4.0 || x["sum_abs_w"] != 8.0 || x["bias_rows_positive"] != float64(i-4) || (x["sym_rel2"] == "NaN") != (i == 7)) {
			t.Errorf("%s", l)
		}
	}
	b.Reset()
	if err := ExportCSV(t.Context(), &b, path); err != nil {
		t.Fatal(err)
	}
	table, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	bias, book := slices.Index(table[0], "sign_bias"), slices.Index(table[0], "codebook")
	if table[1][bias] != "" || table[1][book] != "" || table[5][bias] != "0.0625" || table[8][book] != "-6 -4 4 6" {
		t.Errorf("%q %q %q %q", table[1][bias], table[1][book], table[5][bias], table[8][book])
	}
	b.Reset()
	if err := ExportParquet(t.Context(), &b, path); err != nil {
		t.Fatal(err)
	}
	pq, err := parquet.Read[parquetRow](bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(pq) != 8 {
		t.Fatalf("%d rows: %v", len(pq), err)
	}
	if pq[0].Bias != nil || pq[0].Codebook != nil || *pq[5].Bias != -0.125 || *pq[7].Codebook != "-6 -4 4 6" || *pq[6].BiasPositive != 2 || !math.IsNaN(*pq[7].SymRel2) {
		t.Errorf("%+v", pq[7])
	}

	s := Summarize(st, 1)
	if float64(*s.SignBias) != (0.0625+0.125+0.1875+0.25)/4 || float64(*s.MeanBias) != (0.0625-0.125+0.1875-0.25)/4 || float64(*s.RowBias) != 0.05 {
		t.Errorf("%v %v %v", *s.SignBias, *s.MeanBias, *s.RowBias)
	}
	if diff := cmp.Diff([]CodebookUsed{{"-6 -1 0 3", 3}, {"-6 -4 4 6", 1}}, s.Codebooks); diff != "" {
		t.Error(diff)
	}
	if s := Summarize(st, 0); s.SignBias != nil || s.Codebooks != nil {
		t.Errorf("biases of a variant without codebooks: %+v", s)
	}
	d, err := json.Marshal(Summarize(st, 0))
	if err != nil || strings.Contains(string(d), "bias") || strings.Contains(string(d), "codebooks") {
		t.Errorf("%s, %v", d, err)
	}
}

// TestFormat6IsRead: a session of before there were biases and tiers opens as it is, and
// the first tier brings it to the present format with every record, score and answer as
// it was.
func TestFormat6IsRead(t *testing.T) {
	path := formatSession(t, "format6")
	before := openState(t, path)
	digest, err := Digest(t.Context(), path)
	if err != nil || before.Progress.Done != 10 || len(before.Recipes) != 1 || len(before.Yards) != 1 || len(before.Gates) != 1 || len(before.Gates[0].Results) != 2*gateAnswers {
		t.Fatalf("%+v, %v", before.Progress, err)
	}
	if len(before.Biases)+len(before.Tiers) != 0 || !math.IsNaN(before.Records[0][0].Bias) {
		t.Error("it has what it cannot have")
	}
	if err := tierOn(t, openFeed(t, path), newFakeLooks()); err != nil {
		t.Fatal(err)
	}
	if err := biasOn(t, openFeed(t, path), newFakeLooks()); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	if len(st.Tiers) != 1 || len(st.Tiers[0].Windows) != 2*tierWindows || len(st.Biases) != 1 {
		t.Errorf("%d tiers, %d looks", len(st.Tiers), len(st.Biases))
	}
	st.Tiers, st.Biases, st.Log, st.LastSeq, st.LastUS = nil, nil, st.Log[:len(before.Log)], before.LastSeq, before.LastUS
	diffStates(t, before, st)
	if now, err := Digest(t.Context(), path); err != nil || now != digest {
		t.Errorf("digest %s, before %s: %v", now, digest, err)
	}
	query(t, path, "select user_version || ' ' || (select count(*) from taps where sign_bias is null) || ' ' || (select count(*) from answers) || ' ' || (select count(*) from tier_windows) || ' ' || (select count(*) from tier_moves) || ' ' || (select count(*) from bias_rows) from pragma_user_version", func(row []driver.Value) {
		if got := sqlText(row[0]); got != "7 10 16 10 16 20" {
			t.Errorf("format, taps, answers, windows, moves, rows: %s", got)
		}
	})
}
