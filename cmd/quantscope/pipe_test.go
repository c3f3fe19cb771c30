//go:build unix

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A named pipe that nobody writes to is refused wherever a file is asked for: to
// open it would be to wait for ever.
func TestNamedPipes(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", dir)
	made := map[string]string{}
	for _, name := range []string{"x.txt", "x.yaml", "x.gguf", "x.qscope", "x.kld", "x.json", "x.ids", "x.safetensors"} {
		made[name] = filepath.Join(dir, name)
		if err := syscall.Mkfifo(made[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	texts := filepath.Join(dir, "texts")
	if err := os.Mkdir(texts, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(texts, "tokenizer.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	measure := []string{"measure", "demo", "--cache", "none", "--session", filepath.Join(dir, "s.qscope"), "--candidate"}
	for _, args := range [][]string{
		append(measure, "nvfp4", "--corpus", made["x.txt"]), append(measure, "nvfp4", "--corpus", made["x.json"]), append(measure, "nvfp4", "--corpus", made["x.ids"]),
		append(measure, "nvfp4", "--corpus", "prose", "--calib", made["x.txt"]), append(measure, made["x.yaml"]), append(measure, made["x.gguf"]),
		append(measure, made["x.qscope"]), append(measure, made["x.safetensors"]), append(measure, "nvfp4", "--kl-base", made["x.kld"]),
		{"measure", made["x.gguf"], "--candidate", "nvfp4"}, {"corpus", "build", made["x.txt"], "--tokenizer", "demo", "--out", filepath.Join(dir, "o.json")},
		{"corpus", "build", "prose", "--tokenizer", made["x.gguf"], "--out", filepath.Join(dir, "o.json")}, {"corpus", "info", made["x.json"]},
		{"corpus", "check", made["x.json"], "--calib", made["x.txt"]},
		{"lint", "demo", "--recipe", made["x.yaml"]}, {"lint", "demo", "--log", made["x.txt"]}, {"lint", texts}, {"lint", "demo", "--from", made["x.safetensors"]},
		{"quantize", "demo", "--layout", "gguf", "--variant", "q8_0", "--dry-run", "--tensor-type-file", made["x.txt"]},
		{"quantize", "demo", "--layout", "gguf", "--variant", "q4_0+imatrix", "--dry-run", "--imatrix", made["x.gguf"]},
		{"recipe", "import", "demo", made["x.yaml"], "--format", "llm-compressor"}, {"compare", "demo", made["x.gguf"]}, {"compare", made["x.safetensors"], "demo"},
		{"convert", made["x.safetensors"], filepath.Join(dir, "out"), "--layout", "modelopt"}, {"verify", "demo", made["x.safetensors"]}, {"inspect", made["x.gguf"]},
		{"mend", made["x.safetensors"], "--from", "demo"},
	} {
		var out, text bytes.Buffer
		ended := make(chan int, 1)
		go func() {
			ended <- run(context.Background(), args, streams{in: strings.NewReader(""), out: &out, err: &text})
		}()
		select {
		case code := <-ended:
			if code != exitBadInput || out.Len() > 0 || !strings.Contains(text.String(), "not a regular file") || strings.Count(text.String(), "\n") != 1 {
				t.Errorf("%v: exit %d: %s%s", args, code, &out, &text)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%v waits", args)
		}
	}
}
