package suite

import (
	"encoding/json"
	"fmt"
	"go/ast"
	goparser "go/parser"
	"go/token"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// drawn makes n cases of a generator.
func drawn(t *testing.T, m *makeSpec, name string) []Case {
	t.Helper()
	all := Generators()
	i := slices.IndexFunc(all, func(g Generator) bool { return g.Name == name })
	if i < 0 {
		t.Fatalf("no generator %s", name)
	}
	m.gen = &all[i]
	cases, err := m.cases(maxText)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestDraw: numbers are the high halves of products with PCG-DXSM's. They are
// recorded, so that suites stay what they are.
func TestDraw(t *testing.T) {
	g, r := &draw{rand: rand.NewPCG(1, 2)}, rand.NewPCG(1, 2)
	var got []int
	for range 8 {
		got = append(got, g.below(1000))
		x := new(big.Int).Mul(new(big.Int).SetUint64(r.Uint64()), big.NewInt(1000))
		if want := int(x.Rsh(x, 64).Int64()); got[len(got)-1] != want {
			t.Errorf("%v ends in another than %d", got, want)
		}
	}
	if want := []int{769, 616, 784, 796, 234, 41, 499, 449}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestKeep: neither n nor keep changes a case; the seed does.
func TestKeep(t *testing.T) {
	for _, g := range Generators() {
		m := makeSpec{seed: 5, n: 12}
		if g.Lengths {
			m.lengths = []int{60}
		}
		all := drawn(t, &m, g.Name)
		few := m
		few.n, few.keep = 9, []span{{1, 2}, {7, 7}}
		for i, c := range drawn(t, &few, g.Name) {
			if want := all[[]int{1, 2, 7}[i]]; fmt.Sprintf("%+v", c) != fmt.Sprintf("%+v", want) && !sameJSON(t, c, want) {
				t.Errorf("%s: case %s is another one", g.Name, c.ID)
			}
		}
		other := m
		other.seed++
		same := 0
		for i, c := range drawn(t, &other, g.Name) {
			if sameJSON(t, c, all[i]) {
				same++
			}
		}
		if g.Name != "scripts" && same > 6 {
			t.Errorf("%s: %d of 12 cases are the same with another seed", g.Name, same)
		}
	}
}

func sameJSON(t *testing.T, a, b Case) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}

var figures = regexp.MustCompile(`\d+`)

// TestArithmetic works every problem out again, from its text alone.
func TestArithmetic(t *testing.T) {
	for _, kind := range kindsOfSums {
		m := &makeSpec{seed: 3, n: 200, args: map[string]any{"kinds": []any{kind}, "steps": 5.0}}
		for _, c := range drawn(t, m, "arithmetic") {
			ask := c.Turns[0].User
			var n []int
			for _, s := range figures.FindAllString(ask, -1) {
				v, err := strconv.Atoi(s)
				if err != nil {
					t.Fatal(err)
				}
				n = append(n, v)
			}
			want := 0
			switch kind {
			case "sum", "difference", "product", "expression":
				want = evaluated(t, strings.TrimSuffix(strings.TrimPrefix(ask, "What is "), "?"))
			case "story":
				want = n[0] + n[1] - n[2]
			case "bags":
				want = n[0]*n[1] - n[2]
			case "chain":
				want = told(t, ask)
			}
			if got := c.Turns[0].Want.Text; got != strconv.Itoa(want) || want < 0 {
				t.Errorf("%s: wants %s, it is %d", ask, got, want)
			}
		}
	}
}

// evaluated computes a Go expression of whole numbers.
func evaluated(t *testing.T, text string) int {
	t.Helper()
	e, err := goparser.ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}
	var of func(ast.Expr) int
	of = func(e ast.Expr) int {
		switch e := e.(type) {
		case *ast.ParenExpr:
			return of(e.X)
		case *ast.BasicLit:
			v, err := strconv.Atoi(e.Value)
			if err != nil {
				t.Fatal(err)
			}
			return v
		case *ast.BinaryExpr:
			x, y := of(e.X), of(e.Y)
			switch e.Op {
			case token.ADD:
				return x + y
			case token.SUB:
				return x - y
			case token.MUL:
				return x * y
			}
		}
		t.Fatalf("%T in %s", e, text)
		return 0
	}
	return of(e)
}

// told follows a chain sentence by sentence.
func told(t *testing.T, text string) int {
	t.Helper()
	have := 0
	for i, s := range strings.Split(text, ". ") {
		var n []int
		for _, f := range figures.FindAllString(s, -1) {
			v, err := strconv.Atoi(f)
			if err != nil {
				t.Fatal(err)
			}
			n = append(n, v)
		}
		switch {
		case i == 0:
			have = n[0]
		case strings.Contains(s, "times as many"):
			have *= n[0]
		case strings.Contains(s, "half"):
			if have%2 != 0 {
				t.Errorf("%s: half of %d", text, have)
			}
			have /= 2
		case strings.Contains(s, "lost"):
			have -= n[0]
		case strings.Contains(s, "bags"):
			have += n[0] * n[1]
		case strings.Contains(s, "found"):
			have += n[0]
		}
	}
	return have
}

// TestCallSites parses the programs with Go's own parser and finds the calls in them.
func TestCallSites(t *testing.T) {
	for _, m := range []*makeSpec{
		{seed: 1, n: 40, args: map[string]any{"form": "lines"}},
		{seed: 2, n: 10, lengths: []int{300, 1500, 6000}},
		{seed: 3, n: 10, lengths: []int{900}, args: map[string]any{"sites": 1.0}},
	} {
		for _, c := range drawn(t, m, "callsites") {
			ask := c.Turns[0].User
			target := regexp.MustCompile(`functions call (\w+)\?`).FindStringSubmatch(ask)[1]
			code := ask[strings.Index(ask, "func") : strings.LastIndex(ask, "}")+1]
			code = strings.ReplaceAll(code, "package store", "")
			f, err := goparser.ParseFile(token.NewFileSet(), "", "package p\n"+code, 0)
			if err != nil {
				t.Fatalf("%v in\n%s", err, code)
			}
			calls, names := map[string]bool{}, map[string]bool{}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok {
					t.Fatalf("%T", d)
				}
				if names[fn.Name.Name] {
					t.Errorf("%s is there twice", fn.Name.Name)
				}
				names[fn.Name.Name] = true
				ast.Inspect(fn, func(n ast.Node) bool {
					if call, ok := n.(*ast.CallExpr); ok {
						if id, ok := call.Fun.(*ast.Ident); ok && id.Name == target {
							calls[fn.Name.Name] = true
						}
					}
					return true
				})
			}
			w := c.Turns[0].Want
			for _, f := range w.All {
				if !calls[f] {
					t.Errorf("%s does not call %s", f, target)
				}
			}
			if len(w.All) != len(calls) || (len(calls) == 0) != (w.Text == "none") {
				t.Errorf("%d call sites, want says %d", len(calls), len(w.All))
			}
			if c.Tokens > 0 && (len(ask) < 2*c.Tokens || len(ask) > 8*c.Tokens) {
				t.Errorf("about %d tokens, but %d bytes", c.Tokens, len(ask))
			}
			delete(names, target)
			if len(w.All)+len(w.Absent) != len(names) && m.args["form"] != "lines" {
				t.Errorf("%d functions, want knows %d", len(names), len(w.All)+len(w.Absent))
			}
		}
	}
}

