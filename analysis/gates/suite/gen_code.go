package suite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

var callsites = Generator{
	Name:    "callsites",
	About:   "A Go program of a length that was drawn, and the question which of its functions call a certain one. Names are invented, so nothing of it can be known beforehand; comments and string literals name the function too.",
	Args:    []Arg{{"form", Text, "program", "program: files with bodies of several lines; lines: one function a line, two calls each", []string{"program", "lines"}}, {"sites", Count, 3.0, "functions that call it, in programs", nil}},
	Lengths: true,
	one:     oneCallSite,
}

func oneCallSite(g *draw) (Case, error) {
	if g.text("form") == "lines" {
		return callLines(g), nil
	}
	return callProgram(g), nil
}

// callLines is a small form: three to six functions, or as many as the length
// takes, two calls in each.
func callLines(g *draw) Case {
	used := map[string]bool{}
	callees := g.names(4, used)
	target := pick(g, callees)
	n := g.between(3, 6)
	if g.length > 0 {
		n = max(g.length*4/36, 1)
	}
	w := &Want{}
	var lines []string
	for _, f := range g.names(n, used) {
		shuffle(g, callees)
		lines = append(lines, fmt.Sprintf("func %s() { %s(); %s() }", f, callees[0], callees[1]))
		if slices.Contains(callees[:2], target) {
			w.All = append(w.All, f)
		} else {
			w.Absent = append(w.Absent, f)
		}
	}
	if len(w.All) == 0 {
		w.Text = "none"
	}
	return Case{Turns: []Turn{{User: strings.Join(lines, "\n") + "\nWhich functions call " + target + "?", Want: w}}}
}

func callProgram(g *draw) Case {
	used := map[string]bool{"err": true}
	length := g.length * 4
	if length == 0 {
		length = 4000
	}
	const each = 330 // bytes of a function, about
	n := max(length/each, 4)
	names := g.names(n+1, used)
	for i := range names {
		names[i] += pick(g, []string{"Rows", "Index", "Value", "Page", "Key", "State", "Lock", "Batch"})
	}
	target, callers := names[n], names[:n]
	at := make([]int, n)
	for i := range at {
		at[i] = i
	}
	shuffle(g, at)
	hits := slices.Clone(at[:min(max(g.count("sites"), 1), n)])
	decoys := at[len(hits):min(len(hits)+3, n)]
	w := &Want{}
	var b strings.Builder
	file := 0
	for i, f := range callers {
		if i%12 == 0 {
			file++
			fmt.Fprintf(&b, "// file %s%d.go\npackage store\n\n", pick(g, []string{"scan", "merge", "table", "cache", "wire"}), file)
		}
		hit := slices.Contains(hits, i)
		body(g, &b, f, callers, target, hit, slices.Contains(decoys, i))
		if hit {
			w.All = append(w.All, f)
		} else {
			w.Absent = append(w.Absent, f)
		}
	}
	fmt.Fprintf(&b, "func %s(n int) (int, error) {\n\tif n < 0 {\n\t\treturn 0, errRange\n\t}\n\treturn n, nil\n}\n", target)
	ask := "Here is a Go program.\n\n" + b.String() + "\nWhich functions call " + target + "? Answer with their names alone, separated by commas."
	return Case{Turns: []Turn{{User: ask, Want: w}}}
}

// body writes one function of five to nine lines.
func body(g *draw, b *strings.Builder, f string, others []string, target string, hit, decoy bool) {
	call := func() string {
		for {
			if o := pick(g, others); o != f || len(others) == 1 {
				return o
			}
		}
	}
	fmt.Fprintf(b, "// %s %s.\nfunc %s(n int) (int, error) {\n", f, pick(g, []string{"counts what is left", "reads one part", "says where the next begins", "keeps the order", "adds what came late"}), f)
	if decoy {
		fmt.Fprintf(b, "\t// %s did this before.\n\tlog.Print(\"see %s\")\n", target, target)
	}
	lines := g.between(2, 4)
	place := g.below(lines)
	for i := range lines {
		o := call()
		if hit && i == place {
			o = target
		}
		switch g.below(3) {
		case 0:
			fmt.Fprintf(b, "\tif v, err := %s(n + %d); err == nil {\n\t\tn += v\n\t}\n", o, g.between(1, 9))
		case 1:
			fmt.Fprintf(b, "\tv%d, err := %s(n)\n\tif err != nil {\n\t\treturn 0, err\n\t}\n\tn -= v%d\n", i, o, i)
		default:
			fmt.Fprintf(b, "\tfor range %d {\n\t\t_, _ = %s(n)\n\t}\n", g.between(2, 9), o)
		}
	}
	b.WriteString("\treturn n, nil\n}\n\n")
}

var edits = Generator{
	Name:  "edit",
	About: "A Go function, and the order to change one thing of it: rename it, turn a comparison, or give a constant another value. The answer is the whole function.",
	Args:  []Arg{{"lines", Count, 0.0, "assignments in its body; 0: drawn, 2 to 6", nil}},
	one:   oneEdit,
}

func oneEdit(g *draw) (Case, error) {
	used := map[string]bool{}
	names := g.names(4, used)
	f, to, v, arg := names[0], names[1], names[2], names[3]
	limit, other := g.between(10, 99), g.between(100, 999)
	n := g.count("lines")
	if n == 0 {
		n = g.between(2, 6)
	}
	var lines []string
	for range n {
		lines = append(lines, fmt.Sprintf("\t%s %s %d", v, pick(g, []string{"+=", "-=", "*=", "^="}), g.between(2, 9)))
	}
	code := func(f, compare string, limit int) string {
		return fmt.Sprintf("func %s(%s int) int {\n\t%s := %s\n\tif %s %s %d {\n\t\treturn %d\n\t}\n%s\n\treturn %s\n}", f, arg, v, arg, v, compare, limit, limit, strings.Join(lines, "\n"), v)
	}
	before := code(f, ">", limit)
	var order, after string
	switch g.below(3) {
	case 0:
		order, after = fmt.Sprintf("Rename the function %s to %s.", f, to), code(to, ">", limit)
	case 1:
		order, after = fmt.Sprintf("The comparison %s > %d must be %s < %d.", v, limit, v, limit), code(f, "<", limit)
	default:
		order, after = fmt.Sprintf("Use %d in place of %d everywhere.", other, limit), code(f, ">", other)
	}
	ask := "Here is a Go function.\n\n```go\n" + before + "\n```\n\n" + order + " Change nothing else. Answer with the whole function in one code block and nothing beside it."
	return Case{Turns: []Turn{{User: ask, Want: &Want{Text: after}}}}, nil
}

var repeats = Generator{
	Name:  "repeat",
	About: "Words, numbers and places in several scripts that are to be said again, byte for byte.",
	Args:  []Arg{{"scripts", Words, nil, "that places are of", placeScripts()}, placesArg, {"words", Count, 0.0, "how many; 0: drawn, 3 to 10", nil}},
	one: func(g *draw) (Case, error) {
		n := g.count("words")
		if n == 0 {
			n = g.between(3, 10)
		}
		var out []string
		for range n {
			switch g.below(4) {
			case 0:
				out = append(out, g.name())
			case 1:
				out = append(out, strconv.Itoa(g.between(10, 99)))
			default:
				out = append(out, place(g))
			}
		}
		t := strings.Join(out, " ")
		return Case{Turns: []Turn{{User: "Repeat: " + t, Want: &Want{Text: t}}}}, nil
	},
}
