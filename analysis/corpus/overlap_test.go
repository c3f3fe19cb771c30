package corpus

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// noise is n chunks of random ids.
func noise(seed uint64, n, length int) *Corpus {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &Corpus{Name: "noise"}
	for range n {
		k := make([]int32, length)
		for i := range k {
			k[i] = r.Int32N(1000)
		}
		c.Chunks = append(c.Chunks, k)
	}
	return c
}

func TestOverlap(t *testing.T) {
	eval, calib := noise(1, 4, 300), noise(2, 5, 200)
	r, err := Overlap(eval, calib)
	if err != nil || r.Shared != 0 || r.Windows != 4*(300-Window+1) || r.Err() != nil {
		t.Errorf("nothing shared: %+v, %v", r, err)
	}
	copy(eval.Chunks[2][100:], calib.Chunks[3][50:50+40])
	if r, err = Overlap(eval, calib); err != nil {
		t.Fatal(err)
	}
	if r.Shared != 40-Window+1 || r.EvalChunk != 2 || r.EvalPosition != 100 || r.CalibChunk != 3 || r.CalibPosition != 50 {
		t.Errorf("%+v", r)
	}
	if r.Longest != 40 || r.Err() != nil || !strings.Contains(r.String(), "share 9 of 1076 windows of 32 tokens, 40 in a row at most; first chunk 2, position 100, which is chunk 3, position 50 there") {
		t.Errorf("a phrase: %s, %v", r, r.Err())
	}
	copy(eval.Chunks[0][7:], calib.Chunks[1][9:9+Passage])
	if r, _ = Overlap(eval, calib); r.Longest != Passage || !errors.Is(r.Err(), ErrOverlap) {
		t.Errorf("a passage: %s", r)
	}
	// A short chunk that is all there, and a fifth of all.
	eval = &Corpus{Chunks: append(noise(7, 20, 60).Chunks, calib.Chunks[0][20:80])}
	if r, _ = Overlap(eval, calib); r.Whole != 1 || r.Err() == nil {
		t.Errorf("a whole chunk: %s", r)
	}
	eval = &Corpus{Chunks: [][]int32{append(noise(7, 1, 100).Chunks[0], calib.Chunks[0][20:80]...)}}
	if r, _ = Overlap(eval, calib); r.Whole != 0 || r.Longest != 60 || r.Err() == nil {
		t.Errorf("a fifth: %s", r)
	}
	// One token less than a window is no overlap; neither is a row of one token.
	eval, calib = noise(1, 1, 300), noise(2, 1, 300)
	copy(eval.Chunks[0][10:], calib.Chunks[0][20:20+Window-1])
	for i := range 100 {
		eval.Chunks[0][150+i], calib.Chunks[0][60+i] = 7, 7
	}
	if r, err := Overlap(eval, calib); err != nil || r.Shared != 0 || r.Dull != 100-Window+1+2*3 {
		t.Errorf("%+v, %v", r, err)
	}
	eval.Tokenizer, calib.Tokenizer = "a", "b"
	if _, err := Overlap(eval, calib); err == nil || !strings.Contains(err.Error(), "different tokenizers") {
		t.Errorf("different tokenizers: %v", err)
	}
}

// A large calibration is sampled by content: what is copied is found all the same.
func TestOverlapSampled(t *testing.T) {
	calib := noise(3, 600, 4096)
	eval := noise(4, 2, 4096)
	copy(eval.Chunks[1][1000:], calib.Chunks[500][2000:3000])
	r, err := Overlap(eval, calib)
	if err != nil {
		t.Fatal(err)
	}
	if r.Every < 2 || r.Shared < int(0.8*float64(1000-Window)/float64(r.Every)) || r.EvalChunk != 1 || r.EvalPosition-1000 != r.CalibPosition-2000 {
		t.Errorf("%+v", r)
	}
}

// The demo's evaluation was held out from its calibration. Its chat shares stock
// answers with it, and one article begins as another does: phrases, not passages.
func TestOverlapDemo(t *testing.T) {
	all, err := Demo()
	if err != nil {
		t.Fatal(err)
	}
	calib := all[len(all)-1]
	want := map[string][2]int{"chat": {350, 68}, "multi": {6, 37}}
	for _, c := range all[:len(all)-1] {
		r, err := Overlap(c, calib)
		if err != nil || r.Windows != len(c.Chunks)*(384-Window+1) || r.Err() != nil || [2]int{r.Shared, r.Longest} != want[c.Name] {
			t.Errorf("%s, %v", r, err)
		}
	}
	if r, err := Overlap(calib, calib); err != nil || r.Shared != r.Windows || r.Longest != 384 || r.Err() == nil {
		t.Errorf("with itself: %+v, %v", r, err)
	}
}
