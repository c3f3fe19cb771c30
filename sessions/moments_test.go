package sessions

import (
	"bytes"
	"database/sql"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"quantscope/kernels"
)

// oldSession is a copy of a session of format 1: three matrices of the demo
// under two variants, with records that have no moments.
func oldSession(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile("testdata/format1.qscope")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.qscope")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// oldDigest is what the program that made the old session said of its records.
const oldDigest = "85a4b75ac58fa8e8f3ab188d1922a4b5bdb5a98dbc5518dd974599b1a20edf0a"

// TestFormat1IsRead: a session from before there were moments opens, says that it does
// not know them, and its records keep the digest that may have been quoted.
func TestFormat1IsRead(t *testing.T) {
	path := oldSession(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	if st.Progress.Done != 6 || len(st.Variants) != 2 {
		t.Fatalf("%+v", st.Progress)
	}
	for v := range st.Records {
		for _, r := range st.Records[v] {
			if !math.IsNaN(r.Std) || !math.IsNaN(r.Kurtosis) || !(r.Rel2 > 0) {
				t.Errorf("%+v", r)
			}
		}
	}
	for _, it := range st.Table().Items {
		if !math.IsNaN(it.Std) || !math.IsNaN(it.Kurtosis) || !(it.Amax > 0) {
			t.Errorf("%+v", it)
		}
	}
	if got, err := Digest(t.Context(), path); err != nil || got != oldDigest {
		t.Errorf("records have the digest %s, %v", got, err)
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Error("reading it changed it", err)
	}
	for _, format := range []string{"csv", "parquet"} {
		if err := ExportFile(t.Context(), path, path+"."+format, format, false); err != nil {
			t.Error(err)
		}
	}
	text, err := os.ReadFile(path + ".csv")
	if lines := strings.Split(string(text), "\n"); err != nil || !strings.HasSuffix(lines[0], ",std,kurtosis,sum_w,sum_w3,sum_w4,sign_bias,row_bias_rms,row_bias_max,codebook,l2_rel2,sym_rel2,sum_err,sum_abs_w,bias_rows,bias_rows_positive,out2,base_out2,base_rel2,damp_share,tokens,rank,changed,stored_as,effective,why,failed") || !strings.HasSuffix(lines[1], ",495,0,0"+strings.Repeat(",", 26)) {
		t.Errorf("%v: %.2000s", err, text)
	}
}

// TestFormat1IsGoneOnWith: a writer brings the file to the present format; old records
// stay as they are, new ones have moments, and the table takes them from these.
func TestFormat1IsGoneOnWith(t *testing.T) {
	path := oldSession(t)
	old := openState(t, path)
	feed, err := Start(t.Context(), Options{Checkpoint: "demo", Session: path, Targets: "*layers.1.*experts.0.*", Variants: []string{"mxfp4"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := feed.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	if st.Progress.Done != 9 {
		t.Fatalf("%+v", st.Progress)
	}
	for i := range st.Tensors {
		for v := range 2 {
			if a, b := st.Records[v][i], old.Records[v][i]; !a.sameFigures(&b) || !math.IsNaN(a.Std) || a.Seq != b.Seq {
				t.Errorf("an old record changed: %+v", a)
			}
		}
		r, it := st.Records[2][i], st.Table().Items[i]
		if !(r.Std > 0.01 && r.Std < 0.2) || !(r.Kurtosis > 1.8 && r.Kurtosis < 6) || it.Std != r.Std || it.Kurtosis != r.Kurtosis {
			t.Errorf("%s: deviation %v and kurtosis %v, in the table %v and %v", it.Name, r.Std, r.Kurtosis, it.Std, it.Kurtosis)
		}
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var version, with, without int
	if err := db.QueryRow("select (select user_version from pragma_user_version), sum(std > 0 and kurtosis > 0), sum(std is null and rel2 > 0) from taps").Scan(&version, &with, &without); err != nil {
		t.Fatal(err)
	}
	if version != formatVersion || with != 3 || without != 6 {
		t.Errorf("format %d, %d rows with moments and %d without", version, with, without)
	}
	if f, err := OpenReplay(path, 1); err != nil {
		t.Error(err)
	} else if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// TestOlderRecordIsTheSame: a tensor that is quantized once more, for an export, is
// compared with an older record in all but what that does not know.
func TestOlderRecordIsTheSame(t *testing.T) {
	tap := bigTap(4)
	old := NewRecord(0, 0, &tap)
	tap.SetMoments(kernels.Moments{SumW: 1, SumW3: 2, SumW4: 90})
	now := NewRecord(0, 0, &tap)
	if !now.sameFigures(&old) || !old.sameFigures(&now) || math.IsNaN(now.Std) || !math.IsNaN(old.Std) {
		t.Errorf("%+v\n%+v", old, now)
	}
	tap.SetMoments(kernels.Moments{SumW: 1, SumW3: 2, SumW4: 91})
	if other := NewRecord(0, 0, &tap); other.sameFigures(&now) || !other.sameFigures(&old) {
		t.Error("another kurtosis is the same")
	}
	tap.SumE2 *= 2
	if other := NewRecord(0, 0, &tap); other.sameFigures(&old) {
		t.Error("another error is the same")
	}
}

// TestMomentsAreOfTheSource: every variant of a tensor has the same, whichever
// kernels measured it, and they are those of its weights.
func TestMomentsAreOfTheSource(t *testing.T) {
	path := sessionPath(t)
	feed, err := Start(t.Context(), Options{Checkpoint: "demo", Session: path, Targets: "*layers.2.*", Variants: []string{"nvfp4", "int4-g128", "fp8", "mxfp4"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := feed.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := feed.Close(); err != nil {
		t.Fatal(err)
	}
	st := openState(t, path)
	job, err := openJob(Options{Checkpoint: "demo", Targets: "*layers.2.*"})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Source.Close()
	for i, ts := range job.Tensors {
		m, err := job.Source.Read(t.Context(), i, make([]byte, job.Source.Need(i)))
		if err != nil {
			t.Fatal(err)
		}
		w := make([]float32, m.Rows*m.Cols)
		if err := kernels.DecodeFloats(w, m.Element, m.Data); err != nil {
			t.Fatal(err)
		}
		n, mean, m2, m4 := float64(len(w)), 0.0, 0.0, 0.0
		for _, x := range w {
			mean += float64(x) / n
		}
		for _, x := range w {
			d := float64(x) - mean
			m2 += d * d / n
			m4 += d * d * d * d / n
		}
		for v := range st.Variants {
			r := st.Records[v][i]
			if math.Abs(r.Std/math.Sqrt(m2)-1) > 1e-12 || math.Abs(r.Kurtosis/(m4/m2/m2)-1) > 1e-11 {
				t.Errorf("%s under %s: deviation %v, kurtosis %v; two passes give %v, %v", ts.Name, st.Variants[v].Name, r.Std, r.Kurtosis, math.Sqrt(m2), m4/m2/m2)
			}
			if a := st.Records[0][i]; r.Std != a.Std || r.Kurtosis != a.Kurtosis {
				t.Errorf("%s: under %s %v and %v, under %s %v and %v", ts.Name, st.Variants[v].Name, r.Std, r.Kurtosis, st.Variants[0].Name, a.Std, a.Kurtosis)
			}
		}
	}
}
