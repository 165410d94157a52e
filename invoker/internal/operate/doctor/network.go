package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

const networkSetting = "CONFIG_whisk_containerFactory_containerArgs_network"

// checkNetwork checks whether action containers can reach each other: by the network's
// options, and by a connection between two containers, if there are two.
func checkNetwork(s *snapshot) []Finding {
	i, err := s.Network(s.ctx)
	name := clients.Docker(s.Config, "", nil).Network
	own := name == docker.OwnNetwork
	const secret = "an action of one tenant can send /run and /init to a container of another"
	switch {
	case err != nil:
		return fail("docker network inspect "+name, "%v", err)
	case !i.Found && own:
		return ok("%s, which the invoker creates when it starts", name)
	case !i.Found:
		return fail("docker network create "+name+", or unset "+networkSetting, "network %s does not exist", name)
	case own && i.Away != nil:
		return warn("run the invoker with Docker's --network host, or with --privileged --pid host",
			"this process cannot reach containers of network %s, so the invoker uses Docker's shared network, and %s: %v", name, secret, i.Away)
	case i.Reached && own:
		return fail(apartFix(i, own), "%s was reached from %s in network %s: %s", i.To, i.From, name, secret)
	case i.Network.Open != "" && !own:
		return warn(apartFix(i, own), "containers of network %s reach each other (%s): %s", name, i.Network.Open, secret)
	case i.Network.Open != "":
		return fail(apartFix(i, own), "the invoker will not start: containers of network %s reach each other (%s)", name, i.Network.Open)
	case i.Reached: // the operator chose this network
		return warn(apartFix(i, own), "%s was reached from %s in network %s: %s", i.To, i.From, name, secret)
	case !i.Tried() && i.Unfiltered != "":
		return warn("run gpuwhisk doctor --probe IMAGE as root to try it", "containers of network %s may reach each other: %s", name, i.Unfiltered)
	case !i.Tried():
		return ok("%s isolates containers by its options (run --probe IMAGE as root to try it)", name)
	}
	found := ok("%s isolates containers: %s was not reached from %s", name, i.To, i.From)
	if i.Metadata {
		found = append(found, warn("iptables -I DOCKER-USER -d 169.254.169.254 -j DROP",
			"actions reach the cloud's metadata service, which may give them this machine's credentials")...)
	}
	return found
}

// apartFix returns the advice for isolating containers.
func apartFix(i docker.Isolation, own bool) string {
	switch {
	case !own:
		return "unset " + networkSetting + ", or give its network the option com.docker.network.bridge.enable_icc=false"
	case i.Network.Open != "":
		return "docker network rm " + docker.OwnNetwork + " and restart the invoker"
	case i.Unfiltered != "":
		return i.Unfiltered
	}
	return "let dockerd set its firewall rules (\"iptables\" in /etc/docker/daemon.json must not be false)"
}

// network examines the network of action containers. If fewer than two containers run,
// it starts two of the first image to probe.
func (m *Machine) network(ctx context.Context) (i docker.Isolation, err error) {
	o := clients.Docker(m.Config, probePrefix, silent())
	d, err := docker.Connect(o)
	if err != nil {
		return i, err
	}
	defer d.Close()
	i, err = d.Isolation(ctx, o.Network)
	if err != nil || i.Tried() || i.TryErr != nil || i.Network.Open != "" || len(m.ProbeImages) == 0 {
		return i, err
	}
	e, err := docker.New(ctx, o)
	if err != nil {
		return i, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	name := probeName()
	defer func() { err = errors.Join(err, removeProbes(ctx, e, name)) }()
	for _, suffix := range []string{"_1", "_2"} {
		h, err := e.Create(ctx, m.probeSpec(name+suffix, m.ProbeImages[0]))
		if err == nil {
			_, err = initProxy(ctx, proxy.NewDialing(h.Addr, 1, e.Dial))
		}
		if err != nil {
			return i, nil // the check of probes reports the error
		}
	}
	return d.Isolation(ctx, o.Network)
}

func (m *Machine) probeSpec(name, image string) container.Spec {
	return container.Spec{
		Name: name, Image: image, MemoryMB: int(m.Config.Limits.MemoryStd / config.MiB), CPUShares: 256, Env: m.Config.ContainerEnv(),
	}
}

// removeProbes removes containers by name, so that it also finds a container that ended
// before it had an address.
func removeProbes(ctx context.Context, e probeEngine, name string) error {
	const removeTime = 10 * time.Second
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTime)
	defer cancel()
	return e.CleanUp(bye, name)
}
