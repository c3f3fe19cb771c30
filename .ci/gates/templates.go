//go:build ignore

// Command templates renders the cases of templates.py with package jinja and compares
// them byte for byte: go run .ci/gates/templates.go [-v] <cases.jsonl
//
// A case that the template itself refuses must be refused; the wording of reasons
// is not compared.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"quantscope/analysis/gates/template/jinja"
)

type row struct {
	Template, Text, Case  string
	Messages, Tools, Args json.RawMessage
	Special               map[string]string
	Want                  *string
	Error                 string
}

func main() {
	verbose := flag.Bool("v", false, "print every difference")
	flag.Parse()
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<26)
	equal, all, refused := 0, 0, 0
	whole, why := map[string]bool{}, map[string]string{}
	for lines.Scan() {
		var r row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			log.Fatal(err)
		}
		if _, ok := whole[r.Template]; !ok {
			whole[r.Template] = true
		}
		all++
		problem := check(r)
		switch {
		case problem != "":
			whole[r.Template] = false
			why[r.Template] = problem
			if *verbose {
				fmt.Printf("%s, %s: %s\n", r.Template, r.Case, problem)
			}
		case r.Want == nil:
			refused++
			fallthrough
		default:
			equal++
		}
	}
	if err := lines.Err(); err != nil {
		log.Fatal(err)
	}
	n := 0
	for name, ok := range whole {
		if ok {
			n++
		} else if !*verbose {
			fmt.Printf("%s: %s\n", name, why[name])
		}
	}
	fmt.Printf("%d of %d renderings equal, %d of them refused by both; %d of %d templates in every case\n", equal, all, refused, n, len(whole))
	if n < len(whole) {
		os.Exit(1)
	}
}

func check(r row) string {
	vars := map[string]any{"add_generation_prompt": true}
	for k, v := range r.Special {
		vars[k] = v
	}
	var args map[string]json.RawMessage
	if err := json.Unmarshal(r.Args, &args); err != nil {
		log.Fatal(err)
	}
	args["messages"], args["tools"], args["documents"] = r.Messages, r.Tools, json.RawMessage("null")
	for k, v := range args {
		x, err := jinja.FromJSON(v)
		if err != nil {
			log.Fatal(err)
		}
		vars[k] = x
	}
	t, err := jinja.Parse(r.Text)
	if err != nil {
		return err.Error()
	}
	got, err := t.Render(vars, time.Now)
	switch {
	case err != nil && r.Want == nil:
		return ""
	case err != nil:
		return err.Error()
	case r.Want == nil:
		return "is not refused: " + r.Error
	}
	want := *r.Want
	if got == want {
		return ""
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(i-30, 0)
	return fmt.Sprintf("differs at byte %d: %q, want %q", i, got[from:min(len(got), i+60)], want[from:min(len(want), i+60)])
}
