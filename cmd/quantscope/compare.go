package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quantscope/analysis/compare"
	"quantscope/analysis/landscape"
	"quantscope/sessions"
	"quantscope/views"
)

// compareFlags are the flags of compare.
type compareFlags struct {
	metric  string
	worst   int
	json    bool
	files   compareFilesFlags
	limited bool // --max-rel-l2 was given
}

func newCompare(std streams) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare SESSION A B | SESSION A SESSION2 B | MASTER CANDIDATE",
		Short: "Compare two variants, or two checkpoints, tensor by tensor",
		Long: `compare sets variant B against variant A, of one session or of two sessions of
one source: on how many tensors B is better, by how much, with a paired test,
the distribution of the changes, the worst regressions, each layer and
projection, and the size of both. Sessions over different targets are compared
on the tensors that both have; sessions of different sources are refused.

With two arguments it holds a checkpoint against its master, matrix by matrix,
whatever stores the two: folders and files of safetensors in any layout that is
known, GGUF files, demo. What tools do to weights without changing the model is
undone first where the weights themselves prove it, and said: smoothing (AWQ,
SmoothQuant: scales that norms or the rows before were divided by), and rows or
heads in another order. --max-rel-l2 makes a limit of it: exit 1 beyond.`,
		Example: `  quantscope compare run.qscope nvfp4 nvfp4+mse
  quantscope compare ./Model ./Model-AWQ --max-rel-l2 0.15
  quantscope compare ./Model ./model-Q4_K_M.gguf --json
  quantscope compare run.qscope nvfp4 other.qscope nvfp4 --metric cos`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 || len(args) > 4 {
				return usage(errors.New(compareTakes))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			f.limited = cmd.Flags().Changed("max-rel-l2")
			if len(args) == 2 {
				if cmd.Flags().Changed("metric") {
					return usage(fmt.Errorf("--metric is of sessions: two checkpoints are compared by all figures"))
				}
				return compareFiles(cmd.Context(), std, [2]string(args), f)
			}
			for _, name := range []string{"max-rel-l2", "as-stored", "threads", "zero-points", "packing", "gguf-blocks"} {
				if cmd.Flags().Changed(name) {
					return usage(fmt.Errorf("--%s is of two checkpoints, not of sessions", name))
				}
			}
			if len(args) == 3 {
				args = []string{args[0], args[1], args[0], args[2]}
			}
			return compareVariants(cmd.Context(), std, [2]string{args[0], args[2]}, [2]string{args[1], args[3]}, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.metric, "metric", "rel2", "figure to compare by: "+strings.Join(metricNames(), ", "))
	fl.IntVar(&f.worst, "worst", 10, "how many regressions, or of two checkpoints how many tensors, to list")
	fl.Float64Var(&f.files.most, "max-rel-l2", 0, "of two checkpoints: largest relative error of a tensor that passes; above it the exit code is 1")
	fl.BoolVar(&f.files.asStored, "as-stored", false, "of two checkpoints: undo neither smoothing nor orders of rows")
	fl.IntVar(&f.files.threads, "threads", runtime.GOMAXPROCS(0), "of two checkpoints: workers")
	f.files.reading.bind(cmd)
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	_ = cmd.RegisterFlagCompletionFunc("metric", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return metricNames(), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func metricNames() []string {
	var names []string
	for _, m := range sessions.Metrics() {
		names = append(names, m.Name)
	}
	return names
}

// compareDocument is what compare --json prints.
type compareDocument struct {
	*compare.Report
	ReceiptA compareReceipt `json:"receipt_a"`
	ReceiptB compareReceipt `json:"receipt_b"`
}

// compareReceipt says where the figures of one side are from.
type compareReceipt struct {
	Checkpoint string            `json:"checkpoint"`
	Identity   string            `json:"identity"`
	Targets    string            `json:"targets"`
	Convention string            `json:"convention"`
	Effective  string            `json:"effective"`
	Program    string            `json:"program"`
	KernelSet  string            `json:"kernel_set"`
	State      sessions.RunState `json:"state"`
}

func receiptOf(st *sessions.State, variant int) compareReceipt {
	v, m := &st.Variants[variant], &st.Meta
	return compareReceipt{m.SourcePath, m.SourceIdentity, m.Targets, v.Convention, v.Effective, m.Program, m.KernelSet, st.Progress.State}
}

func compareVariants(ctx context.Context, std streams, paths, names [2]string, f compareFlags) error {
	if f.worst < 0 || f.worst > compare.MaxWorst {
		return usage(fmt.Errorf("--worst %d: from 0 to %d", f.worst, compare.MaxWorst))
	}
	metric, err := sessions.MetricByName(f.metric)
	if err != nil {
		return usage(fmt.Errorf("--metric: %w", err))
	}
	var states [2]*sessions.State
	var variants [2]int
	for i, path := range paths {
		if i == 1 && path == paths[0] {
			states[1] = states[0]
		} else if states[i], err = readSession(path); err != nil {
			return err
		}
		if variants[i], err = variantOf(states[i], path, names[i]); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	in, err := sessions.Comparison(states[0], variants[0], states[1], variants[1], metric)
	if err != nil {
		return badInput(err)
	}
	rep, err := compare.Run(in, f.worst)
	if err != nil {
		return badInput(err)
	}
	doc := compareDocument{rep, receiptOf(states[0], variants[0]), receiptOf(states[1], variants[1])}
	if f.json {
		return printJSON(std.out, doc)
	}
	return printComparison(std, doc, f.worst)
}

// readSession reads a session file that must be one.
func readSession(path string) (*sessions.State, error) {
	if err := present(path); err != nil {
		return nil, err
	}
	return savedState(path)
}

// variantOf finds a variant, in any form of its name; the error lists those that
// the session has.
func variantOf(st *sessions.State, path, name string) (int, error) {
	if v := findVariant(st, name); v >= 0 {
		return v, nil
	}
	var known []string
	for _, v := range st.Variants {
		known = append(known, v.Name)
	}
	if len(known) == 0 {
		return -1, badInput(fmt.Errorf("%s: it has no variant yet, so no %q", path, name))
	}
	return -1, usage(fmt.Errorf("%s: it has no variant %q (it has %s)", path, name, strings.Join(known, ", ")))
}

// findVariant finds a variant by its name in the session or by any other form of
// that, -1 where there is none.
func findVariant(st *sessions.State, name string) int {
	if v := st.VariantByName(name); v >= 0 {
		return v
	}
	return st.VariantByName(canonicalVariant(name))
}

// printComparison prints a comparison as plain text.
func printComparison(std streams, doc compareDocument, worst int) error {
	r, t := doc.Report, newReport(std.out)
	side := func(letter string, n compare.Named, size landscape.Value) []string {
		return []string{letter, n.Variant, digits(size.V, 4) + " b/w", n.Session}
	}
	t.table([]string{"", "variant", ">size", "session"}, [][]string{side("A", r.A, r.Size.BitsA), side("B", r.B, r.Size.BitsB)})
	t.line("")
	better := map[int]string{1: "smaller is better", -1: "larger is better"}[r.Metric.Worse]
	if r.Metric.Diverging {
		better = "nearer to 0 is better, and means and changes are of magnitudes"
	}
	t.line("%s  %s; %s", r.Metric.Name, r.Metric.Help, cmp.Or(better, "neither side is better"))
	t.line("pairs             %s", pairsLine(r))
	if r.Metric.Worse != 0 {
		of := func(n int) string {
			if r.Pairs == 0 {
				return "0"
			}
			return fmt.Sprintf("%d (%s)", n, percent(sessions.Figure(float64(n)/float64(r.Pairs))))
		}
		t.line("B better          %s", of(r.Wins))
		t.line("equal             %s", of(r.Ties))
		t.line("B worse           %s", of(r.Losses))
	}
	t.line("mean              %s", meanLine(r.Metric, &r.Outcome))
	t.line("median change     %s", changeText(r.Metric, r.Median))
	t.line("p                 %s", testLine(&r.Wilcoxon))
	t.line("bytes             %s", sizeLine(&r.Size))
	if r.Undefined > 0 {
		t.line("no change defined %s, from 0", counted(r.Undefined, "pair", "pairs"))
	}
	printDistribution(t, r)
	printRegressions(t, r, worst)
	places := func(what string, list []compare.Place) {
		var rows [][]string
		for _, p := range list {
			row := []string{views.Clean(p.Name), fmt.Sprint(p.Pairs)}
			if r.Metric.Worse != 0 {
				row = append(row, fmt.Sprint(p.Wins), fmt.Sprint(p.Ties), fmt.Sprint(p.Losses))
			}
			rows = append(rows, append(row, valueText(p.MeanA), valueText(p.MeanB), changeText(r.Metric, p.Change)))
		}
		header := []string{what, ">pairs"}
		if r.Metric.Worse != 0 {
			header = append(header, ">B better", ">equal", ">B worse")
		}
		t.line("")
		t.table(append(header, ">mean A", ">mean B", "mean change"), rows)
	}
	places("projection", r.Projections)
	places("layer", r.Layers)
	return t.err
}

// pairsLine says how many pairs there are and what is not among them.
func pairsLine(r *compare.Report) string {
	var left []string
	for _, l := range []struct {
		n    int
		what string
	}{
		{r.Pending, "not measured yet"}, {r.Failed, "could not be measured"}, {r.NotFinite, "without a finite figure"},
		{r.A.Alone, "only in A's session"}, {r.B.Alone, "only in B's session"},
	} {
		if l.n > 0 {
			left = append(left, fmt.Sprintf("%d %s", l.n, l.what))
		}
	}
	if len(left) == 0 {
		return fmt.Sprint(r.Pairs)
	}
	return fmt.Sprintf("%d; left out: %s", r.Pairs, strings.Join(left, ", "))
}

func meanLine(m compare.Metric, o *compare.Outcome) string {
	if !o.MeanA.Defined() {
		return "none: " + o.MeanA.Why
	}
	return fmt.Sprintf("%s → %s   %s", valueText(o.MeanA), valueText(o.MeanB), changeText(m, o.Change))
}

// changeText writes a change with its interval: −4.8 % [−4.9, −4.7].
func changeText(m compare.Metric, v landscape.Value) string {
	if !v.Defined() {
		return "none: " + v.Why
	}
	text, unit := func(x float64) string { return signedText(x, "%+#.3g") }, ""
	if m.Relative {
		text, unit = percentText, " %"
	}
	if !v.HasInterval() {
		return text(v.V) + unit
	}
	return fmt.Sprintf("%s%s [%s, %s]", text(v.V), unit, text(v.Low), text(v.High))
}

// percentText is a relative change in per cent, of two places or more where it is
// small.
func percentText(x float64) string {
	if x *= 100; x != 0 && math.Abs(x) < 0.1 {
		return signedText(x, "%+#.2g")
	}
	return signedText(x, "%+.2f")
}

// signedText writes a figure with its sign; what rounds to nothing has none.
func signedText(x float64, format string) string {
	s := fmt.Sprintf(format, x)
	if strings.Trim(s, "+-0.") == "" {
		return strings.TrimLeft(s, "+-")
	}
	return s
}

// digits writes a figure with n significant digits.
func digits(x float64, n int) string {
	if math.IsNaN(x) {
		return "-"
	}
	return fmt.Sprintf("%#.*g", n, x)
}

func valueText(v landscape.Value) string {
	if !v.Defined() {
		return "-"
	}
	return digits(v.V, 5)
}

// testLine writes a test; p from its logarithm, which does not underflow.
func testLine(w *compare.Wilcoxon) string {
	if !w.P.Defined() {
		return "none: " + w.P.Why
	}
	p := fmt.Sprintf("%.4f", w.P.V)
	if l := w.Log10P.V; l < -3 {
		exponent := math.Floor(l)
		mantissa := math.Pow(10, l-exponent)
		if mantissa >= 9.95 {
			mantissa, exponent = 1, exponent+1
		}
		p = fmt.Sprintf("%.1fe%.0f", mantissa, exponent)
	}
	return fmt.Sprintf("%s (z %s, n %d; %s)", p, digits(w.Z.V, 4), w.N, w.Method)
}

func sizeLine(s *compare.Size) string {
	if s.Why != "" {
		return "not known: " + s.Why
	}
	change := fmt.Sprintf("%+d", s.Bytes)
	if s.Bytes == 0 {
		change = "the same"
	} else if s.Change.Defined() {
		change += ", " + percentText(s.Change.V) + " %"
	}
	return fmt.Sprintf("%s → %s (%s)", formatBytes(s.A), formatBytes(s.B), change)
}

// printDistribution draws the changes as a histogram on its side, with their
// quantiles.
func printDistribution(t *textReport, r *compare.Report) {
	d := &r.Distribution
	t.line("")
	if d.Why != "" {
		t.line("distribution of changes: none: %s", d.Why)
		return
	}
	header, row := []string{"changes"}, []string{""}
	for _, q := range d.Quantiles {
		name := map[float64]string{0: "least", 0.5: "median", 1: "most"}[q.Q]
		header = append(header, ">"+cmp.Or(name, digits(100*q.Q, 3)+" %"))
		row = append(row, changeText(r.Metric, landscape.Exact(q.Value)))
	}
	t.table(header, [][]string{row})
	const groups, columns = 10, 40
	n := min(groups, len(d.Counts))
	counts := make([]int, n)
	for i, c := range d.Counts {
		counts[i*n/len(d.Counts)] += c
	}
	most := max(d.Below, d.Above, slices.Max(counts))
	bar := func(c int) string {
		if c == 0 {
			return ""
		}
		return strings.Repeat("#", max(1, c*columns/most))
	}
	edge := func(i int) string {
		return changeText(r.Metric, landscape.Exact(d.Low+(d.High-d.Low)*float64(i)/float64(n)))
	}
	var rows [][]string
	if d.Below > 0 {
		rows = append(rows, []string{"", "below", edge(0), fmt.Sprint(d.Below), bar(d.Below)})
	}
	for i, c := range counts {
		rows = append(rows, []string{edge(i), "to", edge(i + 1), fmt.Sprint(c), bar(c)})
	}
	if d.Above > 0 {
		rows = append(rows, []string{"", "above", edge(n), fmt.Sprint(d.Above), bar(d.Above)})
	}
	t.line("")
	t.table([]string{">change", "", ">", ">pairs", ""}, rows)
}

func printRegressions(t *textReport, r *compare.Report, worst int) {
	if r.Metric.Worse == 0 || worst == 0 {
		return
	}
	t.line("")
	if len(r.Worst) == 0 {
		t.line("worst regressions: none")
		return
	}
	var rows [][]string
	for _, w := range r.Worst {
		rows = append(rows, []string{views.Clean(w.Tensor), digits(w.A, 5), digits(w.B, 5), changeText(r.Metric, w.Change)})
	}
	t.table([]string{"worst regressions", ">A", ">B", "change"}, rows)
	if more := r.Losses - len(r.Worst); more > 0 {
		t.line("and %d more", more)
	}
}
