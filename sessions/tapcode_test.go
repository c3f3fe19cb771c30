package sessions

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"quantscope/kernels"
)

// fill gives every number in v another value, by way of next.
func fill(v reflect.Value, next func() uint64) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), next)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), next)
		}
	case reflect.Int64:
		v.SetInt(int64(next()))
	case reflect.Uint16:
		v.SetUint(next() & math.MaxUint16)
	case reflect.Float64:
		v.SetFloat(math.Float64frombits(next()))
	case reflect.Bool:
		v.SetBool(true)
	default:
		panic("a Tap has a field of kind " + v.Kind().String())
	}
}

// bits are all numbers of a tap as bits, so that NaNs compare.
func bits(v reflect.Value) []uint64 {
	switch v.Kind() {
	case reflect.Struct:
		var out []uint64
		for i := range v.NumField() {
			out = append(out, bits(v.Field(i))...)
		}
		return out
	case reflect.Array:
		var out []uint64
		for i := range v.Len() {
			out = append(out, bits(v.Index(i))...)
		}
		return out
	case reflect.Int64:
		return []uint64{uint64(v.Int())}
	case reflect.Uint16:
		return []uint64{v.Uint()}
	case reflect.Bool:
		if v.Bool() {
			return []uint64{1}
		}
		return []uint64{0}
	}
	return []uint64{math.Float64bits(v.Float())}
}

func tapBits(t *kernels.Tap) []uint64 { return bits(reflect.ValueOf(t).Elem()) }

// TestTapPayloadKeepsEveryBit fills each field of a Tap by reflection, so a
// field that is added to the type and not to the format is noticed.
func TestTapPayloadKeepsEveryBit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		gen := rapid.OneOf(rapid.Uint64Range(0, 300), rapid.Uint64())
		var tap kernels.Tap
		fill(reflect.ValueOf(&tap).Elem(), func() uint64 { return gen.Draw(rt, "n") })
		p := encodeTap(nil, &tap, 1<<40+7)
		var back kernels.Tap
		if err := decodeTap(p, &back); err != nil {
			rt.Fatal(err)
		}
		if !reflect.DeepEqual(tapBits(&tap), tapBits(&back)) {
			rt.Fatalf("wrote %v\nread  %v", tap, back)
		}
		for n := range len(p) {
			if decodeTap(p[:n], &back) == nil {
				rt.Fatalf("%d of %d bytes pass for a whole payload", n, len(p))
			}
		}
		if decodeTap(append(p, 0), &back) == nil {
			rt.Fatal("a byte too many passes")
		}
		// back is used again, as a loader does.
		for _, version := range []byte{tapVersion, tapVersionNoMoments, tapVersionNoBias} {
			less := tap
			if version != tapVersionNoBias {
				less.HasMoments, less.SumW, less.SumW3, less.SumW4 = false, 0, 0, 0
			}
			if version != tapVersion {
				less.HasBias, less.Bias = false, kernels.Bias{}
			}
			p := encodeTap(nil, &less, 1<<40+7)
			if err := decodeTap(p, &back); err != nil || p[0] != version || !reflect.DeepEqual(tapBits(&less), tapBits(&back)) {
				rt.Fatalf("version %d, %d: wrote %v\nread  %v (%v)", p[0], version, less, back, err)
			}
		}
	})
}

func TestTapPayloadIsSmall(t *testing.T) {
	tap := bigTap(1)
	tap.SetMoments(kernels.Moments{SumW: 1.5, SumW3: -3, SumW4: 70})
	if n := len(encodeTap(nil, &tap, 1<<40+7)); n > 344 {
		t.Errorf("a record of a 64×64 matrix takes %d bytes", n)
	}
}

func FuzzTapPayload(f *testing.F) {
	tap := bigTap(3)
	whole := encodeTap(nil, &tap, 1<<40+7)
	for _, n := range []int{0, 1, 50, 105, 120, len(whole) - 1, len(whole)} {
		f.Add(whole[:n])
	}
	f.Add([]byte{3})
	tap.SetMoments(kernels.Moments{SumW: 1.5, SumW3: -3, SumW4: 70})
	whole = encodeTap(nil, &tap, 1<<40+7)
	for _, n := range []int{1, 112, 113, 136, 137, len(whole) - 1, len(whole)} {
		f.Add(whole[:n])
	}
	tap.HasBias, tap.Bias = true, kernels.Bias{SumErr: -1.5, SumAbsW: 3, Rows: 4, Positive: 3, SumRow2: 0.5, RowMax: 0.25, Codebook: 0x9a02, L2: math.NaN(), Sym: 0.1}
	whole = encodeTap(nil, &tap, 1<<40+7)
	for _, n := range []int{8, 9, 10, 113, 138, 186, 187, len(whole) - 1, len(whole)} {
		f.Add(whole[:n])
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var tap, back kernels.Tap
		if decodeTap(p, &tap) != nil {
			return
		}
		if err := decodeTap(encodeTap(nil, &tap, 1<<40+7), &back); err != nil || !reflect.DeepEqual(tapBits(&tap), tapBits(&back)) {
			t.Fatalf("%x is read as %v, and that not as itself (%v)", p, tap, err)
		}
	})
}

// TestEventSumCoversEverything changes each part of an event.
func TestEventSumCoversEverything(t *testing.T) {
	base := eventSum(1, 2, 3, 4, "tap", []byte("payload"))
	for name, sum := range map[string]int64{
		"seq":     eventSum(2, 2, 3, 4, "tap", []byte("payload")),
		"at_us":   eventSum(1, 3, 3, 4, "tap", []byte("payload")),
		"variant": eventSum(1, 2, 2, 4, "tap", []byte("payload")),
		"tensor":  eventSum(1, 2, 3, 5, "tap", []byte("payload")),
		"kind":    eventSum(1, 2, 3, 4, "tbp", []byte("payload")),
		"payload": eventSum(1, 2, 3, 4, "tap", []byte("paylobd")),
	} {
		if sum == base {
			t.Errorf("a changed %s is not noticed", name)
		}
	}
}
