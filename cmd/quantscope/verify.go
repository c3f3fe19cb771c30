package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quantscope/analysis/verify"
	"quantscope/kernels"
	"quantscope/quant/codes"
	"quantscope/sessions"
	"quantscope/views"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	session, variant string
	codes            string
	reading          readingFlags
	threads          int
	json             bool
}

func newVerify(std streams) *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use:   "verify SRC OUT",
		Short: "Prove that a quantized checkpoint is its source's; exit 1 when it is not",
		Long: `verify reads every byte of both checkpoints. Tensors that are not quantized must
have the source's bytes. Quantized ones are decoded by their layout's own
formula and held against the source; where it is known how they were made (by
--variant, by the config of an export of quantscope, by the session, or because
something that is known makes the same) they are made again, and codes and
scales must be equal bit for bit. What was calibrated cannot be made again of the
weights alone: it is held against the folder of its codes (--codes), code for
code, and measured against the session's records. Where SRC has FP4 codes and OUT
has others, these must be a recoding: each the nearest of four values a matrix to
the source's, under its scales, with its headers. Config, index, shards and the files beside
the weights are held against the tensors and the source. SRC may be demo.`,
		Example: `  quantscope verify ./Qwen3-30B-A3B ./Qwen3-30B-A3B-NVFP4
  quantscope verify demo ./demo-nvfp4 --session demo.qscope`,
		Args: exactly(2, "verify takes a checkpoint and what was made of it: verify SRC OUT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return verifyCheckpoint(cmd.Context(), std, args[0], args[1], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.session, "session", "", "session that measured the tensors when they were made: its records must be theirs")
	fl.StringVar(&f.variant, "variant", "", "variant that OUT was made with (default: what its config or the session says, else what makes the same)")
	f.reading.bindLayout(cmd)
	fl.StringVar(&f.codes, "codes", "", "folder of codes that OUT was written from: a calibrated variant is held against it code for code")
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output")
	return cmd
}

func verifyCheckpoint(ctx context.Context, std streams, src, out string, f verifyFlags) error {
	if f.threads < 1 {
		return usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	}
	ck, model, err := openModel(src)
	if err != nil {
		return err
	}
	defer ck.Close()
	if err := present(out); err != nil {
		return err
	}
	reading, err := f.reading.options()
	if err != nil {
		return err
	}
	o := verify.Options{Variant: f.variant, Layout: reading, Set: kernels.Best(), Threads: f.threads}
	if f.session != "" {
		records, err := openRecords(f.session, ck.Identity().String())
		if err != nil {
			return err
		}
		defer records.feed.Close()
		o.Session = records
	}
	if f.codes != "" {
		store, err := openCodes(f.codes, ck.Identity().String())
		if err != nil {
			return err
		}
		defer store.Close()
		if o.Codes = store; o.Variant == "" {
			o.Variant = store.Manifest().Variant
		}
	}
	p := newVerifyProgress(std)
	o.Progress = p.show
	rep, err := verify.Run(ctx, ck, model, out, o)
	p.end()
	switch {
	case errors.Is(err, verify.ErrSession):
		return badInput(fmt.Errorf("%s: %w", f.session, err))
	case err != nil:
		return err
	}
	if f.codes != "" && f.variant == "" && rep.From == "options" {
		rep.From = "codes"
	}
	if f.json {
		err = printJSON(std.out, rep)
	} else {
		err = printVerified(std, rep)
	}
	if err == nil && !rep.OK {
		return checkFailed(errSaid)
	}
	return err
}

// openCodes opens a folder of codes of the checkpoint with this identity.
func openCodes(dir, identity string) (*codes.Store, error) {
	if !codes.IsStore(dir) {
		return nil, badInput(fmt.Errorf("%s: %s", dir, codes.NoStore(dir)))
	}
	s, err := codes.Open(dir)
	if err != nil {
		return nil, calibrationError(err)
	}
	if is := s.Manifest().Source; is != identity {
		_ = s.Close() // it was only looked at
		return nil, badInput(fmt.Errorf("%s: is of another checkpoint (identity %.12s, not %.12s)", dir, is, identity))
	}
	return s, nil
}

