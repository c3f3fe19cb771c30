package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"quantscope/analysis/gates/chat"
	"quantscope/analysis/gates/serve"
)

// serveDocument is what serve --json prints when it listens.
type serveDocument struct {
	URL         string `json:"url"` // for clients: with /v1
	Host        string `json:"host"`
	Port        int    `json:"port"`
	Loopback    bool   `json:"loopback"`
	PID         int    `json:"pid"`
	Model       string `json:"model"`
	Spec        string `json:"spec"`
	Path        string `json:"path"`
	Reference   string `json:"reference"`
	Effective   string `json:"effective"`
	Content     string `json:"content"`
	Fingerprint string `json:"system_fingerprint"`
	Speculative int    `json:"speculative"`
	Max         int    `json:"max_model_len"`
	Slots       int    `json:"slots"`
	Threads     int    `json:"threads"`
	Set         string `json:"kernel_set"`
	PrefixCache bool   `json:"prefix_cache"`
	Activations string `json:"activations"`
	Fault       string `json:"fault"`
	Key         bool   `json:"key"` // clients must send one
}

// serveOf is the document of a server.
func serveOf(at net.Addr, o serve.Options, who chat.Identity, f *serveFlags) *serveDocument {
	d := &serveDocument{
		Host: f.host, PID: os.Getpid(), Model: o.Model, Spec: who.Spec, Path: who.At, Reference: f.reference, Effective: who.Effective, Content: who.Content,
		Fingerprint: serve.Fingerprint(who), Speculative: who.Speculative, Max: who.MaxTokens, Slots: f.slots, Threads: f.threads, Set: who.Settings["kernel_set"],
		PrefixCache: f.prefixCache, Activations: f.activations, Fault: f.fault, Key: o.Key != "",
	}
	if d.Model == "" {
		d.Model = who.Model
	}
	host := f.host
	if a, ok := at.(*net.TCPAddr); ok {
		d.Port, d.Loopback = a.Port, a.IP.IsLoopback()
		if a.IP.IsUnspecified() { // all addresses: this machine reaches it by its own
			host = "127.0.0.1"
		}
	}
	d.URL = "http://" + net.JoinHostPort(host, fmt.Sprint(d.Port)) + "/v1"
	return d
}

// printServe prints one line: where it listens, and what is really served.
func printServe(w io.Writer, d *serveDocument) error {
	parts := []string{d.Effective, fmt.Sprintf("%d tokens", d.Max), counted(d.Slots, "answer at a time", "answers at a time")}
	if d.Speculative > 0 {
		parts = append(parts, counted(d.Speculative, "token drafted a step", "tokens drafted a step"))
	}
	if d.PrefixCache {
		parts = append(parts, "prefix cache")
	}
	if d.Activations != "f32" {
		parts = append(parts, "activations in "+d.Activations)
	}
	if d.Fault != "" {
		parts = append(parts, "FAULT "+d.Fault)
	}
	of := ""
	if d.Reference != "" {
		of = " of " + d.Reference
	}
	t := newReport(w)
	t.cols = 0 // the line is for programs too
	t.line("%s serves %s%s: %s", d.URL, d.Model, of, strings.Join(append(parts, d.Fingerprint), ", "))
	return t.err
}
