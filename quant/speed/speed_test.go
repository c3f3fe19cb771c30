package speed

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"quantscope/kernels"
	"quantscope/quant/method"
)

func TestMeasure(t *testing.T) {
	variants, err := method.ParseList("nvfp4,nvfp4+mse")
	if err != nil {
		t.Fatal(err)
	}
	var came []Kernel
	r, err := Measure(t.Context(), Options{
		Variants: variants, Threads: 2, Each: 1, MaxBytes: 2 * matrixBytes, Products: true, Checkpoint: "../demo/data/model",
	}, func(k Kernel) { came = append(came, k) })
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Kernels) != 2*2+3*2 || len(came) != len(r.Kernels) {
		t.Fatalf("%d kernels, %d came", len(r.Kernels), len(came))
	}
	if r.MemcpyGBs <= 0 || r.FMAGFLOPs <= 0 || r.CPU == "" || r.Sets[len(r.Sets)-1] != kernels.Best().Name {
		t.Errorf("%+v", r)
	}
	for i, k := range r.Kernels {
		if came[i] != k || k.Set != kernels.Best().Name || k.Threads < 1 || k.Threads > 2 || k.Ratio <= 0 {
			t.Errorf("%+v", k)
		}
		if k.Of == OfMemcpy {
			// bf16: two bytes a weight; and the estimate is the rate turned round.
			if math.Abs(k.GBs*1e9-2*k.Weights) > 1e-6*k.Weights || math.Abs(k.Seconds200GB*k.GBs-200) > 1e-9 || math.Abs(k.Ratio*r.MemcpyGBs-k.GBs) > 1e-9 {
				t.Errorf("%+v", k)
			}
		} else if k.Of != OfFMA || k.GFLOPs <= 0 {
			t.Errorf("%+v", k)
		}
	}
	if r.Read == nil || r.Read.Bytes < 10e6 || math.Abs(r.Read.Seconds200GB*r.Read.GBs-200) > 1e-9 {
		t.Errorf("read %+v", r.Read)
	}
}

func TestMeasureRefuses(t *testing.T) {
	if _, err := Measure(t.Context(), Options{Threads: 3, MaxBytes: 2 * matrixBytes}, nil); err == nil {
		t.Error("three threads without memory for two")
	}
	if _, err := Measure(t.Context(), Options{Each: time.Millisecond, Checkpoint: "no/such/folder"}, nil); err == nil {
		t.Error("a checkpoint that is not there was read")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	variants, err := method.ParseList("nvfp4")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Measure(ctx, Options{Variants: variants, Each: time.Millisecond}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
