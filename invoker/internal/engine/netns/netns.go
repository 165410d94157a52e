// Package netns connects to containers from within the network namespaces of a host:
// the namespace from which a container is reached, or the container's own.
package netns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/containernetworking/plugins/pkg/ns"
)

// Host is the network of process 1. For an invoker in a container that
// shares the host's processes (--pid host) it is the host's network.
const Host = "/proc/1/ns/net"

// keepAlive is off: an idle connection to a container is closed before a probe.
const keepAlive = -time.Second

var ErrNamespace = errors.New("cannot enter the network namespace")

// DialFunc opens a connection as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func Direct(ctx context.Context, network, address string) (net.Conn, error) {
	return (&net.Dialer{KeepAlive: keepAlive}).DialContext(ctx, network, address)
}

// HostOf finds the network namespace from which the containers of a network are reached.
// Docker lets nothing but the host reach them, and the host is where the network's gateway
// is: in the namespace of this process, which is "", or in the given one.
func HostOf(gateways []netip.Addr, host string) (namespace string, err error) {
	for _, namespace := range []string{"", host} {
		there, err := Inside(namespace, func() (bool, error) { return hasAddress(gateways) })
		if err != nil || there {
			return namespace, err
		}
	}
	return "", fmt.Errorf("the gateway %v is no address of this machine", gateways)
}

// Dialer opens connections from within a network namespace.
func Dialer(namespace string) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialInside(ctx, namespace, network, address)
	}
}

// hasAddress reports whether an interface has one of the addresses.
func hasAddress(wanted []netip.Addr) (bool, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return false, fmt.Errorf("list addresses of this machine: %w", err)
	}
	return slices.ContainsFunc(addrs, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && slices.Contains(wanted, p.Addr())
	}), nil
}

// dialInside connects from within a network namespace. The connection stays in it.
func dialInside(ctx context.Context, namespace, network, address string) (net.Conn, error) {
	return Inside(namespace, func() (net.Conn, error) { return Direct(ctx, network, address) })
}

// Inside calls f on a thread that has entered a network namespace, or on this one if the
// namespace is "". f must start no goroutine that needs the namespace.
func Inside[T any](namespace string, f func() (T, error)) (value T, err error) {
	if namespace == "" {
		return f()
	}
	entering := ns.WithNetNSPath(namespace, func(ns.NetNS) error {
		value, err = f()
		return nil
	})
	if entering != nil {
		return value, fmt.Errorf("%w %s: %w", ErrNamespace, namespace, entering)
	}
	return value, err
}

// ReachTime is how long a connection between two containers is waited for. Where
// their packets are dropped nothing is answered.
const ReachTime = time.Second

// Reaches reports whether a process of a container can connect to an address. It returns
// an error if this process may not enter the container's network.
func Reaches(ctx context.Context, pid int, address string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, ReachTime)
	defer cancel()
	conn, err := dialInside(ctx, fmt.Sprintf("/proc/%d/ns/net", pid), "tcp", address)
	switch {
	case err == nil:
		return true, conn.Close()
	case errors.Is(err, ErrNamespace):
		return false, err
	}
	return false, nil
}
