package process

import (
	"net"
	"strconv"
	"testing"
)

// What one engine has handed out no other does, although nobody listens there
// yet.
func TestPortsAreClaimed(t *testing.T) {
	p := newPorts()
	port, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := claim(port); err == nil {
		t.Error("a port is claimed twice")
	}
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	if err != nil {
		t.Fatalf("the proxy cannot listen at its port: %v", err)
	}
	p.free(port)
	if _, err := claim(port); err == nil {
		t.Error("a port where somebody listens is claimed")
	}
	_ = l.Close()
	again, err := claim(port)
	if err != nil {
		t.Fatalf("a port that was given back: %v", err)
	}
	_ = again.Close()
}
