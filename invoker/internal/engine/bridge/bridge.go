// Package bridge connects action containers to a bridge of the host, in network namespaces
// of their own, by the CNI plugins. The ports of the bridge are isolated from each other.
// Namespaces are prepared ahead, so that a start does not wait for them.
//
// The caller runs Fill in as many goroutines as it wants, and calls Close when these have
// ended.
package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	nsfiles "github.com/containerd/containerd/v2/pkg/netns"
	gocni "github.com/containerd/go-cni"
	"github.com/vishvananda/netlink"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

const (
	// prepared is how many network namespaces are ready ahead of the next creates. One
	// takes some 50 ms to make, which is as long as all the rest of a start.
	prepared = 4

	releaseTime = 30 * time.Second
)

// Options describe a bridge. The invokers of a host share it.
type Options struct {
	Name       string   // of the interface, at most 15 bytes
	Subnets    []string // the first that is unused here becomes the bridge's
	PluginDirs []string // of the CNI plugins
	Dir        string   // of the network namespaces and the addresses in use
	Invoker    string   // the directory of this invoker's namespaces below Dir
}

// Network is the bridge of action containers, and the network namespaces that are ready
// for the next containers.
type Network struct {
	plugins gocni.CNI
	bridge  string
	dir     string // of this invoker's namespaces
	subnet  netip.Prefix
	log     *slog.Logger

	ready  chan Place
	failed chan error // to a create that waits
}

// Place is a network namespace with an address on the bridge.
type Place struct {
	Path    string // of the namespace
	Address string
}

// id is how the plugins know the place.
func (p Place) id() string { return filepath.Base(p.Path) }

// Gateway returns the bridge's own address: the first of the subnet.
func (n *Network) Gateway() netip.Addr { return n.subnet.Masked().Addr().Next() }

// Open finds the subnet of the bridge and sets the host's packet filter. The bridge
// is made with the first namespace.
func Open(o Options, log *slog.Logger) (*Network, error) {
	n, err := newNetwork(o, log)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(n.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the directory of network namespaces (whisk.gpu.containerd.run-dir): %w", err)
	}
	n.filter()
	return n, nil
}

// newNetwork returns a network of which nothing is made yet.
func newNetwork(o Options, log *slog.Logger) (n *Network, err error) {
	n = &Network{
		bridge: o.Name, log: log, ready: make(chan Place, prepared), failed: make(chan error),
		dir: filepath.Join(o.Dir, "netns", o.Invoker),
	}
	if n.subnet, err = freeSubnet(o.Name, o.Subnets); err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"cniVersion": "0.4.0", "name": o.Name,
		"plugins": []any{map[string]any{
			"type": "bridge", "bridge": o.Name, "isGateway": true,
			"ipam": map[string]any{
				"type": "host-local", "dataDir": filepath.Join(o.Dir, "addresses"),
				"ranges": []any{[]any{map[string]any{"subnet": n.subnet.String()}}},
				"routes": []any{map[string]any{"dst": "0.0.0.0/0"}},
			},
		}},
	})
	if err != nil {
		return nil, err
	}
	n.plugins, err = gocni.New(gocni.WithPluginDir(o.PluginDirs), gocni.WithInterfacePrefix("eth"),
		gocni.WithLoNetwork, gocni.WithConfListBytes(config))
	if err != nil {
		return nil, fmt.Errorf("read the network configuration: %w", err)
	}
	return n, nil
}

// Subnet returns the addresses of the bridge.
func (n *Network) Subnet() netip.Prefix { return n.subnet }

