package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"quantscope/analysis/candidate"
	"quantscope/analysis/gates/local"
	"quantscope/analysis/gates/serve"
	"quantscope/kernels"
	"quantscope/sessions"
	"quantscope/views"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	reference, host, fault, mem, name     string
	keyEnv, activations, targets, codes   string
	calib                                 []string
	port, speculate, slots, threads, most int
	prefixCache, log, json                bool
	reading                               readingFlags
}

func newServe(std streams) *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve SPEC",
		Short: "Serve a candidate over HTTP as OpenAI's and vLLM's servers do",
		Long: `serve answers chat and text completions of a candidate, whole or streamed, with tools
and log probabilities, and counts under vLLM's names at /metrics. It computes what measure
and gates compute, so that clients can be tried on a checkpoint before a GPU is.

SPEC is what --candidate of measure takes: demo, a folder or file of safetensors, a GGUF
file, a session's export, or, with --reference, a variant made on the fly (nvfp4+mse), a
recipe or a folder of codes; LABEL=SPEC gives it a name. It listens on this machine alone
unless --host says otherwise. A parameter of a request that would change an answer and is
not done is refused by its name. The first interrupt lets answers end, the second does not.
docs/serve.md lists endpoints, parameters, faults and counters.`,
		Example: `  quantscope serve demo
  quantscope serve nvfp4+mse_ge1 --reference ./Model --port 0 --speculate 2
  quantscope serve ./Model-NVFP4 --model-name mine --host 0.0.0.0 --key-env SERVE_KEY
  quantscope serve nvfp4 --reference demo --fault fused-scale
  curl http://127.0.0.1:8000/v1/completions -H 'Content-Type: application/json' -d '{"prompt": "In the beginning", "max_tokens": 20}'`,
		Args: exactly(1, "serve takes one candidate: a variant with --reference, a recipe, a session, a folder, a file or demo"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return runServe(cmd.Context(), std, args[0], f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.reference, "reference", "", "checkpoint that a variant, a recipe or codes are made from")
	fl.StringVar(&f.targets, "targets", "", "what a variant quantizes: default, linear, all, or GLOB or re:REGEXP, separated by commas")
	fl.StringVar(&f.host, "host", "127.0.0.1", "address to listen on")
	fl.IntVar(&f.port, "port", 8000, "port to listen on; 0: one that is free")
	fl.StringVar(&f.name, "model-name", "", "name that the model is served under (default: the candidate's label)")
	fl.StringVar(&f.keyEnv, "key-env", "", "environment variable that holds the key that clients must send (default: none is asked for)")
	fl.IntVar(&f.speculate, "speculate", 0, "tokens drafted a step by the multi-token-prediction layer, 0 to "+strconv.Itoa(local.MaxSpeculate)+"; answers stay the same")
	fl.BoolVar(&f.prefixCache, "prefix-cache", false, "keep keys and values of prompts, for others that begin alike; answers stay the same")
	fl.IntVar(&f.slots, "slots", 8, "answers at the same time; others wait")
	fl.IntVar(&f.most, "max-model-len", 0, "tokens of a prompt and its answer (default: what the config says)")
	fl.StringVar(&f.mem, "mem", "", "memory for keys and values, such as 512MiB (default 1GiB)")
	fl.StringVar(&f.activations, "activations", "f32", "arithmetic of activations: f32 or bf16")
	fl.StringVar(&f.fault, "fault", "", "something wrong on purpose, for tests of what should find it: "+faultNames())
	fl.StringArrayVar(&f.calib, "calib", nil, "what a calibrated variant is calibrated on (default: the demo's, for its tokenizer)")
	fl.StringVar(&f.codes, "codes", "", "folder that keeps the codes of calibrated variants (default: in the user's cache folder)")
	f.reading.bind(cmd)
	fl.IntVar(&f.threads, "threads", runtime.GOMAXPROCS(0), "workers")
	fl.BoolVar(&f.log, "log", false, "print a line on standard error for each request that ended, without its text")
	fl.BoolVar(&f.json, "json", false, "print one JSON document on standard output when it listens")
	_ = cmd.RegisterFlagCompletionFunc("fault", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return strings.Split(faultNames(), ", "), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

// faultNames lists the faults.
func faultNames() string {
	var names []string
	for _, f := range local.Faults() {
		names = append(names, string(f))
	}
	return strings.Join(names, ", ")
}

// engine checks the flags and turns them into how the candidate is run.
func (f *serveFlags) engine() (o local.Options, err error) {
	o = local.Options{
		Set: kernels.Best(), Threads: f.threads, Speculate: f.speculate, PrefixCache: f.prefixCache, Slots: f.slots, MaxTokens: f.most, Fault: local.Fault(f.fault),
	}
	switch {
	case f.port < 0 || f.port > 65535:
		return o, usage(fmt.Errorf("--port %d: want 0 to 65535", f.port))
	case f.threads < 1:
		return o, usage(fmt.Errorf("--threads %d: at least one is needed", f.threads))
	case strings.ContainsFunc(f.name, unicode.IsControl) || !utf8.ValidString(f.name):
		return o, usage(fmt.Errorf("--model-name %q: want no control characters", f.name))
	case f.slots < 1 || f.slots > 1024:
		return o, usage(fmt.Errorf("--slots %d: want 1 to 1024", f.slots))
	case f.speculate < 0 || f.speculate > local.MaxSpeculate:
		return o, usage(fmt.Errorf("--speculate %d: want 0 to %d", f.speculate, local.MaxSpeculate))
	case f.most < 0:
		return o, usage(fmt.Errorf("--max-model-len %d: want 0 or more", f.most))
	case f.fault != "" && !slices.Contains(local.Faults(), o.Fault):
		return o, usage(fmt.Errorf("--fault %q is none of %s", f.fault, faultNames()))
	case o.Fault == local.BadLogprobs && f.speculate == 0:
		return o, usage(fmt.Errorf("--fault %s shows under speculation: give --speculate 1 or more", f.fault))
	}
	switch f.activations {
	case "f32":
	case "bf16":
		o.BF16 = true
	default:
		return o, usage(fmt.Errorf("--activations %q is none of f32, bf16", f.activations))
	}
	if f.mem != "" {
		if o.Mem, err = parseBytes(f.mem); err != nil {
			return o, usage(fmt.Errorf("--mem: %w", err))
		}
	}
	return o, nil
}

// key is what clients must send; "" where nothing is asked for.
func (f *serveFlags) key() (string, error) {
	if f.keyEnv == "" {
		return "", nil
	}
	key := os.Getenv(f.keyEnv)
	if strings.TrimSpace(key) == "" {
		return "", usage(fmt.Errorf("--key-env %s: the environment has no such variable, or it is empty", f.keyEnv))
	}
	return strings.TrimSpace(key), nil
}

// open opens what is served.
func (f *serveFlags) open(ctx context.Context, p *serveLines, spec string) (*sessions.OpenedCandidate, error) {
	r := sessions.CandidateRequest{
		Spec: spec, Reference: f.reference, Targets: f.targets, Calib: f.calib, Codes: f.codes, Threads: f.threads,
		Program: version, KernelSet: kernels.Best(), Progress: p.stage, Warn: p.warn,
	}
	var err error
	if r.Layout, err = f.reading.options(); err != nil {
		return nil, err
	}
	r.Cache = hiddenCache()
	if f.reference != "" && f.reference != "demo" {
		if err := present(f.reference); err != nil {
			return nil, err
		}
	}
	c, err := sessions.OpenCandidate(ctx, r)
	if errors.Is(err, candidate.ErrReference) {
		return nil, usage(fmt.Errorf("%w: --reference names it", err))
	}
	if err != nil {
		return nil, measureError(err)
	}
	return c, nil
}

// runServe serves until it is interrupted.
func runServe(ctx context.Context, std streams, spec string, f serveFlags) (err error) {
	o, err := f.engine()
	if err != nil {
		return err
	}
	key, err := f.key()
	if err != nil {
		return err
	}
	// A port that is taken is known before anything is opened.
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(f.host, strconv.Itoa(f.port)))
	if err != nil {
		return environment(err)
	}
	defer l.Close() // again where it was served
	p := &serveLines{progress: newProgress(std)}
	c, err := f.open(ctx, p, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	e, err := local.New(ctx, c.Candidate, o)
	if err != nil {
		return measureError(err)
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	so := serve.Options{Model: f.name, Key: key, Version: version}
	if f.log {
		so.Log = p.line
	}
	who, err := e.Identity(ctx)
	if err != nil {
		return measureError(err)
	}
	doc := serveOf(l.Addr(), so, who, &f)
	p.warnings(c.Candidate, doc)
	if f.json {
		err = printJSON(std.out, doc)
	} else {
		err = printServe(std.out, doc)
	}
	if err != nil {
		return err
	}
	hard, stop := forced(ctx)
	defer stop()
	err = serve.New(e, so).Serve(ctx, hard, l, serve.Grace)
	switch {
	case errors.Is(err, serve.ErrCut):
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: %w", err)}
	case err != nil && ctx.Err() == nil:
		return environment(err)
	}
	return err
}

// forced is done at the second interrupt: the first is the end of ctx. stop gives
// interrupts back.
func forced(ctx context.Context) (hard context.Context, stop context.CancelFunc) {
	hard, stop = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() {
		again := make(chan os.Signal, 1)
		signal.Notify(again, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
		defer signal.Stop(again)
		select {
		case <-again:
			stop()
		case <-hard.Done():
		}
	})
	return hard, stop
}

// serveLines prints what is said while a candidate is opened and served.
type serveLines struct {
	*progress
	mu sync.Mutex // of the stream: requests end in many goroutines
}

func (p *serveLines) line(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprintln(p.w)
		p.drawn = false
	}
	fmt.Fprintln(p.w, views.Clean(oneLine(s)))
}

func (p *serveLines) warn(s string) { p.line("quantscope: " + s) }

func (p *serveLines) stage(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.print(views.Clean(s))
}

// warnings says what a person should know before anybody asks.
func (p *serveLines) warnings(c *candidate.Candidate, d *serveDocument) {
	if d.Fault != "" {
		p.warn(fmt.Sprintf("FAULT %s: answers are wrong on purpose; do not use them for anything but tests of what should find it", d.Fault))
	}
	if !d.Loopback && !d.Key {
		p.warn(fmt.Sprintf("%s is not this machine alone, and whoever reaches it is answered: --key-env asks for a key", d.Host))
	}
	for _, x := range c.Fallbacks {
		p.warn(fmt.Sprintf("%s is %s, not %s: %s", x.Tensor, x.Effective, x.Requested, x.Reason))
	}
	for _, x := range c.Findings {
		p.warn(strings.TrimSpace(x.Tensor + " " + x.Message))
	}
}
