//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

// The first interrupt ends ctx; the second breaks off what goes on.
func TestSecondInterrupt(t *testing.T) {
	guard := make(chan os.Signal, 1) // whatever goes wrong, the test goes on
	signal.Notify(guard, syscall.SIGHUP)
	defer signal.Stop(guard)
	ctx, first := context.WithCancel(t.Context())
	hard, stop := forced(ctx)
	defer stop()
	interrupt := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		<-guard
	}
	interrupt()
	if hard.Err() != nil {
		t.Fatal("the first interrupt breaks off")
	}
	first()
	for end := time.Now().Add(10 * time.Second); hard.Err() == nil; interrupt() { // until it listens
		if time.Now().After(end) {
			t.Fatal("the second interrupt does nothing")
		}
	}
}
