// Command _gen writes the assembly of package kernels and its Go stubs.
//
//	go run .          every file
//	go run . NAME …   the named ones
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
)

// files are the generated files: NAME gives ../NAME_amd64.s and
// ../NAME_stub_amd64.go. Each generator's file adds its own in an init.
var files = map[string]func(*build.Context){}

const constraint = "amd64,!noasm"

func main() {
	names := os.Args[1:]
	if len(names) == 0 {
		for name := range files {
			names = append(names, name)
		}
		sort.Strings(names)
	}
	for _, name := range names {
		if err := generate(name); err != nil {
			fmt.Fprintf(os.Stderr, "_gen: %s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func generate(name string) error {
	fill, ok := files[name]
	if !ok {
		known := make([]string, 0, len(files))
		for n := range files {
			known = append(known, n)
		}
		slices.Sort(known)
		return fmt.Errorf("no such file (known: %v)", known)
	}
	ctx := build.NewContext()
	ctx.ConstraintExpr(constraint)
	fill(ctx)
	f, err := ctx.Result()
	if err != nil {
		return err
	}
	if err := pass.Compile.Execute(f); err != nil {
		return err
	}
	cfg := printer.Config{Name: "kernels/_gen", Argv: []string{"kernels/_gen", name}, Pkg: "kernels"}
	if err := write(filepath.Join("..", name+"_amd64.s"), printer.NewGoAsm(cfg), f); err != nil {
		return err
	}
	return write(filepath.Join("..", name+"_stub_amd64.go"), printer.NewStubs(cfg), f)
}

func write(path string, p printer.Printer, f *ir.File) error {
	text, err := p.Print(f)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o666)
}
