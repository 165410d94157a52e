package process

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
)

// ports hands out free ports of the loopback interface. Between the choice
// and the moment when the proxy listens, a port is free for the kernel. So none
// is of the range from which Linux takes a port where any will do
// (ip_local_port_range), where a client connection could take it in that
// moment, and one that is handed out is claimed until it is given back: no
// engine of this machine hands it out again. Two proxies at one port would not
// only cost one of them its life; its action would reach the other's proxy.
type ports struct {
	first, last int
	mu          sync.Mutex
	used        map[int]net.Listener
}

func newPorts() *ports {
	var low, high int
	text, _ := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range") // elsewhere the usual is right
	_, _ = fmt.Sscan(string(text), &low, &high)
	first, last := beside(low, high)
	return &ports{first: first, last: last, used: map[int]net.Listener{}}
}

// beside gives the ports to hand out where Linux serves any port from low to
// high: those below, or above where these are more. Where both are few, the
// usual.
func beside(low, high int) (first, last int) {
	const (
		lowest, highest       = 20000, 65535
		usualFirst, usualLast = 20000, 32767
		few                   = 1000
	)
	below, above := low-lowest, highest-high
	switch {
	case low == 0 || max(below, above) < few:
		return usualFirst, usualLast
	case below >= above:
		return lowest, low - 1
	}
	return high + 1, highest
}

func (p *ports) take() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// A random start keeps several engines of one machine apart.
	span := p.last - p.first + 1
	for i, start := 0, rand.IntN(span); i < span; i++ {
		port := p.first + (start+i)%span
		claimed, err := claim(port)
		if err != nil {
			continue
		}
		p.used[port] = claimed
		return port, nil
	}
	return 0, fmt.Errorf("find a free port: none from %d to %d", p.first, p.last)
}

// claim takes a port on which nothing listens. What is held is a name without a
// file, which the kernel gives to one process at a time and takes back with the
// end of that (unix(7), abstract sockets); it belongs to the same network
// namespace as the port.
func claim(port int) (net.Listener, error) {
	claimed, err := net.Listen("unix", "@gpuwhisk/port/"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		return nil, errors.Join(err, claimed.Close())
	}
	_ = listener.Close()
	return claimed, nil
}

func (p *ports) free(port int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if claimed := p.used[port]; claimed != nil {
		_ = claimed.Close()
	}
	delete(p.used, port)
}
