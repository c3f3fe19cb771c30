package recipe

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/quant/topology"
)

// back writes an assignment as a file and resolves what is read back.
func back(t interface{ Fatalf(string, ...any) }, ms []topology.Matrix, choice []int) *File {
	f, err := FromAssignment(ms, choice, kinds)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if len(f.Groups) == 0 {
		if slices.Max(choice) >= 0 {
			t.Fatalf("%v: no groups", choice)
		}
		return f
	}
	data, err := f.Encode()
	if err != nil {
		t.Fatalf("%v", err)
	}
	read, err := ParseFile(data, "r.yaml", nil)
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	r, err := read.Resolve(ms)
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	if r.Err() != nil {
		t.Fatalf("%v in\n%s", r.Err(), data)
	}
	for i, c := range choice {
		got := -1
		if g := r.Group[i]; g >= 0 {
			got = slices.IndexFunc(kinds, func(k Group) bool { return k.Variant() == read.Groups[g].Variant() })
		}
		if got != c {
			t.Fatalf("%s: %d, want %d, in\n%s", ms[i].Name, got, c, data)
		}
		if c < 0 && !named(ms[i].Name, append(slices.Clone(read.Ignore), read.Exemptions...)) {
			t.Fatalf("%s is kept, and neither ignored nor exempted in\n%s", ms[i].Name, data)
		}
	}
	return f
}

// named says whether one of some patterns matches a matrix.
func named(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		m, err := ParseTarget(p)
		return err == nil && (m.Match(name) || m.Match(strings.TrimSuffix(name, ".weight")))
	})
}

func count(f *File) int {
	n := len(f.Exemptions) + len(f.Ignore)
	for _, g := range f.Groups {
		n += len(g.Targets)
	}
	return n
}

// Whatever is assigned comes back, over layers, experts and projections.
func TestAssignmentsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ms := grid(rapid.IntRange(1, 12).Draw(t, "layers"), rapid.IntRange(1, 14).Draw(t, "experts"))
		seed := rapid.Uint64().Draw(t, "seed")
		rng := rand.New(rand.NewPCG(seed, 1))
		way := rapid.IntRange(0, 4).Draw(t, "way")
		dealt := map[string]int{}
		choice := make([]int, len(ms))
		for i, m := range ms {
			key := ""
			switch r := m.Role; way {
			case 0:
				key = m.Name
			case 1:
				key = strconv.Itoa(r.Layer)
			case 2:
				key = strconv.Itoa(r.Expert)
			case 3:
				key = r.Projection + strconv.Itoa(r.Layer%2)
			case 4:
				key = "rest"
				if rng.IntN(12) == 0 {
					key = m.Name
				}
			}
			if _, ok := dealt[key]; !ok {
				dealt[key] = rng.IntN(len(kinds)+1) - 1
			}
			choice[i] = dealt[key]
		}
		back(t, ms, choice)
	})
}

