package process

import (
	"net"
	"strconv"
	"testing"
)

// What one engine has handed out no other does, although nothing listens there
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
		t.Error("a port of another listener is claimed")
	}
	_ = l.Close()
	again, err := claim(port)
	if err != nil {
		t.Fatalf("a port that was given back: %v", err)
	}
	_ = again.Close()
}

// Ports lie outside what Linux hands to clients, also where that is set wider
// than usual.
func TestPortsLieBesideThoseOfClients(t *testing.T) {
	for _, c := range []struct{ low, high, first, last int }{
		{0, 0, 20000, 32767},         // not known
		{32768, 60999, 20000, 32767}, // as Linux has it
		{15000, 60000, 60001, 65535}, // no space below
		{10000, 30000, 30001, 65535},
		{1024, 65535, 20000, 32767}, // nowhere
		{1024, 65000, 20000, 32767},
		{40000, 65535, 20000, 39999},
	} {
		if first, last := beside(c.low, c.high); first != c.first || last != c.last {
			t.Errorf("beside %d to %d: %d to %d, want %d to %d", c.low, c.high, first, last, c.first, c.last)
		}
	}
}
