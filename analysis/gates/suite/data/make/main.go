// Command make says which cases of a suite a model answers: it runs the suite with
// every case that its generators make, whatever keep says, and prints the keep that
// leaves those that passed at each of their settings. The demo suite's are those of the
// embedded model in bf16:
//
//	go run ./analysis/gates/suite/data/make analysis/gates/suite/data/demo.yaml
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates"
	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/suite"
	"quantscope/kernels"
)

func main() {
	model := flag.String("model", "demo", "checkpoint that answers")
	spec := flag.String("candidate", "", "asked after it, as quantscope measure takes it")
	targets := flag.String("targets", "", "patterns of what the candidate quantizes")
	fault := flag.String("fault", "", "of the candidate")
	kept := flag.Bool("kept", false, "ask only what keep leaves")
	passes := flag.Int("passes", 0, "of probes with a temperature; 0: as the suite says")
	show := flag.Bool("v", false, "print the answers that fail")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, flag.Arg(0), *model, *spec, *targets, local.Fault(*fault), *passes, *kept, *show); err != nil {
		fmt.Fprintln(os.Stderr, "make:", err)
		os.Exit(1)
	}
}

var keepField = regexp.MustCompile(`,? *keep: *"[^"]*"`)

func run(ctx context.Context, path, model, spec, targets string, fault local.Fault, passes int, kept, show bool) (err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !kept {
		text = keepField.ReplaceAll(text, nil)
	}
	s, err := suite.Parse(path, text, os.ReadFile)
	if err != nil {
		return err
	}
	for i := range s.Probes {
		if p := &s.Probes[i]; passes > 0 && p.Set.Temperature > 0 {
			p.Passes = passes
		}
	}
	sets := kernels.Available()
	o := candidate.Options{Set: sets[len(sets)-1], Targets: targets}
	ref, err := candidate.Open(ctx, model, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ref.Close()) }()
	arms := []gates.ArmSpec{{Label: model, Spec: model, Role: gates.Baseline, Open: opened(ref, o.Set, local.NoFault)}}
	if spec != "" {
		c, err := candidate.Parse(ctx, ref, spec, o)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.Close()) }()
		arms = append(arms, gates.ArmSpec{Label: spec, Spec: spec, Role: gates.Candidate, Open: opened(c, o.Set, fault)})
	}
	began := time.Now()
	var results []*gates.Result
	report, err := gates.Run(ctx, s, arms, gates.Options{Set: o.Set, Answered: func(r *gates.Result) { results = append(results, r) }})
	if err != nil {
		return err
	}
	for arm := range arms {
		print(s, report, results, arm, show)
	}
	if !kept {
		keeps(s, results)
	}
	fmt.Printf("%d answers in %.1f s\n", len(results), time.Since(began).Seconds())
	return nil
}

// opened gives a candidate as a target.
func opened(c *candidate.Candidate, set kernels.Set, f local.Fault) func(context.Context) (chat.Target, error) {
	return func(ctx context.Context) (chat.Target, error) {
		return local.New(ctx, c, local.Options{Set: set, Fault: f})
	}
}

func print(s *suite.Suite, report *gates.Report, results []*gates.Result, arm int, show bool) {
	fmt.Println(report.Setup.Arms[arm].Label)
	for i := range s.Probes {
		r := report.Row(i, arm)
		fmt.Printf("  %-28s %3d of %3d  need %.2f %-5v tokens %6d  replacement %d (%d)  malformed %d  empty %d  cut %d\n", s.Probes[i].ID, r.Passed, r.Of, s.Probes[i].Need, r.OK, r.Tokens, r.Replacement, r.Events, r.Malformed, r.Empty, r.Truncated)
		for _, a := range results {
			if show && a.Arm == arm && a.Probe == i && !a.Verdict.Passed {
				fmt.Printf("      %s.%d %s: %s\n", s.Probes[i].Cases[a.Case].ID, a.Pass, a.Verdict.Fault, a.Verdict.Reason)
			}
		}
	}
}

// keeps prints, for each probe, the cases of which the baseline passed every answer,
// siblings' included.
func keeps(s *suite.Suite, results []*gates.Result) {
	for i := range s.Probes {
		if s.Probes[i].Like != "" {
			continue
		}
		bad := map[int]bool{}
		for _, r := range results {
			p := &s.Probes[r.Probe]
			if (r.Probe == i || p.Like == s.Probes[i].ID) && r.Arm == 0 && !r.Verdict.Passed {
				bad[r.Case] = true
			}
		}
		var good []int
		for c := range s.Probes[i].Cases {
			if !bad[c] {
				good = append(good, c)
			}
		}
		fmt.Printf("%s: %d of %d: keep: %q\n", s.Probes[i].ID, len(good), len(s.Probes[i].Cases), ranges(good))
	}
}

// ranges writes numbers that rise as keep takes them.
func ranges(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		parts = append(parts, strings.Join(slices.Compact([]string{strconv.Itoa(n[i]), strconv.Itoa(n[j])}), "-"))
		i = j + 1
	}
	return strings.Join(parts, ",")
}
