// Package peertest starts and stops the real peers of tests by the scripts in
// .ci/peers. Only tests import it.
package peertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// waitLimit limits a script. The first start of a peer includes its download.
const waitLimit = 5 * time.Minute

// Script runs a command (start, env, stop) of a peer's script with env added to this
// process's environment. It returns the NAME=VALUE lines that the script prints. The
// error contains the script's output.
func Script(env []string, name, command string) (map[string]string, error) {
	return scriptWithin(waitLimit, env, name, command)
}

// scriptWithin is Script with another time limit.
func scriptWithin(limit time.Duration, env []string, name, command string) (map[string]string, error) {
	dir, err := root()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, ".ci", "peers", name+".sh"), command)
	var out, diag bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = append(cmd.Environ(), env...), &out, &diag
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w: %s", name, command, err, diag.String())
	}
	output := map[string]string{}
	for line := range strings.Lines(out.String()) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			output[key] = value
		}
	}
	return output, nil
}

// signal sends a signal to the peer whose files are in dir.
func signal(dir string, s syscall.Signal) error {
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	return syscall.Kill(pid, s)
}

// root returns the root folder of the test's module.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err = os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir, err = filepath.Dir(dir), nil
	}
	return "", fmt.Errorf("no go.mod above this test: %w", err)
}
