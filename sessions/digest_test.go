package sessions

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"quantscope/kernels"
)

// TestOlderTapPayload: version 1 has no digest, version 2 another one, and up to
// version 3 there are no moments; all are read still.
func TestOlderTapPayload(t *testing.T) {
	tap := bigTap(5)
	now := encodeTap(nil, &tap, 0x0123456789abcdef)
	if got := now[:9]; !slices.Equal(got, []byte{3, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef}) {
		t.Errorf("version and digest stand as %x", got)
	}
	for _, c := range []struct {
		p    []byte
		want digest
	}{
		{now, digest{xxh: 0x0123456789abcdef}},
		{append([]byte{2}, now[1:]...), digest{sha: 0x0123456789abcdef}},
		{append([]byte{1}, now[9:]...), digest{}},
	} {
		var back kernels.Tap
		weights, _, err := decodeTapHead(c.p, &back)
		if err != nil || weights != c.want {
			t.Errorf("version %d: %x, %v", c.p[0], weights, err)
		}
		if err := decodeTap(c.p, &back); err != nil || back != tap {
			t.Errorf("version %d: %v", c.p[0], err)
		}
	}
	if _, _, err := decodeTapHead(append([]byte{6}, now[1:]...), &tap); err == nil || !strings.Contains(err.Error(), "version 6") {
		t.Errorf("version 6: %v", err)
	}
	tap.SetMoments(kernels.Moments{SumW: 1.5, SumW3: -3, SumW4: 70})
	newest := encodeTap(nil, &tap, 0x0123456789abcdef)
	if newest[0] != 4 || !slices.Equal(newest[1:113], now[1:113]) || !slices.Equal(newest[137:], now[113:]) {
		t.Errorf("moments stand elsewhere than behind the figures: %x", newest)
	}
}

// The first eight bytes of the SHA-256 of "abc" are in FIPS 180-2, appendix B.1;
// its XXH3 with seed 0 is what xxhsum -H3 prints.
func TestDigest(t *testing.T) {
	want := digest{xxh: 0x78af5f94892f3950, sha: 0xba7816bf8f01cfea}
	if got := digestOf([]byte("abc"), true); got != want {
		t.Errorf("%x, want %x", got, want)
	}
	if got := digestOf([]byte("abc"), false); got != (digest{xxh: want.xxh}) {
		t.Errorf("without the older one: %x", got)
	}
	var h hasher
	h.begin(true)
	for _, part := range []string{"", "a", "bc"} {
		h.add([]byte(part))
	}
	if got := h.digest(); got != want {
		t.Errorf("in pieces: %x", got)
	}
	if digestText(want.xxh) != "78af5f94892f3950" {
		t.Error(digestText(want.xxh))
	}
}

// makeOlder rewrites the tap records of a session as version 2 had them.
func makeOlder(t *testing.T, path string, job *Job) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query("select seq, at_us, variant, tensor, payload from events where kind = 'tap'")
	if err != nil {
		t.Fatal(err)
	}
	var old []stored
	for rows.Next() {
		var e stored
		if err := rows.Scan(&e.Seq, &e.AtUS, &e.Variant, &e.Tensor, &e.payload); err != nil {
			t.Fatal(err)
		}
		m, err := job.Source.Read(t.Context(), e.Tensor, make([]byte, job.Source.Need(e.Tensor)))
		if err != nil {
			t.Fatal(err)
		}
		if e.payload[0] == tapVersionNoBias {
			e.payload = slices.Concat(e.payload[:113], e.payload[137:])
		}
		e.payload[0] = tapVersionSHA
		binary.BigEndian.PutUint64(e.payload[1:], digestOf(m.Data, true).sha)
		old = append(old, e)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, e := range old {
		crc := eventSum(e.Seq, e.AtUS, e.Variant, e.Tensor, string(EventTap), e.payload)
		if _, err := db.Exec("update events set payload = ?, crc = ? where seq = ?", e.payload, crc, e.Seq); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOlderDigestIsCompared: a session whose records have SHA-256 goes on with the
// same weights, refuses others, and what is measured then has the digest of today.
func TestOlderDigestIsCompared(t *testing.T) {
	path := sessionPath(t)
	job, src := fakeJob(40)
	runJob(t, job, path, "f1")
	makeOlder(t, path, job)
	if r := openState(t, path).Records[0][7]; r.Weights != 0 || r.WeightsSHA == 0 {
		t.Fatalf("%x %x", r.Weights, r.WeightsSHA)
	}
	src.spoil[0] = func(w []byte) { w[0] ^= 1 }
	var se *SettingsError
	if _, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f2"}}); !errors.As(err, &se) {
		t.Fatalf("error %v", err)
	}
	delete(src.spoil, 0)
	src.spoil[1] = func(w []byte) { w[0] ^= 1 } // not among those that are compared first
	l, err := StartJob(t.Context(), job, Options{Session: path, Variants: []string{"f2"}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Wait(t.Context())
	oneLineOf(t, errors.Join(err, l.Close()), job.Tensors[1].Name, "its weights changed since they were measured")
	delete(src.spoil, 1)
	runJob(t, job, path, "f2")
	st := openState(t, path)
	for i := range job.Tensors {
		if a, b := st.Records[0][i], st.Records[1][i]; a.WeightsSHA == 0 || b.Weights == 0 || b.WeightsSHA != 0 {
			t.Fatalf("tensor %d: %x %x, %x %x", i, a.Weights, a.WeightsSHA, b.Weights, b.WeightsSHA)
		}
	}
}
