// Command gpuwhisk-native is the action proxy for executables. It runs as the first
// process of a container.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/gpuwhisk/gpuwhisk/docker/runtimes/native"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := native.Run(ctx, os.Environ(), os.Stdout, os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpuwhisk-native:", err)
		os.Exit(1)
	}
}
