package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// metadataAddress is where clouds serve a machine's credentials.
const metadataAddress = "169.254.169.254:80"

// Isolation is what the containers of a network reach.
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
	i.Unfiltered = unfiltered(os.ReadFile)
	dial, err := dialerTo(i.Network.Gateways, hostNamespace)
	if i.Away = err; err != nil {
		return i, nil
	}
	all, err := d.members(ctx, i.Network.ID)
	if err != nil {
		return i, err
	}
	from, to, found := pair(ctx, dial, all)
	if !found {
		return i, nil
	}
	i.From, i.To = from.name, to.name
	result, err := d.api.ContainerInspect(ctx, from.id, client.ContainerInspectOptions{})
	if err == nil && (result.Container.State == nil || result.Container.State.Pid == 0) {
		err = fmt.Errorf("container %s has ended", from.name)
	}
	if err == nil {
		i.Reached, err = reaches(ctx, result.Container.State.Pid, to.address)
	}
	if i.TryErr = err; err == nil {
		i.Metadata, i.TryErr = reaches(ctx, result.Container.State.Pid, metadataAddress)
	}
	return i, nil
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
func pair(ctx context.Context, dial dialFunc, all []member) (from, to member, found bool) {
	for i, to := range all {
		if len(all) < 2 {
			break
		}
		ctx, cancel := context.WithTimeout(ctx, reachTime)
		conn, err := dial(ctx, "tcp", to.address)
		cancel()
		if err == nil {
			_ = conn.Close()
			return all[(i+1)%len(all)], to, true
		}
	}
	return member{}, member{}, false
}
