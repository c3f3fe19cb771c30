//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// A file-size limit then fails the write with EFBIG, which names the file,
// instead of ending the process.
func init() { signal.Ignore(syscall.SIGXFSZ) }
