package model

import (
	"context"
	"math"
	"slices"
	"testing"
	"time"

	"quantscope/kernels"
	"quantscope/quant/checkpoint"
	"quantscope/quant/demo"
	"quantscope/quant/topology"
)

func TestDemo(t *testing.T) {
	ck, err := demo.Open()
	if err != nil {
		t.Fatal(err)
	}
	top, err := topology.FromCheckpoint(ck)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := NewSpec(top)
	if err != nil {
		t.Fatal(err)
	}
	gold, err := checkpoint.Open("/work/shared/demo/logits.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range gold.Tensors {
		t.Log(x.Name, x.Shape)
	}
	corpora, err := demo.Corpora()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range corpora {
		if c.Name != "eval.prose" && c.Name != "eval.multi" {
			continue
		}
		chunks := [][]int32{c.Chunk(0), c.Chunk(1)}
		o := Options{Set: kernels.Best(), Threads: 2}
		begin := time.Now()
		src := NewStored(ck, top)
		h, err := Run(context.Background(), spec, []Source{src}, chunks, o)
		if err != nil {
			t.Fatal(err)
		}
		head, err := NewHead(context.Background(), spec, src, o)
		if err != nil {
			t.Fatal(err)
		}
		logits, err := head.Logits(nil, h[0].X, h[0].Rows)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(c.Name, h[0].Rows, time.Since(begin), float64(h[0].Rows)/time.Since(begin).Seconds())
		name := c.Name[5:]
		for _, x := range gold.Tensors {
			if !slices.Contains([]string{name, "eval." + name, c.Name + ".logits", name + ".logits"}, x.Name) {
				continue
			}
			want, shape := expected(t, gold, x.Name)
			most := 0.0
			T, V := int(shape[1]), int(shape[2])
			for i := range int(shape[0]) {
				for p := range T {
					for v := range V {
						most = max(most, math.Abs(float64(logits[(i*384+p)*V+v]-want[(i*T+p)*V+v])))
					}
				}
			}
			t.Log(x.Name, most)
		}
	}
}