// sessionRecords are the records of a session for verify.
type sessionRecords struct {
	feed    sessions.Feed
	state   *sessions.State
	tensors map[string]int
}

// openRecords opens a session of the checkpoint with this identity.
func openRecords(path, identity string) (*sessionRecords, error) {
	if err := present(path); err != nil {
		return nil, err
	}
	feed, err := sessions.OpenSession(path)
	if err != nil {
		return nil, err
	}
	r := &sessionRecords{feed: feed, state: feed.Snapshot(), tensors: map[string]int{}}
	if is := r.state.Meta.SourceIdentity; is != identity {
		_ = feed.Close() // of a file that was only read
		return nil, badInput(fmt.Errorf("%s: is of another checkpoint, %s (identity %.12s, not %.12s)", path, r.state.Meta.SourcePath, is, identity))
	}
	for _, t := range r.state.Tensors {
		r.tensors[t.Name] = t.ID
	}
	return r, nil
}

// Variants are the names of the session's variants.
func (r *sessionRecords) Variants() []string {
	names := make([]string, len(r.state.Variants))
	for i, v := range r.state.Variants {
		names[i] = v.Name
	}
	return names
}

// Record is a measurement that did not fail.
func (r *sessionRecords) Record(ctx context.Context, variant, matrix string) (kernels.Tap, bool, error) {
	v := r.state.VariantByName(variant)
	t, ok := r.tensors[matrix]
	if v < 0 || !ok || r.state.Records[v][t].Seq == 0 || r.state.Records[v][t].Failed {
		return kernels.Tap{}, false, nil
	}
	tap, err := r.feed.Detail(ctx, v, t)
	return tap, err == nil, err
}

// Recipe is the recipe that a variant follows.
func (r *sessionRecords) Recipe(variant string) (name, sha256 string, ok bool) {
	f := r.state.RecipeOf(r.state.VariantByName(variant))
	if f == nil {
		return "", "", false
	}
	return f.Name, f.SHA256, true
}

// How is how a variant made a matrix.
func (r *sessionRecords) How(variant, matrix string) (string, bool) {
	v := r.state.VariantByName(variant)
	t, ok := r.tensors[matrix]
	if v < 0 || !ok {
		return "", false
	}
	how, quantized := r.state.How(v, t)
	return how.Plain(), quantized
}

// verifyProgress prints how far a comparison is.
type verifyProgress struct {
	*progress
	began time.Time
	last  verify.Progress
}

func newVerifyProgress(std streams) *verifyProgress {
	return &verifyProgress{progress: newProgress(std), began: time.Now()}
}

func (p *verifyProgress) show(now verify.Progress) {
	p.last = now
	if time.Since(p.progress.last) < p.every {
		return
	}
	p.progress.last = time.Now()
	p.print(verifyLine(now, time.Since(p.began)))
}

// verifyLine is a line of progress.
func verifyLine(now verify.Progress, took time.Duration) string {
	line := fmt.Sprintf("verifying  %s of %s", formatBytes(now.Done), formatBytes(now.Total))
	if rate := float64(now.Done) / took.Seconds(); took > 0 && rate > 0 {
		line += fmt.Sprintf("  %s/s", formatBytes(int64(rate)))
		if left := float64(now.Total-now.Done) / rate; left > 0 {
			line += "  ETA " + clock(left)
		}
	}
	return line
}

// end prints the last line, and leaves it on a terminal.
func (p *verifyProgress) end() {
	if p.last.Total == 0 {
		return
	}
	p.print(verifyLine(p.last, time.Since(p.began)))
	if p.live {
		fmt.Fprintln(p.w)
	}
}

// maxPrinted is how many problems are printed; --json has all.
const maxPrinted = 40

