package main

import (
	"io"
	"os"

	"github.com/charmbracelet/x/term"
)

// streams are where a command reads and writes, so that a test can stand in.
type streams struct {
	in       io.Reader
	out, err io.Writer
	// terminal says that a person sits at both ends of in and out, on a terminal
	// that can draw.
	terminal bool
	// live says that err is a terminal, so that progress may redraw its line.
	live bool
}

func stdio() streams {
	tty := func(f *os.File) bool { return term.IsTerminal(f.Fd()) }
	able := os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
	return streams{
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
		terminal: able && tty(os.Stdin) && tty(os.Stdout),
		live:     able && tty(os.Stderr),
	}
}
