package e2e

import (
	"context"
	"os"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// child is an invoker in a process of its own, which can be ended in any way and
// started again.
type child struct {
	p           *platform
	environ     []string
	inContainer *invokerContainer // runs in a container; nil: does not
	process     *harness.Process
}

// startChild starts the invoker as a process.
func (p *platform) startChild(ctx context.Context, environ []string, in *invokerContainer) (func() error, error) {
	if in != nil {
		environ = append(environ, in.settings...)
	}
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
func (c *child) start() (err error) {
	cmd := harness.Command(c.environ, "--id", "0", "--uniqueName", c.p.unique)
	if c.inContainer != nil {
		if cmd, err = c.inContainer.command(c.p, cmd); err != nil {
			return err
		}
	}
	cmd.Stderr = c.p.output
	if c.process, err = harness.Start(cmd); err != nil {
		return err
	}
	if c.inContainer != nil && c.inContainer.base != "" {
		c.p.admin.URL = c.inContainer.base
		return nil // readiness is seen from outside
	}
	err = c.process.Await()
	c.p.admin.URL = c.process.Admin.URL
	return err
}

// end ends the invoker. An error is allowed only after a kill.
func (c *child) end(how os.Signal) error { return c.process.Stop(how) }

// again starts an invoker in place of an ended one, and waits until controllers know it.
func (c *child) again() {
	c.p.t.Helper()
	check.NoError(c.p.t, c.start())
	ctx, cancel := context.WithTimeout(context.Background(), peertest.WaitLimit)
	defer cancel()
	check.NoError(c.p.t, c.p.s.WaitReady(ctx))
}

// replace ends the invoker and starts another one.
func (c *child) replace(how os.Signal) {
	c.p.t.Helper()
	check.NoError(c.p.t, c.end(how))
	c.again()
}
