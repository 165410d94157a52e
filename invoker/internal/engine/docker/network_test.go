package docker

import (
	"errors"
	"net/http"
	"net/netip"
	"testing"

	"github.com/moby/moby/api/types/network"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

func (d *daemon) own() []network.Inspect {
	d.mu.Lock()
	defer d.mu.Unlock()
	var own []network.Inspect
	for _, n := range d.networks {
		if n.Name == OwnNetwork {
			own = append(own, n)
		}
	}
	return own
}

func (d *daemon) mode(i int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return string(d.bodies[i].HostConfig.NetworkMode)
}

// The first invoker of a host makes the network, with the packet size of Docker's own,
// and the next one uses it.
func TestNetworkIsMadeOnce(t *testing.T) {
	d := startDaemon(t)
	for range 2 {
		e := d.engine(t, nil)
		check.That(t, e.FromContainer(netip.MustParseAddr("127.0.0.2")), "a container's address")
		check.That(t, e.FromContainer(netip.MustParseAddr("::ffff:127.0.0.2")), "a container's address, mapped")
		check.That(t, !e.FromContainer(netip.MustParseAddr("127.0.0.1")), "the gateway's")
		check.That(t, !e.FromContainer(netip.MustParseAddr("10.0.0.1")), "a stranger's")
	}
	made := d.own()
	check.Equal(check.Must(t), len(made), 1)
	check.DeepEqual(t, made[0].Options, map[string]string{optionICC: "false", optionMTU: "1450"})
	check.Equal(t, made[0].Driver, "bridge")
	check.That(t, !made[0].EnableIPv6, "IPv6 is on")
}

// Clean removes the network with the containers of all invokers, but none that an operator
// made.
func TestCleanRemovesTheNetwork(t *testing.T) {
	d := startDaemon(t)
	d.engine(t, nil)
	daemon, err := Connect(Options{Host: "tcp://" + d.addr})
	check.NoError(t, err)
	defer daemon.Close()
	clean := func(prefix string, left int) {
		t.Helper()
		_, err := daemon.Clean(t.Context(), prefix)
		check.NoError(t, err)
		check.Equal(t, len(d.own()), left)
	}
	clean("wsk00_", 1)
	clean("", 0)
	d.mu.Lock()
	d.networks = append(d.networks, d.networkLike(network.CreateRequest{Name: OwnNetwork, Driver: bridgeDriver}))
	d.mu.Unlock()
	clean("", 1)
}

func TestContainersAreInTheOwnNetwork(t *testing.T) {
	d := startDaemon(t)
	e := d.engine(t, nil)
	created(t, e, 1)
	check.Equal(t, d.mode(0), OwnNetwork)
}

// Two invokers that start at once with an older Docker make two networks: one stays.
func TestNetworkMadeTwice(t *testing.T) {
	d := startDaemon(t)
	d.onNetwork = func(http.ResponseWriter) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.networks = append(d.networks, d.networkLike(network.CreateRequest{
			Name: OwnNetwork, Driver: bridgeDriver, Options: map[string]string{optionICC: "false", "by": "another"}}))
		return false
	}
	d.engine(t, nil)
	left := d.own()
	check.Equal(check.Must(t), len(left), 1)
	check.Equal(t, left[0].Options["by"], "another")
}

// A network of our name that does not keep containers apart is not used.
func TestNetworkThatIsOpen(t *testing.T) {
	closed := map[string]string{optionICC: "false"}
	for want, n := range map[string]network.CreateRequest{
		optionICC + "=false": {Driver: bridgeDriver, Options: map[string]string{optionICC: "true"}},
		"driver is macvlan":  {Driver: "macvlan", Options: closed},
		"IPv6":               {Driver: bridgeDriver, Options: closed, EnableIPv6: new(true)},
	} {
		t.Run(want, func(t *testing.T) {
			d := startDaemon(t)
			n.Name = OwnNetwork
			d.networks = append(d.networks, d.networkLike(n))
			options := DefaultOptions()
			options.Host = "tcp://" + d.addr
			_, err := New(t.Context(), options)
			check.That(check.Must(t), err != nil, "it is used")
			for _, part := range []string{want, "docker network rm gpuwhisk", networkSetting} {
				check.Contains(t, err.Error(), part)
			}
		})
	}
}

// No free range of addresses is left.
func TestNetworkThatCannotBeMade(t *testing.T) {
	d := startDaemon(t)
	d.onNetwork = func(w http.ResponseWriter) bool {
		refuse(w, http.StatusInternalServerError, "all predefined address pools have been fully subnetted")
		return true
	}
	options := DefaultOptions()
	options.Host = "tcp://" + d.addr
	_, err := New(t.Context(), options)
	check.That(check.Must(t), err != nil, "no error")
	for _, part := range []string{"fully subnetted", "docker network create --opt " + optionICC + "=false", networkSetting} {
		check.Contains(t, err.Error(), part)
	}
}

// A network that was removed while no container ran is made again for the next one,
// whether the daemon notices at the create or, as older ones do, at the start.
func TestNetworkRemovedWhileRunning(t *testing.T) {
	for name, gone := range map[string]func(*daemon){
		"create": func(d *daemon) {
			d.onCreate = func(w http.ResponseWriter, _ string) bool { return d.lacksNetwork(w) }
		},
		"start": func(d *daemon) {
			d.onStart = func(w http.ResponseWriter, _ string) bool { return d.lacksNetwork(w) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			e := d.engine(t, nil)
			d.mu.Lock()
			d.networks = []network.Inspect{defaultNetwork()}
			d.mu.Unlock()
			gone(d)
			created(t, e, 1)
			check.Equal(t, len(d.own()), 1)
			check.Equal(t, d.names(), fakeSpec(1).Name)
		})
	}
}

func (d *daemon) lacksNetwork(w http.ResponseWriter) bool {
	if len(d.own()) > 0 {
		return false
	}
	refuse(w, http.StatusNotFound, "network gpuwhisk not found")
	return true
}

// An invoker that is not where the gateway is, as in a container without rights, would
// not reach its containers: they stay in the network that Docker has for all.
func TestNetworkOutOfReach(t *testing.T) {
	d := startDaemon(t)
	d.gateway = "192.0.2.1"
	e := d.engine(t, nil)
	created(t, e, 1)
	check.Equal(t, d.mode(0), sharedNetwork)
	check.That(t, !e.FromContainer(netip.MustParseAddr("127.0.0.2")), "containers of all kinds are in that network")
}

// A network that is configured is used as it is.
func TestNetworkAsConfigured(t *testing.T) {
	for _, name := range []string{sharedNetwork, "lan"} {
		d := startDaemon(t)
		e := d.engine(t, func(o *Options) { o.Network = name })
		created(t, e, 1)
		check.Equal(t, d.mode(0), name)
		check.Equal(t, len(d.own()), 0)
	}
}

func TestFilterFault(t *testing.T) {
	for text, want := range map[string]string{"1\n": "", "0\n": "bridge-nf-call-iptables=1", "": "modprobe br_netfilter"} {
		var err error
		if text == "" {
			err = errors.New("no such file")
		}
		got := filterFault([]byte(text), err)
		check.Contains(t, got, want)
		check.Equal(t, got == "", want == "")
	}
}
