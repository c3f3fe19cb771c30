package kernels

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Every codebook has one name, which is read in any order of its values.
func TestNamedBook(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 1))
	for _, mask := range allBooks() {
		name := BookMethod(mask)
		values := strings.Split(strings.TrimPrefix(name, "book:"), ":")
		rng.Shuffle(len(values), func(i, k int) { values[i], values[k] = values[k], values[i] })
		shuffled := "book:" + strings.Join(values, ":")
		for _, method := range []string{name, shuffled} {
			if got, err := NamedBook(method); err != nil || got != mask || !NamesBook(method) {
				t.Fatalf("%s: %#04x, %v, want %#04x", method, got, err, mask)
			}
		}
	}
	if got := BookMethod(1<<14 | 1<<10 | 1<<3 | 1<<6); got != "book:-4:-1:1.5:4" {
		t.Errorf("%s", got)
	}
	if _, err := NamedBook("sym"); !errors.Is(err, ErrUnsupported) {
		t.Errorf("sym: %v", err)
	}
}

// A codebook that is named is the one that codes, whichever way it is chosen; scales
// and what the best would have been worth are those of l2.
func TestForcedCodebook(t *testing.T) {
	const method = "book:3:0.5:-6:-1.5"
	const want = uint16(1<<15 | 1<<11 | 1<<1 | 1<<5)
	for i, specs := range fp4Specs() {
		m := heavyTailed(3, 70, uint64(40+i))
		spec := specs[1]
		what := fmt.Sprintf("%s/%v", spec.Format, spec.Convention)
		spec.Method = "l2"
		best, _ := quantizeBook(t, Best(), m, spec, nil, 0)
		spec.Method = method
		forced, chosen := quantizeBook(t, Best(), m, spec, nil, 0)
		if chosen.Codebook != want || forced.tap.Bias.Codebook != want {
			t.Errorf("%s: %v", what, Codebook(chosen.Codebook))
		}
		if x, y := forced.tap.Bias, best.tap.Bias; x.L2 != y.L2 || x.Sym != y.Sym || !bytes.Equal(forced.Scales, best.Scales) || forced.global != best.global {
			t.Errorf("%s: %+v and %+v, or other scales", what, x, y)
		}
		given := specs[1]
		given.Codebook = want
		if same, _ := quantizeBook(t, Best(), m, given, nil, 0); !bytes.Equal(same.Codes, forced.Codes) {
			t.Errorf("%s: codes differ from those of the mask", what)
		}
		w := make([]float32, m.Rows*m.Cols)
		if err := DecodeFloats(w, m.Element, m.Data); err != nil {
			t.Fatal(err)
		}
		amax, err := Best().AbsMax(m)
		if err != nil {
			t.Fatal(err)
		}
		// The other ways of choosing: rows in chunks, and an operand that is weighed.
		importance := testImportance(m.Cols)
		r, err := Best().ChooseBook(spec, StoredOperand(m), amax, importance)
		if err != nil || r.Codebook != want {
			t.Errorf("%s, weighed: %v, %v", what, Codebook(r.Codebook), err)
		}
		spec.Codebook = mirrorBook(want)
		if _, err := Best().Begin(spec, m.Element, m.Rows, m.Cols, amax); !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), "book:-6:-1.5:0.5:3") {
			t.Errorf("%s with another mask: %v", what, err)
		}
	}
}