// freeSubnet returns the subnet of the bridge, or the first one that no interface and no
// route of this host uses.
func freeSubnet(bridge string, wanted []string) (netip.Prefix, error) {
	if link, err := netlink.LinkByName(bridge); err == nil {
		addrs, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err == nil && len(addrs) > 0 {
			p, err := netip.ParsePrefix(addrs[0].IPNet.String())
			return p.Masked(), err
		}
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("list routes: %w", err)
	}
	var used []netip.Prefix
	for _, r := range routes {
		if r.Dst != nil {
			if p, err := netip.ParsePrefix(r.Dst.String()); err == nil && p.Bits() > 0 {
				used = append(used, p)
			}
		}
	}
	for _, text := range wanted {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return p, fmt.Errorf("subnet of action containers: %w", err)
		}
		if !slices.ContainsFunc(used, p.Overlaps) {
			return p.Masked(), nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("none of the subnets %s is unused on this host; name another one (whisk.gpu.containerd.subnet)", strings.Join(wanted, ", "))
}

// rules let containers out to the world, whatever the host forwards otherwise, and never
// to each other through the host. The ports of the bridge are isolated beside the rules.
func (n *Network) rules() [][]string {
	subnet := n.subnet.String()
	return [][]string{
		{"nat", "POSTROUTING", "-s", subnet, "!", "-o", n.bridge, "-j", "MASQUERADE"},
		{"filter", "FORWARD", "-i", n.bridge, "!", "-o", n.bridge, "-j", "ACCEPT"},
		{"filter", "FORWARD", "-o", n.bridge, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"},
		{"filter", "FORWARD", "-i", n.bridge, "-o", n.bridge, "-j", "DROP"},
	}
}

// filter sets the rules that are not set yet.
func (n *Network) filter() {
	for _, rule := range n.rules() {
		if iptables(rule[0], "-C", rule[1:]) == nil {
			continue
		}
		if err := iptables(rule[0], "-I", rule[1:]); err != nil {
			n.log.Warn("cannot set a rule of iptables: action containers may have no way out of this host", "rule", strings.Join(rule, " "), "error", err)
		}
	}
}

func iptables(table, verb string, rule []string) error {
	out, err := exec.Command("iptables", append([]string{"-w", "-t", table, verb}, rule...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("iptables: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Fill prepares namespaces until ctx ends.
func (n *Network) Fill(ctx context.Context) {
	backoff := retry.Backoff{Min: 50 * time.Millisecond, Max: 5 * time.Second}
	for ctx.Err() == nil {
		p, err := n.prepare(ctx)
		if err != nil {
			if ctx.Err() == nil {
				n.log.Warn("prepare the network of a container", "error", err)
			}
			select {
			case n.failed <- err:
			case <-time.After(backoff.Next()):
			case <-ctx.Done():
			}
			continue
		}
		backoff.Reset()
		select {
		case n.ready <- p:
		case <-ctx.Done():
			if err := n.Release(p); err != nil {
				n.log.Warn("release the network of a container", "error", err)
			}
		}
	}
}

// Take returns a namespace that is ready.
func (n *Network) Take(ctx context.Context) (Place, error) {
	select {
	case p := <-n.ready:
		return p, nil
	case err := <-n.failed:
		return Place{}, err
	case <-ctx.Done():
		return Place{}, context.Cause(ctx)
	}
}

// prepare makes a namespace and connects it to the bridge by a port that reaches the host
// and no other port.
func (n *Network) prepare(ctx context.Context) (Place, error) {
	ns, err := nsfiles.NewNetNS(n.dir)
	if err != nil {
		return Place{}, fmt.Errorf("make a network namespace: %w", err)
	}
	p := Place{Path: ns.GetPath()}
	result, err := n.plugins.Setup(context.WithoutCancel(ctx), p.id(), p.Path)
	if err != nil {
		err = fmt.Errorf("connect a network namespace to %s by the CNI plugins: %w", n.bridge, err)
		return Place{}, errors.Join(err, n.Release(p))
	}
	for _, raw := range result.Raw() {
		for _, given := range raw.IPs {
			if !given.Address.IP.IsLoopback() {
				p.Address = given.Address.IP.String()
			}
		}
	}
	if p.Address == "" {
		return Place{}, errors.Join(fmt.Errorf("the CNI plugins gave no address to a port of %s", n.bridge), n.Release(p))
	}
	if err := n.isolate(result); err != nil {
		return Place{}, errors.Join(err, n.Release(p))
	}
	return p, nil
}

// isolate keeps the new port of the bridge from the other ports.
func (n *Network) isolate(result *gocni.Result) error {
	for _, raw := range result.Raw() {
		for _, i := range raw.Interfaces {
			if i.Sandbox != "" || i.Name == n.bridge {
				continue // in the namespace, or the bridge itself
			}
			link, err := netlink.LinkByName(i.Name)
			if err == nil {
				err = netlink.LinkSetIsolated(link, true)
			}
			if err != nil {
				return fmt.Errorf("isolate port %s of %s: %w", i.Name, n.bridge, err)
			}
		}
	}
	return nil
}

// Release gives the address of a namespace back and removes the namespace.
func (n *Network) Release(p Place) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	if err := n.plugins.Remove(ctx, p.id(), p.Path); err != nil {
		return fmt.Errorf("disconnect network namespace %s: %w", p.Path, err)
	}
	return nsfiles.LoadNetNS(p.Path).Remove()
}

// ReleaseExcept releases the namespaces of this invoker that no container uses.
func (n *Network) ReleaseExcept(used map[string]bool) error {
	entries, err := os.ReadDir(n.dir)
	if err != nil {
		return fmt.Errorf("list network namespaces: %w", err)
	}
	var errs []error
	for _, entry := range entries {
		if path := filepath.Join(n.dir, entry.Name()); !used[path] {
			errs = append(errs, n.Release(Place{Path: path}))
		}
	}
	return errors.Join(errs...)
}

// Clean releases the namespaces of an invoker that does not run.
func Clean(o Options) error {
	n, err := newNetwork(o, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	return n.clean()
}

// clean releases all namespaces, and removes their directory.
func (n *Network) clean() error {
	err := n.ReleaseExcept(nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, os.Remove(n.dir))
}

// Remove removes the bridge, its rules, and the namespaces of all invokers, whose containers
// must be gone.
func Remove(o Options) error {
	n, err := newNetwork(o, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	var errs []error
	dirs, _ := filepath.Glob(filepath.Join(filepath.Dir(n.dir), "*")) // the only error is a malformed pattern
	for _, n.dir = range dirs {
		errs = append(errs, n.clean())
	}
	for _, rule := range n.rules() {
		_ = iptables(rule[0], "-D", rule[1:]) // it may not be set
	}
	if link, err := netlink.LinkByName(n.bridge); err == nil {
		errs = append(errs, netlink.LinkDel(link))
	}
	return errors.Join(errs...)
}

// Close releases the namespaces that are ready. Nothing fills or takes them any more.
func (n *Network) Close() error {
	var errs []error
	for {
		select {
		case p := <-n.ready:
			errs = append(errs, n.Release(p))
		default:
			return errors.Join(errs...)
		}
	}
}
