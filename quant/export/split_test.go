package export

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"quantscope/quant/checkpoint"
)

func filesOf(sizes ...int64) []checkpoint.File {
	out := make([]checkpoint.File, len(sizes))
	for i, n := range sizes {
		out[i].Size = n
	}
	return out
}

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		sizes []int64
		of    int
		want  [][]int
	}{
		{[]int64{5, 5, 5, 5}, 1, [][]int{{0, 1, 2, 3}}},
		{[]int64{5, 5, 5, 5}, 2, [][]int{{0, 1}, {2, 3}}},
		{[]int64{5, 5, 5, 5}, 3, [][]int{{0}, {1, 2}, {3}}},
		{[]int64{100, 1, 1, 1}, 2, [][]int{{0}, {1, 2, 3}}},
		{[]int64{1, 1, 1, 100}, 3, [][]int{{0, 1}, {2}, {3}}},
		{[]int64{1, 2, 1}, 2, [][]int{{0}, {1, 2}}}, // the ends after 1 and after 3 are equally near to 2
		{[]int64{0, 0, 0}, 3, [][]int{{0}, {1}, {2}}},
		{[]int64{1 << 62, 1 << 62}, 2, [][]int{{0}, {1}}},
	} {
		got, err := Split(filesOf(c.sizes...), c.of)
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("%v in %d: %v, %v, want %v", c.sizes, c.of, got, err, c.want)
		}
	}
	for _, of := range []int{-1, 0, 3} {
		if _, err := Split(filesOf(1, 1), of); err == nil {
			t.Errorf("2 files in %d parts", of)
		}
	}
}

// Parts are runs of all files in order, none empty, and no end of a part comes
// nearer to its share by moving over one file.
func TestSplitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.Int64Range(0, 1000), 1, 40).Draw(t, "sizes")
		of := rapid.IntRange(1, len(sizes)).Draw(t, "of")
		parts, err := Split(filesOf(sizes...), of)
		if err != nil || len(parts) != of {
			t.Fatalf("%v, %v", parts, err)
		}
		var total, end uint64
		for _, n := range sizes {
			total += uint64(n)
		}
		next := 0
		for p, files := range parts {
			if len(files) == 0 {
				t.Fatalf("part %d is empty: %v", p, parts)
			}
			for _, f := range files {
				if f != next {
					t.Fatalf("files are not in order: %v", parts)
				}
				end += uint64(sizes[f])
				next++
			}
			want := share(total, p+1, of)
			if p == of-1 {
				continue
			}
			if last := files[len(files)-1]; len(files) > 1 && distance(end-uint64(sizes[last]), want) < distance(end, want) {
				t.Errorf("part %d would end better before file %d: %v", p, last, parts)
			}
			if len(parts[p+1]) > 1 && distance(end+uint64(sizes[next]), want) < distance(end, want) {
				t.Errorf("part %d would end better after file %d: %v", p, next, parts)
			}
		}
		if next != len(sizes) {
			t.Errorf("%d of %d files: %v", next, len(sizes), parts)
		}
	})
}