// So it does for names made to be confused.
func TestHostileNamesComeBack(t *testing.T) {
	name := rapid.StringMatching(`(re:|a|b|0|1|12|007|\.|\[1\]|\*|\?|\\|\[|\]|é|'|"|\n|\x{1}|\(|\+|\$|#|: |-|\.weight){1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(name, 1, 20, rapid.ID[string]).Draw(t, "names")
		var ms []topology.Matrix
		for _, n := range names {
			m := topology.Matrix{Name: n, Tensor: n, Role: topology.Role{Param: "weight"}}
			if strings.HasSuffix(n, ".weight") && !slices.Contains(names, strings.TrimSuffix(n, ".weight")) {
				m.Tensor = strings.TrimSuffix(n, ".weight") + "x"
			}
			ms = append(ms, m)
		}
		var choice []int
		for range ms {
			choice = append(choice, rapid.IntRange(-1, len(kinds)-1).Draw(t, "choice"))
		}
		back(t, ms, choice)
	})
}

// What belongs together is written together.
func TestAssignmentsAreShort(t *testing.T) {
	ms := grid(46, 128)
	for _, c := range []struct {
		name string
		of   func(r topology.Role) int
		most int
	}{
		{"all in one", func(topology.Role) int { return 0 }, 1},
		{"whole layers", func(r topology.Role) int { return []int{0, 0, 0, 0, 1, 2, -1}[r.Layer%7] }, 4},
		{"a run of experts", func(r topology.Role) int { return boolInt(r.Expert >= 17 && r.Expert < 99) }, 2},
		{"projections", func(r topology.Role) int { return boolInt(r.Projection == "down") }, 2},
		{"one exempted", func(r topology.Role) int {
			return -boolInt(r.Layer == 3 && r.Expert == 7 && r.Projection == "up")
		}, 2},
	} {
		choice := make([]int, len(ms))
		for i, m := range ms {
			choice[i] = c.of(m.Role)
		}
		if f := back(t, ms, choice); count(f) > c.most {
			t.Errorf("%s: %d patterns, want at most %d", c.name, count(f), c.most)
		}
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Patterns match nothing that was not assigned.
func TestPatternsAreTight(t *testing.T) {
	ms, more := grid(5, 9), grid(30, 40)
	for _, m := range ms { // what a quantizer may put beside them
		m.Name += "_scale"
		m.Tensor, m.Role.Param = m.Name, "weight_scale"
		more = append(more, m)
	}
	choice := make([]int, len(ms))
	f := back(t, ms, choice)
	r, err := f.Resolve(more)
	if err != nil || r.Matched[0] != len(ms) {
		t.Errorf("%d of a larger checkpoint, %v", r.Matched[0], err)
	}
}

func BenchmarkRecipe(b *testing.B) {
	ms := grid(61, 203)
	rng := rand.New(rand.NewPCG(1, 1))
	choice := make([]int, len(ms))
	for i := range choice {
		choice[i] = rng.IntN(4) - 1
	}
	f, err := FromAssignment(ms, choice, kinds)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("FromAssignment", func(b *testing.B) {
		for b.Loop() {
			if _, err := FromAssignment(ms, choice, kinds); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Resolve", func(b *testing.B) {
		for b.Loop() {
			if _, err := f.Resolve(ms); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What stands for the numbers of a name inside can stand in a name as well.
func TestControlCharactersInNames(t *testing.T) {
	var matrices []topology.Matrix
	for _, name := range []string{"a.1.b", "a.\x00.b", "a.2.b", "a.\x01.b", "\x01.b", "a.\x02"} {
		matrices = append(matrices, topology.Matrix{Name: name, Tensor: name, Rows: 1, Cols: 1})
	}
	choice := []int{0, 0, 0, 1, 1, 1}
	f, err := FromAssignment(matrices, choice, []Group{{Scheme: "nvfp4"}, {Scheme: "fp8"}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := ParseFile(text, "recipe.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := back.Resolve(matrices)
	if err != nil || len(r.Overlaps) > 0 || len(r.NoMatch) > 0 {
		t.Fatalf("%v, %+v", err, r)
	}
	for i, g := range r.Group {
		if want := []string{"nvfp4", "fp8"}[choice[i]]; g < 0 || back.Groups[g].Scheme != want {
			t.Errorf("%q is in group %d, want %s", matrices[i].Name, g, want)
		}
	}
}

// A recipe that stores what is to be kept, or in another group, does not give an
// assignment.
func TestGives(t *testing.T) {
	ms := []topology.Matrix{{Name: "a.0", Tensor: "a.0"}, {Name: "a.1", Tensor: "a.1"}}
	f := &File{Groups: []Group{{Scheme: "nvfp4", Targets: []string{"a.*"}}}}
	for _, c := range []struct {
		choice []int
		want   bool
	}{{[]int{0, 0}, true}, {[]int{0, -1}, false}, {[]int{-1, 0}, false}} {
		if got := f.gives(ms, c.choice, []Group{{Scheme: "nvfp4"}}); got != c.want {
			t.Errorf("%v: %v", c.choice, got)
		}
	}
}

// A glob matches names that begin as it does, also where one of them is all of that.
func TestGlobBeyondAName(t *testing.T) {
	ms := []topology.Matrix{{Name: "a.q", Tensor: "a.q"}, {Name: "a.qkv", Tensor: "a.qkv"}}
	f := &File{Groups: []Group{{Scheme: "nvfp4", Targets: []string{"a.q*"}}}}
	r, err := f.Resolve(ms)
	if err != nil || r.Matched[0] != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

// What other readers of YAML take for true, false or nothing stands in quotes.
func TestWordsOfYAML(t *testing.T) {
	for _, word := range []string{"y", "N", "yes", "no", "On", "off", "true", "False", "NULL"} {
		data, err := (&File{Name: word, Groups: []Group{{Scheme: "nvfp4", Targets: []string{"a"}}}}).Encode()
		if err != nil || !strings.HasPrefix(string(data), "name: '"+word+"'\n") {
			t.Errorf("%v: %s", err, data)
		}
	}
}
