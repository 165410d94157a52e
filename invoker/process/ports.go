package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// ports hands out free ports of the loopback interface. Between the choice
// and the moment when the proxy listens, a port is free for the kernel, so one
// that is handed out is not handed out again, and none is of the range from
// which Linux serves whoever asks for any port (ip_local_port_range): a client
// connection could take it in that moment.
type ports struct {
	mu   sync.Mutex
	used map[int]bool
}

// The ports that are handed out.
const (
	firstPort = 20000
	lastPort  = 32767
)

func newPorts() *ports { return &ports{used: map[int]bool{}} }

func (p *ports) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A random start keeps several engines of one machine apart.
	span := lastPort - firstPort + 1
	for i, start := 0, rand.IntN(span); i < span; i++ {
		port := firstPort + (start+i)%span
		if p.used[port] {
			continue
		}
		listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		_ = listener.Close()
		p.used[port] = true
		return port, nil
	}
	return 0, fmt.Errorf("find a free port: none from %d to %d", firstPort, lastPort)
}

func (p *ports) free(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.used, port)
}