// What all codebooks would be worth is what passes with them are.
func TestBookWorths(t *testing.T) {
	for i, specs := range fp4Specs() {
		m := heavyTailed(2, 70, uint64(60+i))
		amax, err := Best().AbsMax(m)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Best().BeginCodebook(specs[1], m.Element, m.Cols, amax, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Rows(m.Data); err != nil {
			t.Fatal(err)
		}
		worths, masks := c.Worths(), allBooks()
		if len(worths) != len(masks) {
			t.Fatalf("%d of %d codebooks", len(worths), len(masks))
		}
		w := make([]float32, m.Rows*m.Cols)
		if err := DecodeFloats(w, m.Element, m.Data); err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, x := range w {
			sum += float64(x)
		}
		for k := 0; k < len(worths); k += 97 {
			spec := specs[1]
			spec.Method = BookMethod(worths[k].Codebook)
			b, _ := quantizeBook(t, Best(), m, spec, nil, 0)
			x := b.tap.Bias
			if e := b.tap.SumE2; !close64(worths[k].Error, e, 1e-5) || math.Abs(worths[k].Sum-sum-x.SumErr) > 1e-5*x.SumAbsW || !close64(worths[k].Dot, b.tap.SumWQ, 1e-5) {
				t.Errorf("%s/%v, %s: %+v, want %v, %v and %v", spec.Format, spec.Convention, spec.Method, worths[k], e, b.tap.SumWQ, x.SumErr+sum)
			}
		}
	}
}

// FP4 codes are recoded to the codebook that is named.
func TestForcedRecoding(t *testing.T) {
	m := FP4{Format: "mxfp4", Convention: CT32, Rows: 1, Cols: 32, Codes: make([]byte, 16), Scales: []byte{127}}
	for i := range m.Codes {
		m.Codes[i] = byte(i) * 17
	}
	best, err := Best().ChooseRecoding(m, "l2", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := Best().ChooseRecoding(m, "book:4:2:1:-3", nil)
	if err != nil || !slices.Equal(Codebook(r.Codebook), []float32{-3, 1, 2, 4}) || r.L2 != best.L2 || r.Sym != best.Sym {
		t.Errorf("%+v, %v", r, err)
	}
	dst := make([]byte, len(m.Codes))
	if _, err := Best().Recode(dst, m, r); err != nil {
		t.Fatal(err)
	}
	// 0, 0.5, 1, 1.5, 2, 3, 4, 6, then the same below 0: halfway goes to the smaller one.
	want := []byte{2, 2, 2, 2, 4, 4, 6, 6, 2, 2, 2, 13, 13, 13, 13, 13} // −1 is as far from 1 as from −3
	for i, w := range want {
		if dst[i] != w*17 {
			t.Errorf("code %d becomes %d, want %d", i, dst[i]&15, w)
		}
	}
}

// What is no codebook is refused by kernels as well.
func TestNamedBooksThatAreNone(t *testing.T) {
	for method, says := range map[string]string{
		"book:1:2:3": "3 values", "book:1:2:3:4:6": "5 values", "book:1:1:2:3": "1 is there twice", "book:-0:1:2:3": `"-0"`, "book:.5:1:2:3": `".5"`,
		"book:": `""`, "book:5:1:2:3": `"5"`, "book:+1:2:3:4": `"+1"`, "book:0:1:2:nan": `"nan"`, "book:1,2,3,4": `"1,2,3,4"`, "book: 1:2:3:4": `" 1"`,
	} {
		for _, format := range []string{"code2", "code2-mxfp4"} {
			_, err := Best().BeginCodebook(Spec{Format: format, Method: method}, F32, 16, 1, nil)
			if !errors.Is(err, ErrRange) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "-1.5") {
				t.Errorf("%s, %s: %v", format, method, err)
			}
		}
		if _, err := Best().BeginRecoding(FP4{Format: "mxfp4", Convention: CT32, Cols: 32}, method, nil); !errors.Is(err, ErrRange) {
			t.Errorf("recode, %s: %v", method, err)
		}
	}
	if _, err := Best().BeginCodebook(Spec{Format: "nvfp4", Method: "book:1:2:3:4"}, F32, 16, 1, nil); !errors.Is(err, ErrUnsupported) {
		t.Errorf("nvfp4: %v", err)
	}
	if _, err := Best().BeginCodebook(Spec{Format: "code2", Method: "rtn"}, F32, 16, 1, nil); !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "mirror, book:A:B:C:D") {
		t.Errorf("rtn: %v", err)
	}
}
