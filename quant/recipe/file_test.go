package recipe

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"quantscope/quant/topology"
)

const example = `# a comment
name: budget 4.6
source: 0f3a
groups:
  - scheme: nvfp4
    methods: [mse]
    targets:
      - 're:model\.layers\.[0-9]\.mlp\.experts\.\d+\.(gate|up)_proj\.weight$'
      - model.layers.10.mlp.experts.0.gate_proj.weight
  - targets: ["*.down_proj"]
    scheme: int4-g128
ignore:
  - "*lm_head*"
exemptions:
  - '*.experts.3.down_proj'
`

func refuse(scheme string, methods []string) error {
	if scheme == "nvfp5" || slices.Contains(methods, "best") {
		return fmt.Errorf("%s with %v: unknown (known: nvfp4, int4-g128)", scheme, methods)
	}
	return nil
}

func TestParseFile(t *testing.T) {
	f, err := ParseFile([]byte(example), "r.yaml", refuse)
	if err != nil {
		t.Fatal(err)
	}
	want := &File{
		Name: "budget 4.6", Source: "0f3a",
		Groups: []Group{
			{Scheme: "nvfp4", Methods: []string{"mse"}, Targets: []string{`re:model\.layers\.[0-9]\.mlp\.experts\.\d+\.(gate|up)_proj\.weight$`, "model.layers.10.mlp.experts.0.gate_proj.weight"}},
			{Scheme: "int4-g128", Targets: []string{"*.down_proj"}},
		},
		Ignore: []string{"*lm_head*"}, Exemptions: []string{"*.experts.3.down_proj"},
	}
	if !reflect.DeepEqual(f, want) {
		t.Errorf("%+v", f)
	}
	if v := f.Groups[0].Variant() + " " + f.Groups[1].Variant(); v != "nvfp4+mse int4-g128" {
		t.Error(v)
	}
}

func TestParseFileRefuses(t *testing.T) {
	group := "groups:\n  - scheme: nvfp4\n    targets: ['*']\n"
	for _, c := range []struct{ text, part string }{
		{"", "empty"},
		{"# nothing\n", "empty"},
		{"null\n", ":1: a recipe has the keys"},
		{"- a\n", ":1: a recipe has the keys"},
		{"name: x\n", "no groups"},
		{"groups: []\n", "no groups"},
		{"groups: {}\n", "groups is a list, and is a mapping"},
		{group + "grups: []\n", `:4: unknown key "grups"`},
		{group + "name: a\nname: b\n", `:5: key "name" of a recipe is there already, in line 4`},
		{"groups:\n  - scheme: nvfp4\n    scheme: nvfp4\n    targets: ['*']\n", ":3: key"},
		{"groups:\n  - scheme: nvfp4\n    target: ['*']\n", `:3: unknown key "target" of a group (known: targets, scheme, methods)`},
		{"groups:\n  - targets: ['*']\n", "no scheme"},
		{"groups:\n  - scheme: nvfp4\n", "no targets"},
		{"groups:\n  - scheme: nvfp4\n    targets: []\n", "no targets"},
		{"groups:\n  - scheme: nvfp4\n    targets: a\n", ":3: targets is a list of texts, and is text"},
		{"groups:\n  - scheme: nvfp4\n    targets:\n      - a\n      - [b]\n", ":5: an entry of targets is text, and is a list"},
		{"groups:\n  - scheme: nvfp4\n    targets:\n      - a\n      - 're:('\n", ":5: target"},
		{"groups:\n  - scheme: nvfp4\n    targets:\n      - a\n      - ''\n", ":5: target"},
		{"groups:\n  - scheme: nvfp4\n    targets:\n      - a\n      -\n", ":5: an entry of targets is text, and is empty"},
		{"groups:\n  - scheme: nvfp4\n    targets:\n      - *.down_proj\n", "stands in quotes"},
		{"groups:\n  - scheme: nvfp5\n    targets: ['*']\n", ":2: nvfp5 with []: unknown"},
		{"groups:\n  - scheme: nvfp4\n    methods: [best]\n    targets: ['*']\n", "known: nvfp4, int4-g128"},
		{"a: &x 1\ngroups: *x\n", "unknown key"},
		{"name: &x a\nsource: *x\n" + group, ":2: source is text, and is an alias"},
		{"<<: {name: a}\n" + group, `unknown key "<<"`},
		{group + "---\n" + group, "second document"},
		{"groups: [\n", ""},
		{"name: \"\xff\"\n", "UTF-8"},
		{"\tname: x\n", ""},
	} {
		_, err := ParseFile([]byte(c.text), "r.yaml", refuse)
		if !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), c.part) || !strings.HasPrefix(err.Error(), "r.yaml:") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v, want %q", c.text, err, c.part)
		}
	}
}

func grid(layers, experts int) []topology.Matrix {
	var out []topology.Matrix
	for l := range layers {
		for e := range experts {
			for _, p := range []string{"gate", "up", "down"} {
				name := fmt.Sprintf("model.layers.%d.mlp.experts.%d.%s_proj.weight", l, e, p)
				out = append(out, topology.Matrix{Name: name, Tensor: name, Role: topology.Role{Kind: topology.Expert, Layer: l, Expert: e, Projection: p, Param: "weight"}})
			}
		}
	}
	return out
}

