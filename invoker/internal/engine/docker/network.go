package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	api "github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/netns"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/roster"
)

const (
	// OwnNetwork is the network that the invoker makes for action containers.
	// Docker drops packets between its containers.
	OwnNetwork = "gpuwhisk"
	// sharedNetwork is Docker's default network, whose containers reach each other.
	sharedNetwork = "default"

	defaultBridge  = "bridge" // the shared network as Docker lists it
	bridgeDriver   = "bridge"
	optionICC      = "com.docker.network.bridge.enable_icc" // inter-container communication
	optionMTU      = "com.docker.network.driver.mtu"
	labelMade      = "org.gpuwhisk.made" // on a network that an invoker has made
	networkSetting = "CONFIG_whisk_containerFactory_containerArgs_network"
)

// bridgeFilter tells whether the kernel shows packets between ports of one bridge to
// iptables, which is where Docker drops them.
const bridgeFilter = "/proc/sys/net/bridge/bridge-nf-call-iptables"

// errNoNetwork is a container that could not start because its network is missing.
var errNoNetwork = errors.New("network is missing")

// Network is a Docker network, as far as it matters for who reaches whom.
type Network struct {
	Name, ID string
	// Open says why containers of the network may reach each other. It is empty if
	// Docker is told to keep them apart.
	Open     string
	Subnets  []netip.Prefix
	Gateways []netip.Addr

	mtu string
}

func networkOf(n network.Network) Network {
	d := Network{Name: n.Name, ID: n.ID, mtu: n.Options[optionMTU]}
	switch {
	case n.Driver != bridgeDriver:
		d.Open = "its driver is " + n.Driver + ", not bridge"
	case n.Options[optionICC] != "false":
		d.Open = "it lacks the option " + optionICC + "=false"
	case n.EnableIPv6:
		d.Open = "it has IPv6, which not every Docker Engine filters"
	}
	for _, c := range n.IPAM.Config {
		if c.Subnet.IsValid() {
			d.Subnets = append(d.Subnets, c.Subnet)
		}
		if c.Gateway.IsValid() {
			d.Gateways = append(d.Gateways, c.Gateway)
		}
	}
	return d
}

// NetworkOf returns the Docker network that the setting of OpenWhisk means. "bridge" is
// the default, which OpenWhisk's Ansible role always sets: nobody chose by it that action
// containers reach each other, so it means the network that keeps them apart.
func NetworkOf(setting string) string {
	if setting == "bridge" {
		return OwnNetwork
	}
	return setting
}

// Network returns the network of action containers that a setting means. The invoker's own
// network is made if it is missing.
func (d *Daemon) Network(ctx context.Context, setting string) (Network, error) {
	name := NetworkOf(setting)
	if name == OwnNetwork {
		return ensureNetwork(ctx, d.api)
	}
	n, found, err := inspectNetwork(ctx, d.api, name)
	if err == nil && !found {
		err = fmt.Errorf("network %s does not exist", name)
	}
	return n, err
}

