package logs

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Command is the first argument of a program that writes the log of a container. The
// second one is the argument of Copy.
const Command = "container-log"

// The files that containerd gives to a program for logs: the container's streams, and one
// that is closed when the program is ready.
const (
	stdoutFile = 3
	stderrFile = 4
	readyFile  = 5
)

// Copy writes the output of a container into a file, until the container has ended. The
// argument is the size in bytes at which the file is rotated, a colon, and the path.
// It is called in a program of its own, which containerd starts for each container and
// which outlives the invoker.
func Copy(argument string) error {
	text, path, _ := strings.Cut(argument, ":")
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil || path == "" {
		return fmt.Errorf("%q is not of the form BYTES:PATH", argument)
	}
	// containerd sends the signal before the last output is read.
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	out, err := OpenWriter(path, limit)
	if err != nil {
		return err
	}
	var copies sync.WaitGroup
	for number, name := range map[uintptr]string{stdoutFile: "stdout", stderrFile: "stderr"} {
		stream, from := out.Stream(name), os.NewFile(number, name)
		copies.Go(func() {
			_, _ = io.Copy(stream, from) // it ends with the container
			stream.End()
		})
	}
	if err := os.NewFile(readyFile, "ready").Close(); err != nil {
		return fmt.Errorf("report that the log is open: %w", err)
	}
	copies.Wait()
	return out.Close()
}
