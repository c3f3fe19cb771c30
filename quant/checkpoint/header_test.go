package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// parse is a header read and checked by itself.
func parse(text []byte, dataSize int64) (*header, error) {
	h, err := parseHeader(text, dataSize)
	if err == nil {
		err = h.check(dataSize, map[string]int32{}, 0)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

func TestHeaderRefused(t *testing.T) {
	u8 := func(fields string) string { return `{"w":{` + fields + `}}` }
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	for _, c := range []struct {
		name, header string
		data         int
		want         []string
	}{
		{"empty", ``, 0, []string{"header", "byte 0"}},
		{"an array", `[]`, 0, []string{"want '{'"}},
		{"blank before", ` {}`, 0, []string{"want '{'"}},
		{"without an end", `{"w":{"dtype":"U8"`, 0, []string{`"w"`, "the end of the text"}},
		{"name without an end", `{"w`, 0, []string{"string without an end"}},
		{"two objects", `{}{}`, 0, []string{"want nothing more", "byte 2"}},
		{"NUL after", "{}\x00", 0, []string{"want nothing more", `'\x00'`}},
		{"comma at the end", object(entry("w", 0, 1)) + ",", 1, []string{"want nothing more"}},
		{"comma before brace", "{" + entry("w", 0, 1) + ",}", 1, []string{"found '}'"}},
		{"invalid UTF-8", "{\"w\xff\":{}}", 0, []string{"invalid UTF-8 at byte 3"}},
		{"UTF-8 surrogate", "{\"\xed\xa0\x80\":{}}", 0, []string{"invalid UTF-8"}},
		{"control character", "{\"w\n\":{}}", 0, []string{"control character"}},
		{"lone high surrogate", `{"\ud83d":{}}`, 0, []string{"lone surrogate D83D"}},
		{"lone low surrogate", `{"\ude80":{}}`, 0, []string{"lone surrogate DE80"}},
		{"two high surrogates", `{"\ud83d\ud83d":{}}`, 0, []string{"lone surrogate"}},
		{"short escape", `{"\u12":{}}`, 0, []string{"four hex digits"}},
		{"bad escape", `{"\x":{}}`, 0, []string{"unknown escape"}},
		{"nested", u8(`"x":` + deep), 0, []string{`"w"`, "nested more than 64 deep"}},
		{"not an object", `{"w":3}`, 0, []string{`"w"`, "want '{'", "found '3'"}},
		{"no dtype", u8(`"shape":[1],"data_offsets":[0,1]`), 1, []string{`"w"`, "no dtype"}},
		{"wrong case", u8(`"DTYPE":"U8","shape":[1],"data_offsets":[0,1]`), 1, []string{`"w"`, "no dtype"}},
		{"no shape", u8(`"dtype":"U8","data_offsets":[0,1]`), 1, []string{`"w"`, "no shape"}},
		{"no offsets", u8(`"dtype":"U8","shape":[1]`), 1, []string{`"w"`, "no data_offsets"}},
		{"dtype twice", u8(`"dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1]`), 1, []string{`"w"`, "duplicate", "dtype"}},
		{"dtype twice by escape", u8(`"dtype":"U8","\u0064type":"I8","shape":[1],"data_offsets":[0,1]`), 1, []string{`"w"`, "duplicate", "dtype"}},
		{"dtype in small letters", u8(`"dtype":"u8","shape":[1],"data_offsets":[0,1]`), 1, []string{`"w"`, `unknown dtype "u8"`}},
		{"6-bit dtype", u8(`"dtype":"F6_E2M3","shape":[4],"data_offsets":[0,3]`), 3, []string{`"w"`, `unknown dtype "F6_E2M3"`}},
		{"name with control characters", `{"a\u001b[31m":{"dtype":"?"}}`, 0, []string{`"a\x1b[31m"`}},
		{"negative dimension", u8(`"dtype":"U8","shape":[-1],"data_offsets":[0,1]`), 1, []string{`"w"`, "found '-'"}},
		{"dimension with a fraction", u8(`"dtype":"U8","shape":[1.0],"data_offsets":[0,1]`), 1, []string{`"w"`, "fraction"}},
		{"dimension with an exponent", u8(`"dtype":"U8","shape":[1e0],"data_offsets":[0,1]`), 1, []string{`"w"`, "exponent"}},
		{"leading zero", u8(`"dtype":"U8","shape":[01],"data_offsets":[0,1]`), 1, []string{`"w"`, "leading 0"}},
		{"dimension of 2^63", u8(`"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,1]`), 1, []string{`"w"`, "above 9223372036854775807"}},
		{"dimension of 2^64+1", u8(`"dtype":"U8","shape":[18446744073709551617],"data_offsets":[0,1]`), 1, []string{`"w"`, "above"}},
		{"product of 2^63 elements", u8(`"dtype":"F4","shape":[4294967296,2147483648],"data_offsets":[0,1]`), 1, []string{`"w"`, "overflow"}},
		{"size of 2^63 bytes", u8(`"dtype":"F64","shape":[4611686018427387904,1],"data_offsets":[0,0]`), 0, []string{`"w"`, "size"}},
		{"too many dimensions", u8(`"dtype":"U8","shape":[` + strings.Repeat("1,", 64) + `1],"data_offsets":[0,1]`), 1, []string{`"w"`, "more than 64 dimensions"}},
		{"F4 with half a byte", u8(`"dtype":"F4","shape":[3],"data_offsets":[0,2]`), 2, []string{`"w"`, "whole bytes"}},
		{"one offset", u8(`"dtype":"U8","shape":[1],"data_offsets":[1]`), 1, []string{`"w"`, "two data_offsets"}},
		{"three offsets", u8(`"dtype":"U8","shape":[1],"data_offsets":[0,1,2]`), 1, []string{`"w"`, "two data_offsets"}},
		{"offsets backwards", u8(`"dtype":"U8","shape":[1],"data_offsets":[1,0]`), 1, []string{`"w"`, "end before they begin"}},
		{"offset of 2^64-1", u8(`"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]`), 1, []string{`"w"`, "above"}},
		{"size mismatch", u8(`"dtype":"BF16","shape":[2],"data_offsets":[0,2]`), 2, []string{`"w"`, "size mismatch", "[2]", "4 bytes"}},
		{"range too long", u8(`"dtype":"U8","shape":[2],"data_offsets":[0,4]`), 4, []string{`"w"`, "size mismatch", "needs 2 bytes", "hold 4"}},
		{"cut by a byte", object(entry("a", 0, 4)), 3, []string{`"a"`, "truncated", "4 bytes 3 are there"}},
		{"hole at the start", object(entry("w", 1, 2)), 2, []string{`"w"`, "hole", "0 to 1"}},
		{"hole at the end", object(entry("w", 0, 1)), 3, []string{"hole", "1 to 3"}},
		{"data without tensors", `{}`, 1, []string{"hole", "0 to 1"}},
		{"partial overlap", object(entry("a", 0, 4), entry("b", 3, 6)), 6, []string{`"a"`, `"b"`, "overlap"}},
		{"overlap of three", object(entry("a", 0, 9), entry("b", 9, 9), entry("c", 8, 9)), 9, []string{`"a"`, `"c"`, "overlap"}},
		{"empty one inside another", object(entry("a", 0, 4), entry("b", 2, 2)), 4, []string{`"a"`, `"b"`, "overlap"}},
		{"two cut", object(entry("a", 0, 4), entry("b", 4, 8), entry("c", 8, 12)), 6, []string{`tensor "b"`, "truncated", "1 tensors after it"}},
		{"metadata is a list", `{"__metadata__":[]}`, 0, []string{"want '{'"}},
		{"metadata with a number", `{"__metadata__":{"a":1}}`, 0, []string{"__metadata__", `"a"`, "not a string"}},
		{"metadata twice", `{"__metadata__":{},"__metadata__":{}}`, 0, []string{"duplicate", "__metadata__"}},
		{"metadata key twice", `{"__metadata__":{"a":"","a":""}}`, 0, []string{"duplicate", `"a"`}},
		{"name twice by escape", object(entry("ab", 0, 1), `"a\u0062":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}`), 2, []string{`"ab"`, "duplicate"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse([]byte(c.header), int64(c.data))
			wantError(t, err, c.want...)
			var fe *FileError
			if !errors.As(err, &fe) {
				t.Errorf("%T is no FileError", err)
			}
		})
	}
}

func TestHeaderAccepted(t *testing.T) {
	for _, c := range []struct {
		name, header string
		data         int
		want         string // name, dtype, shape, offset and size of each tensor
	}{
		{"nothing", `{}`, 0, ``},
		{"metadata alone", `{"__metadata__":{}}`, 0, ``},
		{"blanks", "{ \"w\" :\t{\"dtype\" : \"U8\",\r\n\"shape\" : [ 1 ] , \"data_offsets\" : [ 0 , 1 ] } } \n\t ", 1, `"w" U8 [1] 0+1;`},
		{"scalar", `{"w":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4, `"w" F32 [] 0+4;`},
		{"other fields", `{"w":{"x":{"dtype":[null,true,-0.5e+3,"\""]},"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, `"w" U8 [1] 0+1;`},
		{"escapes", `{"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude80":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1, `"\"\\/\b\f\n\r\té🚀" U8 [1] 0+1;`},
		{"order", object(entry("a", 2, 3), entry("b", 0, 2)), 3, `"b" U8 [2] 0+2;"a" U8 [1] 2+1;`},
		{"empty ones", object(entry("b", 0, 2), entry("c", 2, 2), entry("a", 0, 0)), 2, `"a" U8 [0] 0+0;"b" U8 [2] 0+2;"c" U8 [0] 2+0;`},
		{"no name", object(entry("", 0, 1)), 1, `"" U8 [1] 0+1;`},
		{"names that differ in form only", object(entry("\u00e9", 0, 1), entry("e\u0301", 1, 2)), 2, "\"\u00e9\" U8 [1] 0+1;\"e\u0301\" U8 [1] 1+1;"},
		{"64 dimensions", `{"w":{"dtype":"U8","shape":[` + strings.Repeat("1,", 63) + `1],"data_offsets":[0,1]}}`, 1, `"w" U8 [` + strings.Repeat("1 ", 63) + `1] 0+1;`},
		{"F4", `{"w":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}}`, 3, `"w" F4 [3 2] 0+3;`},
		{"C64", `{"w":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}`, 8, `"w" C64 [1] 0+8;`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, err := parse([]byte(c.header), int64(c.data))
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			for _, w := range h.tensors {
				fmt.Fprintf(&got, "%q %s %v %d+%d;", w.Name, w.DType, w.Shape, w.Offset, w.Size)
			}
			if got.String() != c.want {
				t.Errorf("got  %s\nwant %s", got.String(), c.want)
			}
		})
	}
}

// Every dtype is known by its spelling and has its size.
func TestDTypes(t *testing.T) {
	want := map[string]int{
		"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
		"F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F4": 4, "I8": 8, "I16": 16, "I32": 32, "I64": 64,
		"U8": 8, "U16": 16, "U32": 32, "U64": 64, "BOOL": 8, "C64": 64,
	}
	for name, bits := range want {
		d, ok := ParseDType(name)
		if !ok || d.String() != name || d.Bits() != bits {
			t.Errorf("%s: %v, %s of %d bits, want %d", name, ok, d, d.Bits(), bits)
		}
	}
	if len(dtypes)-1 != len(want) {
		t.Errorf("%d dtypes in the table, %d tested", len(dtypes)-1, len(want))
	}
	for _, name := range []string{"", "invalid", "bf16", "F8_E3M4"} {
		if d, ok := ParseDType(name); ok {
			t.Errorf("%q is %s", name, d)
		}
	}
	if DType(0).Bits() != 0 || DType(200).Bits() != 0 || DType(200).String() != "invalid" {
		t.Error("values that are no dtype have a size or a name")
	}
}

// manyTensors is the header of a large mixture-of-experts model, about 120
// bytes a tensor.
func manyTensors(n int) (text []byte, dataSize int64) {
	tensors := make([]Tensor, n)
	for i := range tensors {
		projection := [...]string{"gate_proj", "up_proj", "down_proj"}[i%3]
		tensors[i] = Tensor{
			Name:  fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s.weight", i/768, i/3%256, projection),
			DType: BF16, Shape: []int64{2, 4}, Offset: int64(i) * 16, Size: 16,
		}
	}
	return appendHeader(nil, tensors, map[string]string{"format": "pt"}), int64(n) * 16
}

// A header of 50,000 tensors costs allocations by the block, not by the
// tensor: names share one string, shapes share blocks.
func TestHeaderAllocations(t *testing.T) {
	const tensors = 50_000
	text, size := manyTensors(tensors)
	var h *header
	n := testing.AllocsPerRun(3, func() {
		var err error
		if h, err = parseHeader(text, size); err != nil {
			t.Fatal(err)
		}
	})
	if len(h.tensors) != tensors {
		t.Fatalf("%d tensors, want %d", len(h.tensors), tensors)
	}
	if limit := float64(tensors) / 20; n > limit {
		t.Errorf("%.0f allocations for %d tensors, want at most %.0f", n, tensors, limit)
	}
}

func BenchmarkHeader50k(b *testing.B) {
	text, size := manyTensors(50_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parse(text, size); err != nil {
			b.Fatal(err)
		}
	}
}

// maxPerByte bounds what parsing may allocate for each byte of a header,
// beyond a constant: a tensor takes about 200 bytes with its map entry, and an
// entry of a header is at least 48 bytes long; slices and maps grow by
// doubling.
const maxPerByte = 24

func FuzzHeader(f *testing.F) {
	for _, path := range seedFiles {
		head := readSeed(f, path)
		for cut := len(head); cut > 0; cut = cut * 3 / 4 {
			f.Add(head[:cut], int64(64))
		}
		f.Add(head, int64(128))
	}
	f.Add([]byte(`{"\ud83d\ude80":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}  `), int64(1))
	f.Fuzz(func(t *testing.T, text []byte, dataSize int64) {
		if dataSize < 0 {
			return
		}
		var h *header
		var err error
		n := allocated(func() { h, err = parse(text, dataSize) })
		if limit := uint64(64<<10 + maxPerByte*len(text)); n > limit {
			t.Errorf("%d bytes allocated for %d bytes of header, want at most %d", n, len(text), limit)
		}
		if err != nil {
			var fe *FileError
			if !errors.As(err, &fe) {
				t.Errorf("%T is no FileError: %v", err, err)
			}
			if strings.ContainsAny(err.Error(), "\n\r\x1b") {
				t.Errorf("not one clean line: %q", err.Error())
			}
			return
		}
		again, err := parse(appendHeader(nil, h.tensors, h.metadata), dataSize)
		if err != nil {
			t.Fatalf("encoded again: %v", err)
		}
		same := func(a, b Tensor) bool {
			return a.Name == b.Name && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && a.Offset == b.Offset && a.Size == b.Size
		}
		if !slices.EqualFunc(h.tensors, again.tensors, same) {
			t.Errorf("encoded again: %v\nwas: %v", again.tensors, h.tensors)
		}
		if !bytes.Equal(appendHeader(nil, h.tensors, h.metadata), appendHeader(nil, again.tensors, again.metadata)) {
			t.Error("encodings differ")
		}
	})
}
