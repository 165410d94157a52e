package process

import (
	"os/exec"
	"runtime"
	"sync"
)

// starter starts processes from one thread that lives as long as the engine.
// The kernel's parent-death signal is sent when the thread that started the
// process ends (prctl(2), PR_SET_PDEATHSIG), not when the whole process does.
type starter struct {
	orders chan order
	stop   chan struct{}
	wg     sync.WaitGroup
}

type order struct {
	cmd  *exec.Cmd
	done chan error
}

func newStarter() *starter {
	s := &starter{orders: make(chan order), stop: make(chan struct{})}
	s.wg.Go(func() {
		// Never unlocked: the thread ends with the goroutine. By then all its
		// children have ended.
		runtime.LockOSThread()
		for {
			select {
			case o := <-s.orders:
				o.done <- o.cmd.Start()
			case <-s.stop:
				return
			}
		}
	})
	return s
}

func (s *starter) start(cmd *exec.Cmd) error {
	done := make(chan error, 1)
	select {
	case s.orders <- order{cmd, done}:
		return <-done
	case <-s.stop:
		return errClosed
	}
}

func (s *starter) close() {
	close(s.stop)
	s.wg.Wait()
}