// TestNeedle: the passphrase is there once, where it should be.
func TestNeedle(t *testing.T) {
	for _, form := range []string{"long", "short"} {
		m := &makeSpec{seed: 9, n: 3, lengths: []int{100, 1000}, depths: []float64{0, 0.5, 1}, args: map[string]any{"form": form, "korean": form == "long"}}
		cases := drawn(t, m, "needle")
		if len(cases) != 18 {
			t.Fatalf("%d cases", len(cases))
		}
		for _, c := range cases {
			ask, key := c.Turns[0].User, c.Turns[0].Want.Text
			if strings.Count(ask, key) != 1 {
				t.Errorf("%s: %q is there %d times", c.ID, key, strings.Count(ask, key))
			}
			at := float64(strings.Index(ask, key)) / float64(len(ask))
			if slack := 0.35; at < c.Depth-slack || at > c.Depth+slack {
				t.Errorf("%s: at %.2f, want %.2f", c.ID, at, c.Depth)
			}
			if n := len(ask); n < 3*c.Tokens || n > 6*c.Tokens+200 {
				t.Errorf("%s: %d bytes for about %d tokens", c.ID, n, c.Tokens)
			}
		}
	}
}

// TestToolCalls: each call's arguments are those of its tool, and all stand in the
// question.
func TestToolCalls(t *testing.T) {
	used := map[string]bool{}
	for _, korean := range []bool{false, true} {
		for _, c := range drawn(t, &makeSpec{seed: 4, n: 150, args: map[string]any{"korean": korean}}, "toolcalls") {
			call, ask := c.Turns[0].Want.Call, c.Turns[0].User
			used[call.Name] = true
			for _, tool := range c.Tools {
				if tool.Name != call.Name {
					continue
				}
				var schema struct {
					Properties map[string]struct{ Type string }
					Required   []string
				}
				if err := json.Unmarshal(tool.Parameters, &schema); err != nil {
					t.Fatal(err)
				}
				if len(schema.Required) != len(call.Arguments) {
					t.Errorf("%s: %d arguments of %d", call.Name, len(call.Arguments), len(schema.Required))
				}
				for name, v := range call.Arguments {
					text, isText := v.(string)
					if n, ok := v.(float64); ok {
						text = strconv.Itoa(int(n))
					}
					if !strings.Contains(ask, text) || isText != (schema.Properties[name].Type == "string") {
						t.Errorf("%q: %s is %v", ask, name, v)
					}
				}
			}
		}
	}
	if len(used) != len(callTools) {
		t.Errorf("%d of %d tools are asked for", len(used), len(callTools))
	}
}

