//go:build ignore

// Writes docs/calibrated.md from what .ci/tables/run left in a folder: documents of
// measure, its commands, and folders of codes.
//
//	go run .ci/tables/page.go FOLDER >docs/calibrated.md
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"quantscope/analysis/calibrate"
	"quantscope/quant/codes"
	"quantscope/sessions"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// document is what of measure --json goes onto the page.
type document struct {
	Positions int64
	KernelSet string `json:"kernel_set"`
	Program   string
	Reference struct{ Identity, Content string }
	RefPPL    sessions.Figure `json:"ref_ppl"`
	Corpora   []struct {
		Name, SHA256   string
		Chunks, Tokens int
	}
	Floor      *row
	Candidates []row
	Gates      []struct {
		Gate, Candidate, Message string
		Passed                   bool
	}
}

type row struct {
	Candidate, Baseline, Calibrated string
	Added                           bool
	Bits                            sessions.Figure `json:"bits_per_weight"`
	KL                              sessions.Figure `json:"kl_mean"`
	Err                             sessions.Figure `json:"kl_stderr"`
	Median                          sessions.Figure `json:"kl_median"`
	P99                             sessions.Figure `json:"kl_p99"`
	Max                             sessions.Figure `json:"kl_max"`
	Top1, PPL                       sessions.Figure
	Gain                            *struct {
		Verdict, Sentence string
		Gain, Low, High   sessions.Figure
	}
}

// models are the tables, in order.
var models = []struct{ name, title, about string }{
	{"demo", "The demo: a mixture of experts", "Targets are the routed experts of its decoder layers (`default`); the text for calibration is the embedded *calib*, that for evaluation the five embedded corpora that were held out."},
	{"smollm2", "SmolLM2-135M-Instruct: a dense model", "The reference are the weights that the Q4_1 file decodes to, so errors of that file itself are in no figure. Targets are attention and MLP (`default`); texts are those of the demo's corpora, as text (`.ci/tables/text.go`): parts of all of *calib* for calibration, the beginnings of the five others for evaluation. Its rows of 576 and 1536 are no whole groups of 128 in part: the last group of a row is then shorter, which no layout of exports can store, but which is measured all the same."},
}

func run(w io.Writer) error {
	if len(os.Args) != 2 {
		return errors.New("usage: page.go FOLDER")
	}
	dir := os.Args[1]
	intro, err := os.ReadFile(".ci/tables/intro.md")
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\nMade by the commands of `.ci/tables/run` at commit %s on %s.\n", intro, commit(), processor())
	for _, m := range models {
		if err := table(w, dir, m.name, m.title, m.about); err != nil {
			return err
		}
	}
	notes, err := os.ReadFile(".ci/tables/notes.md")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s", notes)
	return err
}

func table(w io.Writer, dir, name, title, about string) error {
	text, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		return err
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	command, err := os.ReadFile(filepath.Join(dir, name+".command"))
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n## %s\n\n    %s\n\n%s\n\n", title, strings.TrimSpace(string(command)), about)
	fmt.Fprintln(w, "| variant | bits/weight | mean KL, nats | ± | median | p99 | max | top-1 | PPL | KL gone, % [95 %] | against |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for i := range d.Candidates {
		r := &d.Candidates[i]
		gain, against := "", ""
		if r.Gain != nil {
			gain, against = fmt.Sprintf("%.1f [%.1f, %.1f]", 100*r.Gain.Gain, 100*r.Gain.Low, 100*r.Gain.High), fmt.Sprintf("%s: **%s**", r.Baseline, r.Gain.Verdict)
		}
		fmt.Fprintf(w, "| %s | %.2f | %s | %s | %s | %s | %s | %.4f | %.3f | %s | %s |\n",
			r.Candidate, r.Bits, figure(r.KL), figure(r.Err), figure(r.Median), figure(r.P99), figure(r.Max), r.Top1, r.PPL, gain, against)
	}
	fmt.Fprintf(w, "\nThe reference's perplexity is %.3f", d.RefPPL)
	if d.Floor != nil {
		fmt.Fprintf(w, ", the ruler's floor %s", figure(d.Floor.KL))
	}
	fmt.Fprintf(w, ". %d positions of", d.Positions)
	for i, c := range d.Corpora {
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, " %s (%d chunks, %d tokens, sha256 %.12s)", c.Name, c.Chunks, c.Tokens, c.SHA256)
	}
	fmt.Fprintf(w, "; kernels %s, program %s, reference %.12s.\n", d.KernelSet, d.Program, d.Reference.Identity)
	for i := range d.Candidates {
		if c := d.Candidates[i].Calibrated; c != "" {
			fmt.Fprintf(w, "Calibrated on %s.\n", strings.ReplaceAll(c, dir+string(filepath.Separator), ""))
			break
		}
	}
	for _, g := range d.Gates {
		if !g.Passed {
			fmt.Fprintf(w, "\nGate %s FAILED: %s.\n", g.Gate, g.Message)
		}
	}
	return trades(w, filepath.Join(dir, "codes-"+name))
}

