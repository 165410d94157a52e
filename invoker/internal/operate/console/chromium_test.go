package console_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// browser starts a headless Chromium that ends with the test, and collects the
// errors of the page.
func browser(t *testing.T, width, height int) (ctx context.Context, complaints func() []string) {
	t.Helper()
	found := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			found = path
			break
		}
	}
	if found == "" {
		peertest.Missing(t, "no Chromium: on Debian, apt-get install chromium")
	}
	group := &group{}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(found), chromedp.NoSandbox, chromedp.WindowSize(width, height), chromedp.UserDataDir(profile(t)),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.WSURLReadTimeout(timeout), chromedp.ModifyCmdFunc(group.lead))
	// The test's own context ends before the clean-ups: it would end the first
	// process alone.
	allocator, end := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(end)
	// Events that the library does not know yet are not errors of the page.
	ctx, end2 := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(end2)
	t.Cleanup(group.kill)
	var mu sync.Mutex
	var complained []string
	chromedp.ListenTarget(ctx, func(ev any) {
		mu.Lock()
		defer mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			complained = append(complained, ev.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.APITypeError || ev.Type == runtime.APITypeWarning {
				complained = append(complained, fmt.Sprint(ev.Type, " ", ev.Args))
			}
		}
	})
	return ctx, func() []string { mu.Lock(); defer mu.Unlock(); return complained }
}

// group is all processes of a browser. Without it, child processes outlive the first
// process and go on writing files.
type group struct{ cmd *exec.Cmd }

func (g *group) lead(cmd *exec.Cmd) {
	// Chromium ends with this process, even if this process is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	g.cmd = cmd
}

// kill ends all processes. Afterwards they write no more files.
func (g *group) kill() {
	if g.cmd != nil && g.cmd.Process != nil {
		_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGKILL) // an error means that all have ended
	}
}

// profile makes a directory for the browser's files. A killed process finishes the
// system call that it is in, so removing the directory may fail for a moment.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gpuwhisk-chromium-")
	check.NoError(t, err)
	t.Cleanup(func() {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		late := time.After(timeout)
		for err := os.RemoveAll(dir); err != nil; err = os.RemoveAll(dir) {
			select {
			case <-again.C:
			case <-late:
				t.Errorf("remove the browser's profile: %v", err)
				return
			}
		}
	})
	return dir
}
