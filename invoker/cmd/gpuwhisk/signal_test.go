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

// TestSecondSignalWithinAMoment: two signals in quick succession count as one, because
// GNU timeout sends a signal to the process and another one to its group. A later second
// signal ends the process.
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
			t.Error("exited without a drain after two signals at once")
		}
		time.Sleep(time.Millisecond)
		signals <- syscall.SIGTERM
		synctest.Wait()
		if left != 1 {
			t.Error("a second signal does not end the process")
		}
	})
}

// TestHangUpIsATermination: SIGHUP ends the process like SIGTERM, and another process is
// expected to follow. After Ctrl-C none is.
func TestHangUpIsATermination(t *testing.T) {
	for s, follows := range map[os.Signal]bool{syscall.SIGHUP: true, syscall.SIGTERM: true, os.Interrupt: false} {
		synctest.Test(t, func(t *testing.T) {
			signals := make(chan os.Signal)
			ctx := untilSignalled(signals, func() {})
			signals <- s
			<-ctx.Done()
			if got := errors.Is(context.Cause(ctx), errTerminated); got != follows {
				t.Errorf("%s: another process is expected to follow: %t, want %t", s, got, follows)
			}
			signals <- s
			time.Sleep(secondSignal)
			signals <- s // let the goroutine end
		})
	}
}
