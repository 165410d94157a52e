package process

import (
	"fmt"
	"net"
	"sync"
)

// ports hands out free ports of the loopback interface. Between the choice
// and the moment when the proxy listens, a port is free for the kernel, so one
// that is handed out is not handed out again.
type ports struct {
	mu   sync.Mutex
	used map[int]bool
}

func newPorts() *ports { return &ports{used: map[int]bool{}} }

func (p *ports) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return 0, fmt.Errorf("find a free port: %w", err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		_ = listener.Close()
		if !p.used[port] {
			p.used[port] = true
			return port, nil
		}
	}
}

func (p *ports) free(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, port)
}