func TestResolve(t *testing.T) {
	f, err := ParseFile([]byte(example), "r.yaml", nil)
	if err != nil {
		t.Fatal(err)
	}
	ms := grid(11, 4)
	r, err := f.Resolve(ms)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range ms {
		want := -1
		switch role := m.Role; {
		case role.Projection == "down" && role.Expert != 3:
			want = 1
		case role.Projection != "down" && role.Layer < 10, m.Name == "model.layers.10.mlp.experts.0.gate_proj.weight":
			want = 0
		}
		if r.Group[i] != want {
			t.Errorf("%s: group %d, want %d", m.Name, r.Group[i], want)
		}
	}
	if !slices.Equal(r.Matched, []int{81, 33}) || r.Exempted != 11 || r.Ignored != 0 || r.Untargeted != 7 || len(r.Overlaps) != 0 {
		t.Errorf("%+v", r)
	}
	if len(r.NoMatch) != 1 || r.NoMatch[0].Where != "ignore" || r.Err() != nil {
		t.Errorf("%+v: %v", r.NoMatch, r.Err())
	}
	f.Groups[1].Targets = append(f.Groups[1].Targets, "*.layers.2.*.gate_proj", "*.layers.99.*")
	f.Exemptions = append(f.Exemptions, "*.layers.2.*.experts.1.gate_proj.weight", "*.layers.10.*.experts.2.up_proj")
	if r, err = f.Resolve(ms); err != nil {
		t.Fatal(err)
	}
	if len(r.Overlaps) != 3 || r.Overlaps[0] != (Overlap{"model.layers.2.mlp.experts.0.gate_proj.weight", 0, 1}) {
		t.Errorf("overlaps %+v", r.Overlaps)
	}
	if want := []NoMatch{{"groups[1]", "*.layers.99.*"}, {"ignore", "*lm_head*"}, {"exemptions", "*.layers.10.*.experts.2.up_proj"}}; !slices.Equal(r.NoMatch, want) {
		t.Errorf("%+v", r.NoMatch)
	}
	if err := r.Err(); !errors.Is(err, ErrFile) || !strings.Contains(err.Error(), "both match") {
		t.Error(err)
	}
}

// The numbers of a set match, written plainly, and no others do.
func TestNumbersRegex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int{12, 130, 1200, 20000}).Draw(t, "limit")
		in := map[int]bool{}
		for range rapid.IntRange(1, 6).Draw(t, "runs") {
			lo := rapid.IntRange(0, limit).Draw(t, "lo")
			for n := lo; n <= lo+rapid.IntRange(0, limit/4).Draw(t, "length"); n++ {
				in[n] = true
			}
		}
		var set []int
		for n := range in {
			set = append(set, n)
		}
		slices.Sort(set)
		re := regexp.MustCompile("^" + numbersRegex(set) + "$")
		for n := range 2 * limit {
			if s := strconv.Itoa(n); re.MatchString(s) != in[n] || re.MatchString("0"+s) {
				t.Fatalf("%v: %s on %d", set, re, n)
			}
		}
	})
	for want, set := range map[string][]int{
		"7": {7}, "[0-9]": {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, "(?:1[0-7]|[3-9])": {3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17},
		"[246]": {2, 4, 6}, "1": {1}, "10?": {1, 10}, "(?:1[01]?|2)": {1, 2, 10, 11}, "(?:1(?:00?|5)?|2)": {1, 2, 10, 15, 100},
	} {
		if got := numbersRegex(set); got != want {
			t.Errorf("%v: %s, want %s", set, got, want)
		}
	}
}

// Only numbers that stand by themselves and are written plainly are numbers.
func TestTakeApart(t *testing.T) {
	for name, want := range map[string][]int{
		"model.layers.3.mlp.experts.17.down_proj.weight": {3, 17}, "experts.gate_up_proj[3].gate": {3}, "0": {0}, "7.x": {7},
		"layers.07.w": nil, "fp8.w1.x2y": nil, "a.1234567890": nil, "[1]x": {1}, "x1]": nil, "": nil,
	} {
		parts, numbers := takeApart(name)
		if !slices.Equal(numbers, want) {
			t.Errorf("%s: %v, want %v", name, numbers, want)
		}
		text := parts.text[0]
		for i, n := range numbers {
			text += strconv.Itoa(n) + parts.text[i+1]
		}
		if text != name {
			t.Errorf("%s comes back as %s", name, text)
		}
	}
}

var kinds = []Group{{Scheme: "nvfp4", Methods: []string{"mse"}}, {Scheme: "int4-g128"}, {Scheme: "fp8"}}

func FuzzFile(f *testing.F) {
	f.Add(example)
	f.Add("groups:\n  - {scheme: a, targets: [b, 're:c']}\n")
	f.Add("? [a]\n: b\n")
	f.Add("a: &a [*a]\n")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := ParseFile([]byte(text), "r.yaml", nil)
		if err != nil {
			if !errors.Is(err, ErrFile) || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err)
			}
			return
		}
		data, err := file.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseFile(data, "r.yaml", nil)
		if err != nil {
			t.Fatalf("%v in %q", err, data)
		}
		for _, x := range []*File{file, again} {
			if len(x.Ignore) == 0 {
				x.Ignore = nil
			}
			if len(x.Exemptions) == 0 {
				x.Exemptions = nil
			}
			for g := range x.Groups {
				if len(x.Groups[g].Methods) == 0 {
					x.Groups[g].Methods = nil
				}
			}
		}
		if !reflect.DeepEqual(file, again) {
			t.Fatalf("%+v became %+v through %q", file, again, data)
		}
	})
}
