package kernels

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// An AVX2 kernel must run where there is no AVX-512: the assembler takes a
// register that only AVX-512 has without a word.
func TestAVX2KernelsAreAVX2(t *testing.T) {
	files, err := filepath.Glob("*_amd64.s")
	if err != nil || len(files) == 0 {
		t.Fatalf("no assembly here: %v", err)
	}
	beyond := regexp.MustCompile(`\b(Z[0-9]+|K[0-7]|[XY](1[6-9]|2[0-9]|3[01]))\b`)
	functions := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		inside := ""
		for i, line := range strings.Split(string(text), "\n") {
			if name, ok := strings.CutPrefix(line, "TEXT ·"); ok {
				inside, _, _ = strings.Cut(name, "(")
				if strings.HasSuffix(inside, "AVX2") {
					functions++
				}
			}
			if strings.HasSuffix(inside, "AVX2") && beyond.MatchString(line) {
				t.Errorf("%s:%d: %s uses AVX-512: %s", file, i+1, inside, strings.TrimSpace(line))
			}
		}
	}
	if functions == 0 {
		t.Error("no function is named for AVX2")
	}
}