// trades are the means over matrices of what calibration paid and got.
func trades(w io.Writer, dir string) error {
	folders, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	fmt.Fprintln(w, "\nWhat calibration pays and gets, means over the matrices: squared weight error ‖W−Q‖²/‖W‖², and squared output error on the calibration text, ‖(W−Q)x‖²/‖Wx‖².")
	fmt.Fprintln(w, "\n| variant | matrices | weight error of the baseline → calibrated | output error of the baseline → calibrated | codes changed, % | damping's share of down projections, median |")
	fmt.Fprintln(w, "| --- | --- | --- | --- | --- | --- |")
	for _, f := range folders {
		s, err := codes.Open(f)
		if err != nil {
			return err
		}
		if !s.Whole() { // broken off
			if err := s.Close(); err != nil {
				return err
			}
			continue
		}
		m := s.Manifest()
		var n, changed, all float64
		var base, now, baseOut, out float64
		var damp []float64
		for _, u := range m.Units {
			list, _, err := s.Describe(u)
			if err != nil {
				return err
			}
			for _, k := range list {
				var t calibrate.Trade
				if err := json.Unmarshal(k.Figures, &t); err != nil {
					return fmt.Errorf("%s: %s: %w", f, k.Name, err)
				}
				if t.Effective != m.Variant {
					continue
				}
				n++
				changed, all = changed+float64(t.Changed), all+float64(t.Codes)
				base, now = base+float64(t.BaseRel2), now+float64(t.Rel2)
				baseOut, out = baseOut+float64(t.BaseOut2), out+float64(t.Out2)
				if strings.Contains(k.Name, "down") && !math.IsNaN(float64(t.DampShare)) && t.Rank >= 0 {
					damp = append(damp, float64(t.DampShare))
				}
			}
		}
		share := "–"
		if len(damp) > 0 {
			share = fmt.Sprintf("%.3f", median(damp))
		}
		fmt.Fprintf(w, "| %s | %.0f | %.5f → %.5f (%+.1f %%) | %.5f → %.5f (%+.1f %%) | %.1f | %s |\n",
			m.Variant, n, base/n, now/n, 100*(now/base-1), baseOut/n, out/n, 100*(out/baseOut-1), 100*changed/all, share)
		if err := s.Close(); err != nil {
			return err
		}
	}
	return nil
}

func median(x []float64) float64 {
	for i := range x {
		for j := i; j > 0 && x[j] < x[j-1]; j-- {
			x[j], x[j-1] = x[j-1], x[j]
		}
	}
	return (x[(len(x)-1)/2] + x[len(x)/2]) / 2
}

func figure(f sessions.Figure) string {
	switch x := float64(f); {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return fmt.Sprint(x)
	case x != 0 && math.Abs(x) < 0.001:
		return fmt.Sprintf("%.1e", x)
	default:
		return fmt.Sprintf("%.5f", x)
	}
}

func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "an unknown processor"
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return "an unknown processor"
}
