//go:build ignore

// Writes the text of the demo's embedded corpora: calib.txt, for calibration, and
// prose.txt, code.txt, multi.txt, math.txt and chat.txt, which were held out. Models
// with other tokenizers are calibrated and measured on them.
//
//	go run .ci/tables/text.go FOLDER
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"quantscope/analysis/corpus"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: text.go FOLDER")
	}
	tok, err := corpus.DemoTokenizer()
	if err != nil {
		return err
	}
	all, err := corpus.Demo()
	if err != nil {
		return err
	}
	for _, c := range all {
		var text []byte
		for _, k := range spread(len(c.Chunks)) {
			chunk := c.Chunks[k]
			var part []byte
			for _, id := range chunk {
				part = append(part, tok.Bytes(id)...)
			}
			text = append(append(text, bytes.ToValidUTF8(part, nil)...), '\n') // chunks end within characters
		}
		if err := os.WriteFile(filepath.Join(os.Args[1], c.Name+".txt"), text, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// spread orders chunks so that the first of them are of all kinds that there are.
func spread(n int) []int {
	const stride = 16
	var order []int
	for first := range stride {
		for k := first; k < n; k += stride {
			order = append(order, k)
		}
	}
	return order
}
