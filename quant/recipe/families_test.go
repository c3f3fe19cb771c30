package recipe

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"quantscope/quant/topology"
	"quantscope/quant/topology/topologytest"
)

var update = flag.Bool("update", false, "rewrite golden files")

// goldenFamilies are the headers of the newest families that quant/topology tests
// with: golden models, and releases with their towers and MTP layers.
var goldenFamilies = []string{
	"qwen3_next", "qwen3_5", "qwen3_5_moe", "step3p7", "deepseek_v2", "deepseek_v4", "gemma4_moe", "gemma4_ple",
	"qwen3_next_release", "qwen3_5_release", "qwen3_5_moe_release", "step3p7_release", "deepseek_v4_release", "deepseek_v4_transformers", "gemma4_moe_release", "gemma4_ple_release",
}

// family is a header of quant/topology's, and the bytes of its tensors.
func family(t testing.TB, name string) (*topology.Model, []int64) {
	t.Helper()
	config, tensors := topologytest.Header(t, name)
	size := make([]int64, len(tensors))
	for i := range tensors {
		size[i] = map[string]int64{"F32": 4, "I64": 8, "BF16": 2}[tensors[i].DType]
		if size[i] == 0 {
			size[i] = 1
		}
		for _, d := range tensors[i].Shape {
			size[i] *= d
		}
	}
	return resolve(t, string(config), tensors), size
}

// shapesOf lists names with numbers taken out, each with how often it stands.
func shapesOf(b *strings.Builder, names []string) {
	counts := map[string]int{}
	var order []string
	for _, name := range names {
		var segs []string
		for seg := range strings.SplitSeq(name, ".") {
			at := strings.IndexByte(seg, '[')
			switch {
			case strings.Trim(seg, "0123456789") == "":
				seg = "N"
			case at > 0:
				seg = seg[:at] + "[N]"
			}
			segs = append(segs, seg)
		}
		text := strings.Join(segs, ".")
		if counts[text] == 0 {
			order = append(order, text)
		}
		counts[text]++
	}
	for _, text := range order {
		fmt.Fprintf(b, "  %4d %s\n", counts[text], text)
	}
}

// What is taken without targets, what by a pattern that names everything, and what is
// left alone by that and why: of each of the newest families, name by name.
func TestFamilies(t *testing.T) {
	for _, name := range goldenFamilies {
		t.Run(name, func(t *testing.T) {
			m, size := family(t, name)
			var b strings.Builder
			for _, targets := range []string{"", "*"} {
				s, err := Select(m, targets)
				fmt.Fprintf(&b, "targets %q: %d matrices\n", targets, len(s.Matrices))
				if err != nil {
					fmt.Fprintf(&b, "  %v\n", err)
				}
				shapesOf(&b, names(s))
				if targets == "" {
					continue
				}
				taken := map[string]bool{}
				for _, n := range names(s) {
					taken[n] = true
				}
				b.WriteString("left alone\n")
				params, matrices := int64(0), 0
				for _, p := range LeftAlone(m, size, func(k int) bool { return taken[m.Matrices[k].Name] }, func(int) string { return "NO REASON" }) {
					fmt.Fprintf(&b, "  %4d tensors, %d matrices, %d params, %d bytes: %s (%s)\n", p.Tensors, p.Matrices, p.Params, p.Bytes, p.Part, p.Why)
					params, matrices = params+p.Params, matrices+p.Matrices
				}
				for i := range s.Matrices {
					params += int64(s.Matrices[i].Rows) * int64(s.Matrices[i].Cols)
				}
				if params != m.TotalParams || matrices+len(s.Matrices) != len(m.Matrices) {
					t.Errorf("%d parameters of %d, %d matrices of %d", params, m.TotalParams, matrices+len(s.Matrices), len(m.Matrices))
				}
			}
			path := filepath.Join("testdata", name+".targets")
			if *update {
				if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatalf("%v (go test ./quant/recipe -update writes it)", err)
			}
			if diff := gocmp.Diff(string(want), b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// No built-in recipe, and no default, stores what is to be left alone; each names it
// in ignore, where a server could look for it.
func TestBuiltinsLeaveAlone(t *testing.T) {
	for _, name := range goldenFamilies {
		m, _ := family(t, name)
		for _, builtin := range Builtins() {
			f, err := Builtin(builtin, m)
			if err != nil {
				continue // nothing of what it is for
			}
			r, err := f.Resolve(m.Matrices)
			if err != nil {
				t.Fatalf("%s, %s: %v", name, builtin, err)
			}
			named := map[int]bool{}
			for _, list := range r.Ignore {
				for _, k := range list {
					named[k] = true
				}
			}
			for k := range m.Matrices {
				role := &m.Matrices[k].Role
				what := Kept(role)
				switch {
				case what == "" || role.Kind == topology.Head && builtin == "mixed-nvfp4-fp8":
				case r.Group[k] >= 0:
					t.Errorf("%s, %s: stores %s, %s", name, builtin, m.Matrices[k].Name, what)
				case !named[k]:
					t.Errorf("%s, %s: %s, %s, is not in ignore", name, builtin, m.Matrices[k].Name, what)
				}
			}
		}
	}
}

// A pattern of its own takes what is usually kept, and the note says what it is.
func TestPatternsOfTheirOwn(t *testing.T) {
	for _, c := range []struct {
		family, targets string
		matrices        int
		what            string
	}{
		{"qwen3_next", "*.in_proj_ba", 3, "3 of a kind that is usually kept: a gate of linear attention"},
		{"qwen3_next", "*.shared_expert_gate", 4, "4 of a kind that is usually kept: the gate of a shared expert"},
		{"qwen3_next", "*.linear_attn.*", 6, "not taken: 15; the first, model.layers.0.linear_attn.A_log: a vector"},
		{"qwen3_5", "*.in_proj_[ab]", 6, "6 of a kind that is usually kept: a gate of linear attention"},
		{"step3p7", "*.g_proj", 3, "3 of a kind that is usually kept: a gate of attention heads"},
		{"deepseek_v4", "*.indexer.*", 4, "4 of a kind that is usually kept: part of an indexer"},
		{"deepseek_v4", "*.attn.compressor.*", 4, "4 of a kind that is usually kept: part of a compressor"},
		{"deepseek_v4", "*hc_*_fn", 7, "7 of a kind that is usually kept: a hyper-connection"},
		{"gemma4_ple", "*embed_tokens_per_layer", 1, "1 of a kind that is usually kept: a table of per-layer embeddings"},
		{"gemma4_ple", "*.per_layer_input_gate", 4, "4 of a kind that is usually kept: a per-layer input"},
	} {
		m, _ := family(t, c.family)
		s, err := Select(m, c.targets)
		if err != nil {
			t.Fatalf("%s, %s: %v", c.family, c.targets, err)
		}
		if len(s.Matrices) != c.matrices || !strings.Contains(strings.Join(s.Notes, "\n"), c.what) {
			t.Errorf("%s, %s: %d matrices, notes %q; want %d, %q", c.family, c.targets, len(s.Matrices), s.Notes, c.matrices, c.what)
		}
	}
}
