package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/netns"
)

// metadataAddress is where clouds serve a machine's credentials.
const metadataAddress = "169.254.169.254:80"

// Isolation lists the addresses that the containers of a network reach.
type Isolation struct {
	Network Network
	Found   bool
	// Away is why this process does not reach the containers; nil if it does.
	Away error
	// Unfiltered is why the kernel does not apply Docker's rules, or empty.
	Unfiltered string

	// From and To are two running containers between which a connection was tried. They
	// are empty if there were no two. TryErr is why it could not be tried.
	From, To string
	TryErr   error
	Reached  bool // To was reached from From
	Metadata bool // the cloud's metadata service was reached from From
}

// Tried reports whether a connection was really tried.
func (i Isolation) Tried() bool { return i.From != "" && i.TryErr == nil }

// Isolation examines the network of the options and tries to connect from one of its
// containers to another. That takes rights on the Docker daemon's host.
func (d *Daemon) Isolation(ctx context.Context, name string) (Isolation, error) {
	var i Isolation
	var err error
	if i.Network, i.Found, err = inspectNetwork(ctx, d.api, name); err != nil || !i.Found {
		return i, err
	}
	host, err := netns.HostOf(i.Network.Gateways, netns.Host)
	if i.Away = err; err != nil {
		return i, nil
	}
	i.Unfiltered = unfiltered(host)
	pid, err := d.try(ctx, netns.Dialer(host), &i)
	if err == nil && i.Tried() {
		i.Metadata, i.TryErr = netns.Reaches(ctx, pid, metadataAddress)
	}
	return i, err
}

// try connects from one container of the network to another. It returns the process from
// whose network namespace it did.
func (d *Daemon) try(ctx context.Context, dial netns.DialFunc, i *Isolation) (pid int, err error) {
	all, err := d.members(ctx, i.Network.ID)
	if err != nil {
		return 0, err
	}
	from, to, found := pair(ctx, dial, all)
	if !found {
		return 0, nil
	}
	i.From, i.To = from.name, to.name
	result, err := d.api.ContainerInspect(ctx, from.id, client.ContainerInspectOptions{})
	switch {
	case err != nil:
		i.TryErr = err
	case result.Container.State == nil || result.Container.State.Pid == 0:
		i.TryErr = fmt.Errorf("container %s has ended", from.name)
	default:
		pid = result.Container.State.Pid
		i.Reached, i.TryErr = netns.Reaches(ctx, pid, to.address)
	}
	return pid, nil
}

// tryTime bounds the attempt of an engine.
const tryTime = 30 * time.Second

// tryIsolation tries in the background, once in the engine's life, whether containers of
// the own network really do not reach each other: Docker accepts the network's option
// also if it sets no firewall rules. While fewer than two containers accept connections
// the attempt is left to the next container.
func (e *Engine) tryIsolation() {
	own := e.own.Load()
	if own == nil || e.Len() < 2 || !e.tried.CompareAndSwap(false, true) {
		return
	}
	e.Spawn(func() {
		ctx, cancel := context.WithTimeout(e.Context(), tryTime)
		defer cancel()
		i := Isolation{Network: *own}
		_, err := (&Daemon{e.api}).try(ctx, e.dial, &i)
		switch {
		case errors.Is(i.TryErr, netns.ErrNamespace):
			e.log.Debug("cannot try whether action containers reach each other", "error", i.TryErr)
		case err != nil || !i.Tried():
			e.tried.Store(false)
		case i.Reached:
			e.log.Error("action containers reach each other, so one tenant's action can run another's: Docker sets no firewall rules, or others override them "+
				"(gpuwhisk doctor names the way out)", "network", own.Name, "from", i.From, "to", i.To)
		}
	})
}

// member is a container of a network.
type member struct{ id, name, address string }

// members lists the running containers of a network by name.
func (d *Daemon) members(ctx context.Context, id string) ([]member, error) {
	result, err := d.api.NetworkInspect(ctx, id, client.NetworkInspectOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the containers of network %s: %w", id, err)
	}
	var all []member
	for id, end := range result.Network.Containers {
		if ip := addressOf(end); ip != "" {
			all = append(all, member{id, end.Name, net.JoinHostPort(ip, proxyPort)})
		}
	}
	slices.SortFunc(all, func(a, b member) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

func addressOf(end network.EndpointResource) string {
	if !end.IPv4Address.IsValid() {
		return ""
	}
	return end.IPv4Address.Addr().String()
}

// pair picks a container whose proxy accepts connections, and another one to connect
// from.
func pair(ctx context.Context, dial netns.DialFunc, all []member) (from, to member, found bool) {
	for i, to := range all {
		if len(all) < 2 {
			break
		}
		ctx, cancel := context.WithTimeout(ctx, netns.ReachTime)
		conn, err := dial(ctx, "tcp", to.address)
		cancel()
		if err == nil {
			_ = conn.Close()
			return all[(i+1)%len(all)], to, true
		}
	}
	return member{}, member{}, false
}
