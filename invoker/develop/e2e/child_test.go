package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// roleInvoker is the word by which the test's program is an invoker.
const roleInvoker = "e2e-invoker"

// endsWithInput is set for an invoker in a container, which does not end when who
// started it does, but has no input then.
const endsWithInput = "GPUWHISK_TEST_ENDS_WITH_INPUT"

// invokerMain is `gpuwhisk invoker` as far as a test needs it.
func invokerMain(args []string) int {
	ctx, cancel := context.WithCancel(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var terminated atomic.Bool
	go func() {
		terminated.Store(<-signals == syscall.SIGTERM)
		cancel()
	}()
	if os.Getenv(endsWithInput) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	cfg, err := config.Load(config.Input{Environ: os.Environ(), Args: args})
	if err == nil {
		var self string
		self, err = os.Executable()
		err = errors.Join(err, assembly.Run(ctx, assembly.Options{
			LongTimeouts: true,
			Config:       cfg, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Self: self, Path: os.Getenv("PATH"),
			Terminated: terminated.Load,
			Listening:  func(addr string) { fmt.Println("listening", addr) }, Ready: func() { fmt.Println("ready") },
		}))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// child is an invoker in a process of its own, which can be ended in any way and
// started again.
type child struct {
	p           *platform
	environ     []string
	inContainer *invokerContainer // runs in a container; nil: does not
	cmd         *exec.Cmd
}

// startChild starts the invoker as a process.
func (p *platform) startChild(ctx context.Context, environ []string, in *invokerContainer) (func() error, error) {
	if in != nil {
		environ = append(environ, in.settings...)
	}
	cfg, err := config.Load(config.Input{Environ: environ, Args: []string{"--id", "0", "--uniqueName", p.unique}})
	if err != nil {
		return nil, err
	}
	p.login = url.UserPassword(cfg.Admin.Username, cfg.Admin.Password)
	p.child = &child{p: p, environ: environ, inContainer: in}
	if err := p.child.start(); err != nil {
		return nil, err
	}
	return func() error {
		<-ctx.Done()
		return p.child.end(os.Interrupt)
	}, nil
}

// start returns when the invoker takes work.
func (c *child) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := []string{"--id", "0", "--uniqueName", c.p.unique}
	c.cmd = exec.Command(self, append([]string{roleInvoker}, args...)...)
	if c.inContainer != nil {
		c.cmd = c.inContainer.command(c.p, self, c.environ, args)
	}
	c.cmd.Env = append(append([]string{}, c.environ...), "PATH="+os.Getenv("PATH"))
	if testing.Verbose() {
		c.cmd.Stderr = c.p.t.Output()
	}
	out, err := c.cmd.StdoutPipe()
	if err == nil && c.inContainer != nil {
		_, err = c.cmd.StdinPipe() // ends with this process
	}
	if err == nil {
		err = peertest.Start(c.cmd)
	}
	if err != nil {
		return err
	}
	if c.inContainer != nil && c.inContainer.base != "" {
		c.p.base = c.inContainer.base
		go func() { _, _ = io.Copy(io.Discard, out) }()
		return nil // readiness is seen from outside
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if addr, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			c.p.base = "http://127.0.0.1" + addr[strings.LastIndex(addr, ":"):]
		}
		if lines.Text() == "ready" {
			return nil
		}
	}
	return errors.Join(errors.New("the invoker ended before it was ready"), c.cmd.Wait())
}

// end ends the invoker. Only one that was killed may end badly.
func (c *child) end(how os.Signal) error {
	_ = c.cmd.Process.Signal(how)
	err := c.cmd.Wait()
	if how == syscall.SIGKILL {
		return nil
	}
	return err
}

// again starts an invoker in the place of one that has ended, and waits until
// controllers know.
func (c *child) again() {
	c.p.t.Helper()
	c.must(c.start())
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	c.must(c.p.s.WaitReady(ctx))
}

func (c *child) must(err error) {
	c.p.t.Helper()
	if err != nil {
		c.p.t.Fatal(err)
	}
}

// post asks the admin page for something.
func (p *platform) post(path string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.base+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	password, _ := p.login.Password()
	req.SetBasicAuth(p.login.Username(), password)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		p.t.Fatalf("%s: status %d", path, res.StatusCode)
	}
}
