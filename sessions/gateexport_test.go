package sessions

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
)

// Every answer is a line, in the order of arm, probe, case and pass whatever the order
// in which they came; JSONL has it whole, byte for byte.
func TestGateExports(t *testing.T) {
	path := sessionPath(t)
	job, _ := fakeJob(4)
	runJob(t, job, path, "f1")
	f := newFakeGates()
	f.spoil = func(r *gates.Result) {
		if r.Key() == (gates.Key{Arm: 1, Probe: 0, Case: 2, Pass: 1}) {
			erred(r, chat.Refused)
		}
	}
	if err := gatesOn(t, openFeed(t, path), f, "bf16", "nvfp4"); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := ExportGates(t.Context(), &out, path, "jsonl"); err != nil {
		t.Fatal(err)
	}
	lines, _, err := ReadJSONL(&out)
	if err != nil || len(lines) != 16 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	var keys []string
	for i, l := range lines {
		var x struct {
			gateLine
			exact
		}
		if err := json.Unmarshal(l, &x); err != nil || !utf8.Valid(l) {
			t.Fatal(err)
		}
		if err := x.restore(&x.gateLine); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, x.Arm+" "+x.Probe+" "+x.Case)
		n := i % 8
		want := madeUpResult(i/8, 0, n/2, n%2)
		if n >= 6 {
			want = madeUpResult(i/8, 1, n-6, 0)
		}
		if i == 13 {
			erred(want, chat.Refused)
		}
		if diff := cmp.Diff(want.Answer, x.Answer, sameBits, cmpopts.EquateEmpty()); diff != "" || x.Model != x.Arm || x.Role == "" {
			t.Fatalf("line %d: %s", i, diff)
		}
	}
	if got := strings.Join(keys[:9], ", "); got != "bf16 sums a, bf16 sums a, bf16 sums b, bf16 sums b, bf16 sums c, bf16 sums c, bf16 needle/long far, bf16 needle/long near, nvfp4 sums a" {
		t.Error(got)
	}

	out.Reset()
	if err := ExportGates(t.Context(), &out, path, "csv"); err != nil || !utf8.Valid(out.Bytes()) {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 17 || cmp.Diff(rows[0], gateColumns) != "" {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if diff := cmp.Diff([]string{"0", "made up", "sums", "arithmetic", "a", "1", "bf16", "baseline", "bf16", "1", "true", "", "says 1", "", "1", "stop", "20", "6", "", "3", "2", "0", "0.003", "0.02", "", "the answer is 1\ufffd \ufffd \x00 대한민국"}, rows[2]); diff != "" {
		t.Error(diff)
	}
	if bad := rows[14]; bad[10] != "false" || bad[11] != "error" || bad[13] != "http://there: refused" || bad[16] != "0" || bad[25] != "" {
		t.Errorf("%q", bad)
	}

	file := filepath.Join(t.TempDir(), "gates.parquet")
	if err := ExportGatesFile(t.Context(), path, file, "parquet", false); err != nil {
		t.Fatal(err)
	}
	table, err := parquet.ReadFile[gateRow](file)
	if err != nil || len(table) != 16 || table[1].Text != rows[2][25] || *table[1].Completion != 6 || table[1].Cached != nil || table[13].Finish != nil || !utf8.ValidString(table[1].Text) {
		t.Errorf("%d rows, %v", len(table), err)
	}
	if err := ExportGatesFile(t.Context(), path, file, "parquet", false); !errors.Is(err, os.ErrExist) {
		t.Errorf("over another: %v", err)
	}
	if err := ExportGatesFile(t.Context(), path, file, "xml", true); err == nil || !strings.Contains(err.Error(), `"xml" is not known of gates (known: jsonl, csv, parquet)`) {
		t.Errorf("%v", err)
	}
	execSQL(t, path, "update events set crc = crc + 1 where kind = 'answer' and seq = (select max(seq) from answers)")
	if err := ExportGates(t.Context(), &out, path, "jsonl"); err == nil || !strings.Contains(err.Error(), "is damaged, so it is not exported") {
		t.Errorf("of a damaged session: %v", err)
	}
}
