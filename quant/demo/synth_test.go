package demo

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"quantscope/quant/checkpoint"
)

// No worker outlives the call that started it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// write makes a synthetic checkpoint and opens it.
func write(t testing.TB, s Synth) (*checkpoint.Checkpoint, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "synth")
	if err := s.Write(context.Background(), dir, nil); err != nil {
		t.Fatal(err)
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, dir
}

// The names and dtypes are those of the demo, layer for layer: a dense layer
// of the one is a dense layer of the other, a MoE layer a MoE layer.
func TestSynthLayout(t *testing.T) {
	synth, _ := write(t, Synth{Layers: 4, Experts: 16, Hidden: 128, Intermediate: 128})
	real, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer real.Close()
	inDemo := map[string]string{}
	for _, w := range real.Tensors {
		if !strings.HasPrefix(w.Name, "model.layers.5.") { // the MTP layer
			inDemo[w.Name] = fmt.Sprint(w.DType, w.Shape)
		}
	}
	if len(synth.Findings) != 0 {
		t.Errorf("findings %v", synth.Findings)
	}
	for _, w := range synth.Tensors {
		if got := fmt.Sprint(w.DType, w.Shape); got != inDemo[w.Name] {
			t.Errorf("%s is %s, in the demo %q", w.Name, got, inDemo[w.Name])
		}
		delete(inDemo, w.Name)
	}
	if len(inDemo) != 0 {
		t.Errorf("%d tensors of the demo are missing: %v", len(inDemo), inDemo)
	}
	var a, b map[string]any
	if err := errors.Join(json.Unmarshal(synth.Config, &a), json.Unmarshal(real.Config, &b)); err != nil {
		t.Fatal(err)
	}
	b["num_nextn_predict_layers"] = 0.0
	delete(b, "bos_token_id") // null
	if got, want := fmt.Sprint(a), fmt.Sprint(b); got != want {
		t.Errorf("config\n%s\nthe demo's\n%s", got, want)
	}
	for _, f := range real.Side {
		if _, ok := synth.SideFile(f.Name); !ok {
			t.Errorf("%s is missing", f.Name)
		}
	}
}

// Layers counts MoE layers, so the number of routed-expert matrices is exact.
func TestSynthCounts(t *testing.T) {
	for _, c := range []struct {
		synth         Synth
		hidden, dense int // layers
		least, most   int // shards
	}{
		{Synth{Layers: 1, Experts: 1, Hidden: 16, Intermediate: 8}, 1, 0, 2, 3},
		{Synth{Layers: 1, Experts: 5}, 1, 0, 2, 3},
		{Synth{Layers: 2, Experts: 3}, 3, 1, 2, 3},
		{Synth{Layers: 3, Experts: 2, Hidden: 100, Intermediate: 20, ShardBytes: 100_000}, 4, 1, 5, 30},
		{Synth{Layers: 2, Experts: 1, Hidden: 1, Intermediate: 1, ShardBytes: 1}, 3, 1, 40, 60},
	} {
		ck, _ := write(t, c.synth)
		shapes, layers, experts := routedMatrices(t, ck)
		total := 0
		for _, n := range shapes {
			total += n
		}
		s, err := c.synth.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		if layers != s.Layers || experts != s.Experts || total != s.Layers*s.Experts*3 {
			t.Errorf("%+v: %d matrices in %d layers of %d experts", s, total, layers, experts)
		}
		wantUp := fmt.Sprintf("up[%d %d]BF16", s.Intermediate, s.Hidden)
		if shapes[strings.Replace(wantUp, "]BF16", "] BF16", 1)] != s.Layers*s.Experts {
			t.Errorf("%+v: shapes %v, want %s", s, shapes, wantUp)
		}
		if n := len(ck.Files); n < c.least || n > c.most {
			t.Errorf("%+v: %d shards, want %d to %d", s, n, c.least, c.most)
		}
		var config struct {
			Layers int `json:"num_hidden_layers"`
			Dense  int `json:"first_k_dense_replace"`
			TopK   int `json:"num_experts_per_tok"`
		}
		if err := json.Unmarshal(ck.Config, &config); err != nil || config.Layers != c.hidden || config.Dense != c.dense || config.TopK > s.Experts {
			t.Errorf("%+v: config says %+v, %v; want %d layers, %d dense", s, config, err, c.hidden, c.dense)
		}
		held, count := make([]int64, len(ck.Files)), make([]int, len(ck.Files))
		for _, w := range ck.Tensors {
			held[w.File] += w.Size
			count[w.File]++
		}
		for i := range held {
			if held[i] > s.ShardBytes && count[i] > 1 {
				t.Errorf("%+v: shard %d has %d bytes in %d tensors", s, i, held[i], count[i])
			}
		}
		if len(ck.Findings) != 0 {
			t.Errorf("%+v: findings %v", s, ck.Findings)
		}
	}
}

