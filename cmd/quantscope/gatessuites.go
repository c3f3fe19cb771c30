package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"quantscope/analysis/gates/suite"
	"quantscope/views"
)

// suiteDocument is the --json output of gates suites.
type suiteDocument struct {
	Suite  string       `json:"suite"`
	About  string       `json:"about"`
	Path   string       `json:"path"`
	SHA256 string       `json:"sha256"`
	Probes []suiteProbe `json:"probes"`
}

type suiteProbe struct {
	Probe  string         `json:"probe"`
	Group  string         `json:"group"`
	About  string         `json:"about"`
	Grader string         `json:"grader"`
	Cases  int            `json:"cases"`
	Passes int            `json:"passes"`
	Need   float64        `json:"need"`
	Like   string         `json:"like,omitempty"`
	Timed  bool           `json:"timed"`
	Set    suite.Settings `json:"settings"`
}

// newGatesSuites lists suites, or shows one, which checks it too.
func newGatesSuites(std streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "suites [NAME | FILE]",
		Short: "List the built-in suites, or show and check one",
		Long: `suites lists the built-in suites. With a name or a file it reads that suite, which
checks it, and lists its probes. docs/suites.md says how a suite is written.`,
		Example: `  quantscope gates suites
  quantscope gates suites demo
  quantscope gates suites mine.yaml --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(errors.New("gates suites takes one name or file, or none"))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			names := args
			if len(names) == 0 {
				names = suite.Names()
			}
			docs := []suiteDocument{}
			for _, n := range names {
				s, err := suite.Open(n)
				if err != nil {
					return gatesError(err)
				}
				docs = append(docs, suiteOf(s))
			}
			switch {
			case asJSON && len(args) == 1:
				return printJSON(std.out, docs[0])
			case asJSON:
				return printJSON(std.out, struct {
					Suites []suiteDocument `json:"suites"`
				}{docs})
			case len(args) == 1:
				return printSuite(newReport(std.out), &docs[0])
			}
			t := newReport(std.out)
			var rows [][]string
			for i := range docs {
				rows = append(rows, []string{docs[i].Suite, fmt.Sprint(len(docs[i].Probes)), fmt.Sprint(docs[i].answers()), views.Clean(docs[i].About)})
			}
			t.table([]string{"suite", ">probes", ">answers", "what"}, rows)
			return t.err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document on standard output")
	return cmd
}

func suiteOf(s *suite.Suite) suiteDocument {
	d := suiteDocument{Suite: s.Name, About: s.About, Path: s.Path, SHA256: s.SHA256, Probes: []suiteProbe{}}
	for i := range s.Probes {
		p := &s.Probes[i]
		d.Probes = append(d.Probes, suiteProbe{p.ID, p.Group, p.About, p.Grader, len(p.Cases), p.Passes, p.Need, p.Like, p.Timed, p.Set})
	}
	return d
}

// answers is how many an arm gives.
func (d *suiteDocument) answers() int {
	n := 0
	for _, p := range d.Probes {
		n += p.Cases * p.Passes
	}
	return n
}

func printSuite(t *textReport, d *suiteDocument) error {
	t.line("%s  %s", views.Clean(d.Suite), views.Clean(d.About))
	t.line("  sha256 %s, %s an arm", d.SHA256, counted(d.answers(), "answer", "answers"))
	t.line("")
	var rows [][]string
	for _, p := range d.Probes {
		rows = append(rows, []string{
			views.Clean(p.Probe), views.Clean(p.Group), p.Grader, fmt.Sprintf("%d × %d", p.Cases, p.Passes), fmt.Sprintf("%.0f %%", 100*p.Need),
			fmt.Sprint(p.Set.MaxTokens), fmt.Sprintf("%g", p.Set.Temperature), fmt.Sprint(p.Set.Concurrency), views.Clean(p.About),
		})
	}
	t.table([]string{"probe", "group", "grader", ">cases × passes", ">needs", ">budget", ">temperature", ">at once", "what"}, rows)
	return t.err
}
