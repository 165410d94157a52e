package process

import (
	"net"
	"strconv"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// What one engine has handed out no other does, although nothing listens there
// yet.
func TestPortsAreClaimed(t *testing.T) {
	p := newPorts()
	port, err := p.take()
	check.NoError(t, err)
	_, err = claim(port)
	check.That(t, err != nil, "a port is claimed twice")
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
	check.NoError(t, err, "the proxy cannot listen at its port")
	p.free(port)
	_, err = claim(port)
	check.That(t, err != nil, "a port of another listener is claimed")
	_ = l.Close()
	again, err := claim(port)
	check.NoError(t, err, "a port that was given back")
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
		first, last := beside(c.low, c.high)
		check.Equal(t, first, c.first, "beside %d to %d", c.low, c.high)
		check.Equal(t, last, c.last, "beside %d to %d", c.low, c.high)
	}
}