// The size that load tests use: 43·288·3 matrices. Only the layout is made.
func TestSynthLarge(t *testing.T) {
	s, err := Synth{Layers: 43, Experts: 288}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.tensors()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, w := range all {
		if routed.MatchString(w.Name) {
			n++
		}
	}
	if n != 37_152 {
		t.Errorf("%d routed-expert matrices, want 37152", n)
	}
	if k := len(s.shards(all)); k != 2 {
		t.Errorf("%d shards, want 2", k)
	}
}

// Weights have the stated deviation, norms are 1, nothing else is there.
func TestSynthValues(t *testing.T) {
	c, _ := write(t, Synth{Layers: 2, Experts: 4, Hidden: 96, Intermediate: 64, Seed: 5})
	for i := range c.Tensors {
		w := &c.Tensors[i]
		raw, x := make([]byte, w.Size), make([]float32, w.Elements())
		if err := c.ReadAt(context.Background(), w, 0, raw); err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.DecodeF32(x, w.DType, raw); err != nil {
			t.Fatal(err)
		}
		sum, squares := 0.0, 0.0
		for _, v := range x {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		n := float64(len(x))
		if strings.Contains(w.Name, "norm") {
			if sum != n || squares != n {
				t.Errorf("%s: not all 1", w.Name)
			}
			continue
		}
		// Rounding to bf16 adds a part of 2⁻¹⁸/3 at most to the variance.
		mean, variance := sum/n/synthStd, squares/n/synthStd/synthStd
		if math.Abs(mean) > bound/math.Sqrt(n) || math.Abs(variance-1) > bound*math.Sqrt(2/n)+1e-5 {
			t.Errorf("%s: mean %v, variance %v of %v numbers, in units of the deviation", w.Name, mean, variance, n)
		}
	}
}

// The same settings give the same bytes, whatever the number of workers and
// the size of shards; another seed gives others. The sum was taken when the
// method was laid down: should it change, receipts that name a synthetic
// checkpoint no longer hold.
func TestSynthReproducible(t *testing.T) {
	s := Synth{Layers: 1, Experts: 2, Hidden: 72, Intermediate: 40, Seed: 11}
	sum := func(s Synth) (string, checkpoint.Identity) {
		c, _ := write(t, s)
		h := sha256.New()
		for _, name := range []string{"model.embed_tokens.weight", "model.layers.0.mlp.experts.1.up_proj.weight", "model.layers.0.mlp.gate.e_score_correction_bias", "lm_head.weight"} {
			w, ok := c.Lookup(name)
			if !ok {
				t.Fatalf("%s is not there", name)
			}
			raw := make([]byte, w.Size)
			if err := c.ReadAt(context.Background(), w, 0, raw); err != nil {
				t.Fatal(err)
			}
			h.Write(raw)
		}
		return fmt.Sprintf("%x", h.Sum(nil)), c.Identity()
	}
	first, id := sum(s)
	if want := "864245f5bc4024dc63455ee0e2f5ca4054b8367b0bf1675237d59db3b8b20ebe"; first != want {
		t.Errorf("sum of weights %s, want %s", first, want)
	}
	if again, id2 := sum(s); again != first || id2 != id {
		t.Errorf("the second time: sum %s and identity %s, first %s and %s", again, id2, first, id)
	}
	s.ShardBytes = 10_000
	if sharded, _ := sum(s); sharded != first {
		t.Errorf("in smaller shards: sum %s, want %s", sharded, first)
	}
	s.Seed = 12
	if other, _ := sum(s); other == first {
		t.Error("another seed gives the same weights")
	}
}

func TestSynthProgress(t *testing.T) {
	var last, total int64
	s := Synth{Layers: 2, Experts: 2, Hidden: 600, Intermediate: 1000}
	err := s.Write(context.Background(), t.TempDir(), func(done, of int64) {
		if done <= last || done > of || done-last > chunkBytes || total != 0 && of != total {
			t.Errorf("%d of %d after %d of %d", done, of, last, total)
		}
		last, total = done, of
	})
	if err != nil || last != total || total == 0 {
		t.Errorf("%d of %d at the end, %v", last, total, err)
	}
}

func TestSynthRefused(t *testing.T) {
	ok := Synth{Layers: 2, Experts: 2}
	for _, c := range []struct {
		synth Synth
		want  []string
	}{
		{Synth{Experts: 2}, []string{"layers is 0"}},
		{Synth{Layers: -1, Experts: 2}, []string{"layers is -1"}},
		{Synth{Layers: 2}, []string{"experts is 0"}},
		{Synth{Layers: 2, Experts: 2, Hidden: -5}, []string{"hidden is -5"}},
		{Synth{Layers: 2, Experts: 2, Intermediate: 1<<20 + 1}, []string{"intermediate is 1048577"}},
		{Synth{Layers: 10_000, Experts: 21}, []string{"10000 layers of 21 experts"}},
		{Synth{Layers: 2, Experts: 2, ShardBytes: -1}, []string{"shards of -1 bytes"}},
		{Synth{Layers: 10, Experts: 10, Hidden: 1 << 20, Intermediate: 1 << 20}, []string{"no space"}},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		err := c.synth.Write(context.Background(), dir, nil)
		if err == nil {
			t.Fatalf("%+v: written", c.synth)
		}
		for _, text := range c.want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q is not in: %v", text, err)
			}
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: the folder was made: %v", c.synth, err)
		}
	}

	full := t.TempDir()
	kept := filepath.Join(full, "kept")
	if err := os.WriteFile(kept, []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := ok.Write(context.Background(), full, nil); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), full) {
		t.Errorf("a folder that is not empty: %v", err)
	}
	for _, path := range []string{kept, filepath.Join(kept, "below")} {
		if err := ok.Write(context.Background(), path, nil); err == nil || !strings.Contains(err.Error(), "not a directory") {
			t.Errorf("%s: %v", path, err)
		}
	}
	if entries, err := os.ReadDir(full); err != nil || len(entries) != 1 {
		t.Errorf("%d files in it, %v; want the one that was there", len(entries), err)
	}
}