// TestEdit: both functions parse, and differ in what the order says.
func TestEdit(t *testing.T) {
	for _, c := range drawn(t, &makeSpec{seed: 6, n: 60}, "edit") {
		ask, after := c.Turns[0].User, c.Turns[0].Want.Text
		_, rest, _ := strings.Cut(ask, "```go\n")
		before, order, _ := strings.Cut(rest, "\n```\n")
		for _, code := range []string{before, after} {
			if _, err := goparser.ParseFile(token.NewFileSet(), "", "package p\n"+code, 0); err != nil {
				t.Errorf("%v in\n%s", err, code)
			}
		}
		a, b := strings.Split(before, "\n"), strings.Split(after, "\n")
		if len(a) != len(b) {
			t.Fatalf("%d lines became %d", len(a), len(b))
		}
		changed := 0
		for i := range a {
			if a[i] != b[i] {
				changed++
			}
		}
		if want := map[bool]int{true: 2, false: 1}[strings.Contains(order, "in place of")]; changed != want {
			t.Errorf("%d lines changed, want %d: %s", changed, want, order)
		}
	}
}

// TestScripts: what is asked for in a script is asked in it, and is wanted in it.
func TestScripts(t *testing.T) {
	for name := range asks {
		parts, err := ParseScript(name)
		if err != nil {
			t.Fatal(err)
		}
		m := &makeSpec{seed: 1, n: 4, args: map[string]any{"scripts": []any{name}}}
		for _, c := range drawn(t, m, "scripts") {
			of, all := parts[0].Count(c.Turns[0].User)
			if name != "Emoji" && (of == 0 || 4*of < all && len(parts) == 1) {
				t.Errorf("%s: %d of %d letters of %q", name, of, all, c.Turns[0].User)
			}
			if w := c.Turns[0].Want; w.Script != name || w.MinRunes == 0 {
				t.Errorf("%s wants %+v", name, w)
			}
		}
		m.args["long"] = true
		m.gen = &scripts
		if _, err := m.cases(maxText); (err == nil) != (longer[name] != "") {
			t.Errorf("%s long: %v", name, err)
		}
	}
	for _, l := range places {
		for _, p := range l {
			if !utf8.ValidString(p) || strings.ContainsAny(p, " \"") {
				t.Errorf("place %q", p)
			}
		}
	}
}
