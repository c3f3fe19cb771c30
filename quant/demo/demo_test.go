package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"quantscope/quant/checkpoint"
)

var routed = regexp.MustCompile(`^model\.layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj\.weight$`)

// routedMatrices are the shapes of the routed-expert matrices, with the count
// of each, and the number of layers and experts that they name.
func routedMatrices(t *testing.T, c *checkpoint.Checkpoint) (shapes map[string]int, layers, experts int) {
	t.Helper()
	shapes = map[string]int{}
	l, e := map[string]bool{}, map[string]bool{}
	for i := range c.Tensors {
		if m := routed.FindStringSubmatch(c.Tensors[i].Name); m != nil {
			shapes[fmt.Sprint(m[3], c.Tensors[i].Shape, c.Tensors[i].DType)]++
			l[m[1]], e[m[2]] = true, true
		}
	}
	return shapes, len(l), len(e)
}

func TestOpen(t *testing.T) {
	c, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if len(c.Files) != 2 || len(c.Tensors) != 325 || c.Bytes() != 10_380_352 || len(c.Findings) != 0 || c.Path != "demo" {
		t.Errorf("%s: %d files, %d tensors, %d bytes, findings %v; want demo: 2, 325, 10380352 and none", c.Path, len(c.Files), len(c.Tensors), c.Bytes(), c.Findings)
	}
	shapes, layers, experts := routedMatrices(t, c)
	if layers != 5 || experts != 16 || fmt.Sprint(shapes) != "map[down[128 128] BF16:80 gate[128 128] BF16:80 up[128 128] BF16:80]" {
		t.Errorf("%v in %d layers of %d experts, want 3·80 of 128×128 in 5 of 16", shapes, layers, experts)
	}
	var config struct {
		Layers  int `json:"num_hidden_layers"`
		Experts int `json:"n_routed_experts"`
		MTP     int `json:"num_nextn_predict_layers"`
	}
	if err := json.Unmarshal(c.Config, &config); err != nil || config.Layers+config.MTP-1 != layers || config.Experts != experts {
		t.Errorf("config says %+v, %v", config, err)
	}
	for _, name := range []string{"generation_config.json", "tokenizer.json", "tokenizer_config.json"} {
		f, ok := c.SideFile(name)
		text, err := f.Read()
		if !ok || err != nil || int64(len(text)) != f.Size || !json.Valid(text) {
			t.Errorf("%s: %v, %d bytes, %v", name, ok, len(text), err)
		}
	}
}

// Corpora checks each corpus against its recorded sum; the shapes are those of
// the record too, and every id is one of the tokenizer's.
func TestCorpora(t *testing.T) {
	corpora, err := Corpora()
	if err != nil {
		t.Fatal(err)
	}
	var record map[string]struct {
		Shape  []int
		SHA256 string
	}
	if err := json.Unmarshal(CorporaJSON(), &record); err != nil {
		t.Fatal(err)
	}
	if len(corpora) != 6 || len(record) != 6 {
		t.Fatalf("%d corpora, %d in the record, want 6", len(corpora), len(record))
	}
	for _, c := range corpora {
		want := record[c.Name]
		if fmt.Sprint(want.Shape) != fmt.Sprint([]int{c.Chunks, c.Length}) || fmt.Sprintf("%x", c.SHA256) != want.SHA256 || len(c.IDs) != c.Chunks*c.Length {
			t.Errorf("%s: %d chunks of %d, %d ids, sum %x; want %v", c.Name, c.Chunks, c.Length, len(c.IDs), c.SHA256, want)
		}
		for i, id := range c.IDs {
			if id < 0 || id >= 1024 {
				t.Fatalf("%s: id %d at %d", c.Name, id, i)
			}
		}
		if got := c.Chunk(c.Chunks - 1); len(got) != c.Length || &got[0] != &c.IDs[len(c.IDs)-c.Length] {
			t.Errorf("%s: the last chunk is not its end", c.Name)
		}
	}
}

// What is handed out is the caller's.
func TestBytesAreCopies(t *testing.T) {
	for name, f := range map[string]func() []byte{"reference.json": Reference, "corpora.json": CorporaJSON} {
		a := f()
		if !json.Valid(a) {
			t.Errorf("%s is not valid JSON", name)
		}
		a[0] = 'x'
		if bytes.Equal(a, f()) {
			t.Errorf("%s: a caller's change stays", name)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		c, err := Open()
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