// Has reports whether an address is one of the network's containers.
func (n Network) Has(addr netip.Addr) bool {
	addr = addr.Unmap()
	return !slices.Contains(n.Gateways, addr) && slices.ContainsFunc(n.Subnets, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// inspectNetwork returns a network by its name. The second value is false if there is
// none.
func inspectNetwork(ctx context.Context, daemon *client.Client, name string) (Network, bool, error) {
	if name == sharedNetwork {
		name = defaultBridge
	}
	result, err := daemon.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
	if cerrdefs.IsNotFound(err) {
		return Network{}, false, nil
	}
	if err != nil {
		return Network{}, false, fmt.Errorf("inspect network %s: %w", name, err)
	}
	return networkOf(result.Network.Network), true, nil
}

// ensureNetwork returns the invoker's own network. It makes the network if it is
// missing, and returns an error if the network does not keep containers apart.
func ensureNetwork(ctx context.Context, daemon *client.Client) (Network, error) {
	found, err := ownNetworks(ctx, daemon)
	if err == nil && len(found) == 0 {
		if err = makeNetwork(ctx, daemon); err == nil {
			found, err = ownNetworks(ctx, daemon)
		}
	}
	if err != nil {
		return Network{}, err
	}
	if len(found) == 0 {
		return Network{}, fmt.Errorf("network %s is gone again", OwnNetwork)
	}
	// Engines before 25 let two invokers that start at once make a network each. Both
	// take the older one; the other has no containers yet.
	for _, twin := range found[1:] {
		_, _ = daemon.NetworkRemove(ctx, twin.ID, client.NetworkRemoveOptions{})
	}
	own := networkOf(found[0].Network)
	if own.Open != "" {
		return Network{}, fmt.Errorf("network %s does not keep action containers apart: %s; "+
			"remove it (docker network rm %s) and it is made anew, or name another network in %s",
			OwnNetwork, own.Open, OwnNetwork, networkSetting)
	}
	return own, nil
}

// ownNetworks lists the networks with our name, the oldest first.
func ownNetworks(ctx context.Context, daemon *client.Client) ([]network.Summary, error) {
	result, err := daemon.NetworkList(ctx, client.NetworkListOptions{Filters: client.Filters{}.Add("name", OwnNetwork)})
	if err != nil {
		return nil, fmt.Errorf("list networks: %w", err)
	}
	found := slices.DeleteFunc(result.Items, func(n network.Summary) bool { return n.Name != OwnNetwork })
	slices.SortFunc(found, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return found, nil
}

// makeNetwork makes the invoker's own network. Its packets are as large as those of the
// default network, which has the daemon's setting; Docker does not give that to others.
func makeNetwork(ctx context.Context, daemon *client.Client) error {
	options := map[string]string{optionICC: "false"}
	if usual, found, err := inspectNetwork(ctx, daemon, defaultBridge); err == nil && found && usual.mtu != "" {
		options[optionMTU] = usual.mtu
	}
	ipv6 := false
	_, err := daemon.NetworkCreate(ctx, OwnNetwork, client.NetworkCreateOptions{
		Driver: bridgeDriver, EnableIPv6: &ipv6, Options: options, Labels: map[string]string{labelMade: "true"},
	})
	if err == nil || cerrdefs.IsConflict(err) { // another invoker has made it
		return nil
	}
	return fmt.Errorf("make network %s, which keeps action containers apart: %w; make it by hand "+
		"(docker network create --opt %s=false --subnet FREE_SUBNET %s), or name another network in %s",
		OwnNetwork, err, optionICC, OwnNetwork, networkSetting)
}

// removeNetwork removes the invoker's own network if an invoker has made it. A network with
// containers stays.
func removeNetwork(ctx context.Context, daemon *client.Client) error {
	found, err := ownNetworks(ctx, daemon)
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range found {
		if n.Labels[labelMade] == "" {
			continue
		}
		if _, err := daemon.NetworkRemove(ctx, n.ID, client.NetworkRemoveOptions{}); err != nil && !cerrdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove network %s: %w", n.Name, err))
		}
	}
	return errors.Join(errs...)
}

// openNetwork makes the network of the options ready and finds the way to its
// containers.
func (e *Engine) openNetwork(ctx context.Context) error {
	ctx, cancel := roster.Limited(ctx, e.options.Timeouts.List)
	defer cancel()
	if e.options.Network != OwnNetwork {
		return e.judgeNetwork(ctx)
	}
	own, err := ensureNetwork(ctx, e.api)
	if err != nil {
		return e.Away(ctx, err)
	}
	host, err := netns.HostOf(own.Gateways, netns.Host)
	if err != nil {
		e.useNetwork(sharedNetwork)
		e.log.Warn("action containers can reach each other: this invoker cannot reach containers of a network that keeps them apart; "+
			"run it with Docker's --network host, or with --privileged --pid host", "network", defaultBridge, "error", err)
		return nil
	}
	e.dial = netns.Dialer(host)
	e.own.Store(&own)
	e.log.Info("action containers are kept apart", "network", own.Name, "subnets", own.Subnets)
	if why := unfiltered(host); why != "" {
		e.log.Warn("action containers may be able to reach each other (gpuwhisk doctor --probe IMAGE tries it)", "network", OwnNetwork, "cause", why)
	}
	return nil
}

// judgeNetwork warns of a configured network whose containers reach each other.
func (e *Engine) judgeNetwork(ctx context.Context) error {
	n, found, err := inspectNetwork(ctx, e.api, e.options.Network)
	switch {
	case err != nil:
		return e.Away(ctx, err)
	case !found:
		e.log.Warn("the network of action containers does not exist", "network", e.options.Network, "setting", networkSetting)
	case n.Open != "":
		e.log.Warn("action containers can reach each other (setting "+networkSetting+")", "network", n.Name, "cause", n.Open)
	}
	return nil
}

func (e *Engine) useNetwork(name string) {
	e.options.Network = name
	e.host.host.NetworkMode = api.NetworkMode(name)
}

// remakeNetwork makes the own network again after somebody has removed it.
func (e *Engine) remakeNetwork(ctx context.Context) error {
	own, err := ensureNetwork(ctx, e.api)
	if err != nil {
		return err
	}
	e.own.Store(&own)
	e.log.Warn("the network of action containers had been removed and was made again", "network", own.Name)
	return nil
}

// networkGone reports whether a container could not start because the invoker's own
// network does not exist.
func (e *Engine) networkGone(err error) bool {
	if err == nil || e.own.Load() == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "network "+OwnNetwork+" not found") || strings.Contains(text, "No such network: "+OwnNetwork)
}

// FromContainer reports whether an address is that of an action container. It knows
// those of the invoker's own network.
func (e *Engine) FromContainer(addr netip.Addr) bool {
	own := e.own.Load()
	return own != nil && own.Has(addr)
}

// Dial connects to a container's proxy.
func (e *Engine) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return e.dial(ctx, network, address)
}

// unfiltered returns why the kernel lets packets between containers of one bridge pass
// Docker's rules, or "" if it does not. host is the network namespace of the host.
func unfiltered(host string) string {
	return filterFault(netns.Inside(host, func() ([]byte, error) { return os.ReadFile(bridgeFilter) }))
}

func filterFault(setting []byte, err error) string {
	switch {
	case err != nil:
		return "the kernel module br_netfilter is not loaded (modprobe br_netfilter)"
	case strings.TrimSpace(string(setting)) == "0":
		return "net.bridge.bridge-nf-call-iptables is 0 (sysctl -w net.bridge.bridge-nf-call-iptables=1)"
	}
	return ""
}