func printVerified(std streams, rep *verify.Report) error {
	t := newReport(std.out)
	t.line("%s against %s", rep.Output, rep.Source)
	t.line("untouched   %d of %d tensors have the source's bytes, %s, xxh3 %s", rep.UntouchedIdentical, rep.UntouchedTensors, formatBytes(rep.UntouchedBytes), rep.UntouchedXXH3)
	if rep.QuantizedTensors > 0 {
		method := rep.Method
		if method == "" {
			method = "no config"
		}
		t.line("quantized   %d of %d matrices read and decoded, %s (%s)", rep.QuantizedChecked, rep.QuantizedTensors, formatBytes(rep.QuantizedBytes), method)
	}
	if rep.Variant != "" {
		by := fmt.Sprintf("by %s (%s; %s)", rep.Variant, rep.Convention, sayFrom(rep.From))
		switch {
		case !rep.Calibrated:
			t.line("made again  %d equal bit for bit, %s", rep.QuantizedReproduced, by)
		case rep.QuantizedReproduced > 0:
			t.line("codes       %d equal to those that were kept, bit for bit, %s", rep.QuantizedReproduced, by)
		default:
			t.line("calibrated  %s", by)
		}
	}
	if rep.Recoded > 0 {
		line := fmt.Sprintf("recoded     %d matrices: each code is the nearest of four to the source's, under the source's scales", rep.Recoded)
		if rep.HeadersIdentical > 0 {
			line += fmt.Sprintf("; %s the source's, byte for byte", counted(rep.HeadersIdentical, "header is", "headers are"))
		}
		t.line("%s", line)
	}
	if len(rep.Codebooks) > 0 {
		t.line("codebooks   %s", sayBooks(rep.Codebooks))
	}
	if rep.Recipe != "" {
		var groups []string
		for _, g := range rep.Groups {
			groups = append(groups, fmt.Sprintf("%s %d of %d", views.Clean(g.Variant), g.Reproduced, g.Modules))
		}
		t.line("recipe      %s (sha256 %.12s): %s", views.Clean(rep.Recipe), rep.RecipeSHA256, strings.Join(groups, ", "))
	}
	if rep.QuantizedCompensated > 0 {
		t.line("compensated %d equal to that bit for bit, moved to the second-level scale of what is fused with it", rep.QuantizedCompensated)
	}
	if rep.RecordsCompared > 0 {
		t.line("records     %d compared with the session's", rep.RecordsCompared)
	}
	if rep.QuantizedChecked > 0 {
		t.line("error       mean rel_l2 %.6g, worst %.6g (%s), least cosine %.6g", float64(rep.MeanRelL2), float64(rep.WorstRelL2), views.Clean(rep.WorstTensor), float64(rep.CosMin))
	}
	for _, n := range rep.Notes {
		t.line("note        %s", views.Clean(n))
	}
	for i, p := range rep.Problems {
		if i == maxPrinted {
			t.line("%d more problems; --json has all", len(rep.Problems)-i)
			break
		}
		t.line("problem     %s", strings.Join(strings.Fields(views.Clean(strings.Join([]string{p.ID, p.File, p.Tensor, p.Message}, " "))), " "))
	}
	if rep.OK {
		t.line("ok")
	} else {
		t.line("%s", counted(len(rep.Problems), "problem", "problems"))
	}
	return t.err
}

// shownBooks is how many codebooks are printed; --json has all.
const shownBooks = 6

// sayBooks lists codebooks with how many matrices have each.
func sayBooks(books []verify.Book) string {
	var said []string
	for i, b := range books {
		if i == shownBooks {
			said = append(said, fmt.Sprintf("%d more", len(books)-i))
			break
		}
		said = append(said, fmt.Sprintf("%d of %s", b.Tensors, strings.Trim(fmt.Sprint(b.Values), "[]")))
	}
	return strings.Join(said, ", ")
}

// sayFrom says who named a variant.
func sayFrom(from string) string {
	switch from {
	case "codes":
		return "as the codes say"
	case "options":
		return "as --variant says"
	case "found":
		return "found by trying"
	}
	return "as the " + from + " says"
}