// A run that is cancelled removes what it made, at whatever point it was.
func TestSynthCancelled(t *testing.T) {
	s := Synth{Layers: 2, Experts: 3, ShardBytes: 200_000}
	for stop := int64(1); stop < 1_000_000; stop *= 4 {
		ctx, cancel := context.WithCancel(context.Background())
		parent := t.TempDir()
		err := s.Write(ctx, filepath.Join(parent, "a", "b"), func(done, _ int64) {
			if done >= stop {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("after %d bytes: %v", stop, err)
		}
		if entries, err := os.ReadDir(parent); err != nil || len(entries) != 0 {
			t.Errorf("after %d bytes: %d entries are left, %v", stop, len(entries), err)
		}
	}
}

// A process that dies leaves a part of the files in the order in which they
// are written. Such a folder is refused until all shards are there.
func TestSynthInterrupted(t *testing.T) {
	_, dir := write(t, Synth{Layers: 2, Experts: 3, ShardBytes: 200_000})
	if err := os.Remove(filepath.Join(dir, "model.safetensors.index.json")); err != nil {
		t.Fatal(err)
	}
	shards, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err != nil || len(shards) < 3 {
		t.Fatalf("%d shards, %v", len(shards), err)
	}
	for i := len(shards) - 1; i >= 0; i-- {
		if err := os.Rename(shards[i], filepath.Join(dir, "."+filepath.Base(shards[i])+".0.tmp")); err != nil {
			t.Fatal(err)
		}
		c, err := checkpoint.Open(dir)
		if err == nil {
			c.Close()
			t.Errorf("opened with %d of %d shards", i, len(shards))
		}
	}
}

func BenchmarkSynth(b *testing.B) {
	s := Synth{Layers: 2, Experts: 64}
	all, err := Synth{Layers: 2, Experts: 64, Hidden: 64, Intermediate: 64}.tensors()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(totalBytes(all))
	for b.Loop() {
		if err := s.Write(context.Background(), filepath.Join(b.TempDir(), "s"), nil); err != nil {
			b.Fatal(err)
		}
	}
}
