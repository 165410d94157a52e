package docker

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/enginetest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/netns"
)

func (r *real) pid(h container.Handle) int {
	r.t.Helper()
	result, err := r.api.ContainerInspect(r.t.Context(), string(h.ID), client.ContainerInspectOptions{})
	check.NoError(r.t, err)
	return result.Container.State.Pid
}

// TestRealApart: an action reaches the host, but no other container; the invoker reaches
// both. With Docker's shared network the same attempt succeeds.
func TestRealApart(t *testing.T) {
	for network, want := range map[string]bool{OwnNetwork: false, sharedNetwork: true} {
		t.Run(network, func(t *testing.T) {
			r := startReal(t, func(o *Options) { o.Network = network })
			if why := unfiltered(""); why != "" {
				t.Skip("this machine's kernel lets containers reach each other: " + why)
			}
			host, err := net.Listen("tcp", ":0")
			check.NoError(t, err)
			defer host.Close()
			a, b := r.create(), r.create()
			enginetest.AwaitListening(t, b.Addr)
			n, found, err := inspectNetwork(t.Context(), r.api, network)
			check.NoError(t, err)
			check.That(check.Must(t), found)
			_, port, _ := net.SplitHostPort(host.Addr().String())
			check.Equal(t, enginetest.MustCall(t, a.Addr, map[string]any{"connect": net.JoinHostPort(n.Gateways[0].String(), port)}).Connected, "done", "to the host")
			got := enginetest.MustCall(t, a.Addr, map[string]any{"connect": b.Addr}).Connected
			check.Equal(t, got == "done", want, "from one container to another: %s", got)
			if network == OwnNetwork {
				addresses := enginetest.MustCall(t, a.Addr, map[string]any{"read": "/proc/net/if_inet6"}).Output
				check.That(t, !strings.Contains(addresses, "eth0"), "IPv6, which no rule filters: %s", addresses)
			}
			// The doctor, which connects from the network namespace of a, gets the same result.
			reached, err := netns.Reaches(t.Context(), r.pid(a), b.Addr)
			check.NoError(t, err)
			check.Equal(t, reached, want)
		})
	}
}

// TestRealFromElsewhere reaches a container as an invoker does that runs in a container
// itself: through the host's network namespace.
func TestRealFromElsewhere(t *testing.T) {
	r := startReal(t, nil)
	h := r.create()
	enginetest.MustCall(t, h.Addr, nil)
	elsewhere := namespaceOf(r)
	if _, err := netns.Inside(elsewhere, func() (bool, error) { return false, nil }); err != nil {
		t.Skip("only root enters a namespace: ", err)
	}
	if _, err := netns.Inside(elsewhere, func() (net.Conn, error) { return netns.Direct(t.Context(), "tcp", h.Addr) }); err == nil {
		t.Error("the container is reached without a network")
	}
	host, err := os.Open("/proc/thread-self/ns/net")
	check.NoError(t, err)
	defer host.Close()
	found, err := netns.Inside(elsewhere, func() (string, error) {
		return netns.HostOf(r.own.Load().Gateways, fmt.Sprintf("/proc/self/fd/%d", host.Fd()))
	})
	check.NoError(t, err)
	conn, err := netns.Inside(elsewhere, func() (net.Conn, error) { return netns.Dialer(found)(t.Context(), "tcp", h.Addr) })
	check.NoError(t, err)
	conn.Close()
}

// namespaceOf is the network of a container that has none but its loopback interface.
func namespaceOf(r *real) string {
	r.t.Helper()
	spec := r.spec()
	config, err := r.host.request(spec, nil)
	check.NoError(r.t, err)
	config.HostConfig.NetworkMode = "none"
	made, err := r.api.ContainerCreate(r.t.Context(), config)
	check.NoError(r.t, err)
	_, err = r.api.ContainerStart(r.t.Context(), made.ID, client.ContainerStartOptions{})
	check.NoError(r.t, err)
	return fmt.Sprintf("/proc/%d/ns/net", r.pid(container.Handle{ID: container.ID(made.ID)}))
}

// TestRealOpenNetworkIsLogged: a network that is said to keep containers apart, and does
// not, is found out by the second container.
func TestRealOpenNetworkIsLogged(t *testing.T) {
	var log lines
	r := startReal(t, func(o *Options) {
		o.Network, o.Logger = sharedNetwork, slog.New(slog.NewTextHandler(&log, nil))
	})
	n, _, err := inspectNetwork(t.Context(), r.api, sharedNetwork)
	check.NoError(t, err)
	h := r.create()
	enginetest.AwaitListening(t, h.Addr)
	if _, err := netns.Reaches(t.Context(), r.pid(h), h.Addr); err != nil {
		t.Skip("only root enters a namespace: ", err)
	}
	r.own.Store(&n) // as if it were the invoker's own
	r.create()
	until(t, "the log has the error", func() bool { return strings.Contains(log.String(), "action containers reach each other") })
}

// lines is a log that is read while it is written.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
