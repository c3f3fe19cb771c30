package sessions

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"quantscope/kernels"
	"quantscope/quant/topology"
)

// exportSession is a session of 20 tensors under two variants, with a failure
// and figures that are not finite.
func exportSession(t *testing.T) (string, map[pair][]byte) {
	t.Helper()
	path := sessionPath(t)
	job, src := fakeJob(20)
	src.read = func(i int) error {
		if i == 7 {
			return errors.New("a bad block, \"quoted\", with commas")
		}
		return nil
	}
	src.spoil[9] = func(w []byte) { clear(w) } // an exact zero: SQNR is +Inf, no scales
	runJob(t, job, path, "f1", "f2")
	return path, payloads(t, path)
}

// jsonTap is a tap record as JSONL has it.
func jsonTap(t *testing.T, line map[string]any) kernels.Tap {
	t.Helper()
	figure := func(name string) float64 {
		switch v := line[name].(type) {
		case json.Number:
			f, err := strconv.ParseFloat(v.String(), 64)
			if err != nil {
				t.Fatal(err)
			}
			return f
		case string:
			return map[string]float64{"NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1)}[v]
		}
		t.Fatalf("no figure %q in %v", name, line)
		return 0
	}
	number := func(name string) int64 {
		n, err := line[name].(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	tap := kernels.Tap{
		Elements: number("elements"), Blocks: number("blocks"), NaN: number("nan"), Inf: number("inf"),
		SumW2: figure("sum_w2"), SumQ2: figure("sum_q2"), SumWQ: figure("sum_wq"), SumE2: figure("sum_e2"),
		MaxAbsErr: figure("max_abs_err"), Amax: figure("amax"), GlobalScale: figure("global_scale"), ScaleSum: figure("scale_sum"),
		ScaleCount: number("scale_count"), ScaleHigh: number("scale_high"), ScaleLow: number("scale_low"), ScaleSubnormal: number("scale_subnormal"),
		ZeroBlocks: number("zero_blocks"), Shallow: number("shallow"), Deep: number("deep"), SubnormalClipped: number("subnormal_clipped"),
		ShallowL2: figure("sum_w2_shallow"), DeepL2: figure("sum_w2_deep"), SubnormalClippedL2: figure("sum_w2_subnormal_clipped"),
	}
	if line["sum_w"] != nil {
		tap.SetMoments(kernels.Moments{SumW: figure("sum_w"), SumW3: figure("sum_w3"), SumW4: figure("sum_w4")})
	}
	if tap.ScaleCount > 0 {
		tap.ScaleMin, tap.ScaleMax = figure("scale_min"), figure("scale_max")
	}
	for name, into := range map[string][]int64{"depth": tap.Depth[:], "codes": tap.Codes[:], "multipliers": tap.Multipliers[:], "scales": tap.Scales[:], "errors": tap.Errors[:]} {
		bins := line[name].([]any)
		if len(bins) != len(into) {
			t.Fatalf("%s has %d bins", name, len(bins))
		}
		for i, b := range bins {
			n, err := b.(json.Number).Int64()
			if err != nil {
				t.Fatal(err)
			}
			into[i] = n
		}
	}
	return tap
}

// TestJSONLRoundTrip: what is exported comes back bit for bit.
func TestJSONLRoundTrip(t *testing.T) {
	path, want := exportSession(t)
	st := openState(t, path)
	var out bytes.Buffer
	if err := ExportJSONL(t.Context(), &out, path); err != nil {
		t.Fatal(err)
	}
	records, fragment, err := ReadJSONL(&out)
	if err != nil || fragment != 0 || len(records) != 40 {
		t.Fatalf("%d records, %d bytes, %v", len(records), fragment, err)
	}
	seen := map[pair]bool{}
	for _, rec := range records {
		d := json.NewDecoder(bytes.NewReader(rec))
		d.UseNumber()
		line := map[string]any{}
		if err := d.Decode(&line); err != nil {
			t.Fatal(err)
		}
		k := pair{st.VariantByName(line["variant"].(string)), -1}
		for _, ts := range st.Tensors {
			if ts.Name == line["tensor"] {
				k.tensor = ts.ID
			}
		}
		seen[k] = true
		if k.tensor == 7 {
			if line["failed"] != `a bad block, "quoted", with commas` || line["cos"] != nil {
				t.Errorf("the failed one: %s", rec)
			}
			continue
		}
		got := jsonTap(t, line)
		var was kernels.Tap
		if err := decodeTap(want[k], &was); err != nil {
			t.Fatal(err)
		}
		if was.ScaleCount == 0 {
			was.ScaleMin, was.ScaleMax = 0, 0
		}
		if !reflect.DeepEqual(tapBits(&got), tapBits(&was)) {
			t.Fatalf("%v: %+v\nwas %+v", k, got, was)
		}
	}
	if len(seen) != 40 {
		t.Errorf("%d different lines", len(seen))
	}
}

func TestCSV(t *testing.T) {
	path, _ := exportSession(t)
	st := openState(t, path)
	var out bytes.Buffer
	if err := ExportCSV(t.Context(), &out, path); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 41 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	for i, row := range rows[1:] {
		v, tensor := i/20, i%20
		if row[at["variant"]] != st.Variants[v].Name || row[at["tensor"]] != st.Tensors[tensor].Name {
			t.Fatalf("row %d is about %v", i, row[:2])
		}
		r := st.Records[v][tensor]
		if tensor == 7 {
			if !strings.HasPrefix(row[at["failed"]], "a bad block") || row[at["cos"]] != "" || row[at["deep"]] != "" {
				t.Errorf("the failed one: %v", row)
			}
			continue
		}
		for name, want := range map[string]float64{"cos": r.Cos, "rel_l2": r.RelL2, "sqnr_db": r.SQNR, "deep_l2": r.DeepL2, "scale_mean": r.ScaleMean} {
			got, err := strconv.ParseFloat(row[at[name]], 64)
			if err != nil || got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Errorf("%s is %q, not %v", name, row[at[name]], want)
			}
		}
		if row[at["blocks"]] != strconv.FormatInt(r.Blocks, 10) || row[at["failed"]] != "" {
			t.Errorf("row %v", row)
		}
	}
}

// TestCSVIDs: layer 0 and expert 0 are numbers like any other, and what is of no
// layer or expert has an empty cell.
func TestCSVIDs(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(18)
	job.Tensors[17].Role = topology.Role{Kind: topology.Head, Layer: -1, Expert: -1, Param: "weight"}
	src.tensors = job.Tensors
	runJob(t, job, path, "f1")
	var out bytes.Buffer
	if err := ExportCSV(t.Context(), &out, path); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 19 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	layer, expert := slices.Index(rows[0], "layer"), slices.Index(rows[0], "expert")
	for tensor, want := range map[int][2]string{0: {"0", "0"}, 1: {"0", "1"}, 15: {"0", "15"}, 16: {"1", "0"}, 17: {"", ""}} {
		if row := rows[1+tensor]; row[layer] != want[0] || row[expert] != want[1] {
			t.Errorf("tensor %d: layer %q, expert %q, want %q", tensor, row[layer], row[expert], want)
		}
	}
}

func TestParquet(t *testing.T) {
	path, want := exportSession(t)
	st := openState(t, path)
	out := filepath.Join(t.TempDir(), "s.parquet")
	if err := ExportFile(t.Context(), path, out, "parquet", false); err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.ReadFile[parquetRow](out)
	if err != nil || len(rows) != 40 {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	for i, r := range rows {
		v, tensor := i/20, i%20
		if r.Variant != st.Variants[v].Name || r.Tensor != st.Tensors[tensor].Name || *r.Layer != int32(tensor/16) {
			t.Fatalf("row %d: %+v", i, r)
		}
		if tensor == 7 {
			if r.Failed == nil || r.Cos != nil || r.Blocks != nil || len(r.Codes) != 0 {
				t.Errorf("the failed one: %+v", r)
			}
			continue
		}
		var tap kernels.Tap
		if err := decodeTap(want[pair{v, tensor}], &tap); err != nil {
			t.Fatal(err)
		}
		if *r.SumE2 != tap.SumE2 || *r.RelL2 != st.Records[v][tensor].RelL2 || *r.Deep != tap.Deep || *r.SumW4 != tap.SumW4 || !reflect.DeepEqual(r.Errors, tap.Errors[:]) || r.Failed != nil {
			t.Errorf("row %d: %+v", i, r)
		}
	}
}

func TestExportFile(t *testing.T) {
	path, _ := exportSession(t)
	dir := t.TempDir()
	out := filepath.Join(dir, "s.csv")
	if err := ExportFile(t.Context(), path, out, "xlsx", false); err == nil || !strings.Contains(err.Error(), "known: jsonl, csv, parquet") {
		t.Errorf("an unknown format: %v", err)
	}
	if err := ExportFile(t.Context(), path, out, "csv", false); err != nil {
		t.Fatal(err)
	}
	if err := ExportFile(t.Context(), path, out, "csv", false); !errors.Is(err, os.ErrExist) {
		t.Errorf("it is overwritten: %v", err)
	}
	if err := ExportFile(t.Context(), path, out, "csv", true); err != nil {
		t.Errorf("not even with force: %v", err)
	}
	if err := ExportFile(t.Context(), path, path, "csv", true); err == nil {
		t.Error("the session is overwritten")
	}
	if err := ExportFile(t.Context(), path, filepath.Join(dir, "no", "s.csv"), "csv", true); err == nil {
		t.Error("a folder that is not there")
	}
	// A damaged session must not give an export that looks whole.
	bad := copySession(t, path)
	execSQL(t, bad, "update events set crc = 0 where tensor = 5")
	if err := ExportFile(t.Context(), bad, filepath.Join(dir, "bad.csv"), "csv", false); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("a damaged session: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// TestEmptyExports: a session of no variants has exports of no rows.
func TestEmptyExports(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(3)
	runJob(t, job, path)
	for name, export := range map[string]func(context.Context, io.Writer, string) error{"jsonl": ExportJSONL, "csv": ExportCSV, "parquet": ExportParquet} {
		if err := export(t.Context(), io.Discard, path); err != nil {
			t.Errorf("%s of nothing: %v", name, err)
		}
		if err := export(t.Context(), io.Discard, path+"x"); err == nil {
			t.Errorf("%s of a missing file", name)
		}
	}
}

// TestTornJSONL: the eleven whole records are used, the fragment is reported.
func TestTornJSONL(t *testing.T) {
	f, err := os.Open("testdata/tap-torn.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, fragment, err := ReadJSONL(f)
	if err != nil || len(records) != 11 || fragment != 61 {
		t.Errorf("%d records, a fragment of %d bytes, %v; want 11 and 61", len(records), fragment, err)
	}
}

func TestReadJSONL(t *testing.T) {
	for _, c := range []struct {
		name, text string
		records    int
		fragment   int64
		err        string
	}{
		{"nothing", "", 0, 0, ""},
		{"one", "{}\n", 1, 0, ""},
		{"no line feed at the end", "{}\n{\"a\":1}", 2, 0, ""},
		{"blank lines and carriage returns", "\n{}\r\n  \n{}\n", 2, 0, ""},
		{"torn", "{}\n{\"a\":", 1, 5, ""},
		{"torn in a string", "{}\n{\"a\": \"b", 1, 8, ""},
		{"torn in a character", "{}\n{\"a\": \"\xc3", 1, 8, ""},
		{"broken in the middle", "{}\n{\"a\":\n{}\n", 1, 0, "line 2: not a JSON object"},
		{"not an object", "{}\n[1]\n", 1, 0, "line 2: not a JSON object"},
		{"too long", "{\"a\": \"" + strings.Repeat("x", 3<<20) + "\"}\n", 0, 0, "line 1: longer than"},
	} {
		records, fragment, err := ReadJSONL(strings.NewReader(c.text))
		if len(records) != c.records || fragment != c.fragment || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %d records, %d bytes, %v", c.name, len(records), fragment, err)
		}
	}
}

func FuzzReadJSONL(f *testing.F) {
	f.Add([]byte("{}\n{\"a\":1}\n"))
	f.Add([]byte("{}\n{\"a\":"))
	f.Fuzz(func(t *testing.T, b []byte) {
		records, fragment, err := ReadJSONL(bytes.NewReader(b))
		if err != nil {
			return
		}
		total := fragment
		for _, r := range records {
			if !json.Valid(r) {
				t.Errorf("%q passes for JSON", r)
			}
			total += int64(len(r))
		}
		if total > int64(len(b)) {
			t.Errorf("%d bytes of %d", total, len(b))
		}
	})
}

// TestZeroDecibels: an error as large as the weights is 0 dB, not -0.
func TestZeroDecibels(t *testing.T) {
	rec := NewRecord(0, 0, &kernels.Tap{SumW2: 3, SumE2: 3})
	if got := csvFigure(rec.SQNR); got != "0" {
		t.Errorf("CSV: %s", got)
	}
	if got := string(appendFigure(nil, rec.SQNR)); got != "0" {
		t.Errorf("JSON: %s", got)
	}
}
