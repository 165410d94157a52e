package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// Two signals within a moment are one: GNU timeout sends its own and has the
// process group get another. A later one means it.
func TestSecondSignalWithinAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals, left := make(chan os.Signal), 0
		ctx := untilSignalled(signals, func() { left++ })
		if ctx.Err() != nil {
			t.Fatal("ended before any signal")
		}
		signals <- syscall.SIGTERM
		<-ctx.Done()
		for range 3 {
			signals <- syscall.SIGTERM
			synctest.Wait()
		}
		time.Sleep(secondSignal - time.Millisecond)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if left != 0 {
			t.Error("left undrained for signals that came together")
		}
		time.Sleep(time.Millisecond)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if left != 1 {
			t.Error("a second signal does not end the process")
		}
	})
}

// TestHangUpIsATermination: SIGHUP ends the process as SIGTERM does, after which another
// process is to follow. Ctrl-C is for good.
func TestHangUpIsATermination(t *testing.T) {
	for s, follows := range map[os.Signal]bool{syscall.SIGHUP: true, syscall.SIGTERM: true, os.Interrupt: false} {
		synctest.Test(t, func(t *testing.T) {
			signals := make(chan os.Signal)
			ctx := untilSignalled(signals, func() {})
			signals <- s
			<-ctx.Done()
			if got := errors.Is(context.Cause(ctx), errTerminated); got != follows {
				t.Errorf("%s: another process is to follow: %t, want %t", s, got, follows)
			}
			signals <- s
			time.Sleep(secondSignal)
			signals <- s // the goroutine ends
		})
	}
}
