package doctor

import (
	"cmp"
	"errors"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
)

func checkEtcd(s *snapshot) []Finding {
	const fix = "check CONFIG_whisk_etcd_hosts (host:port, no scheme), the members, and the firewall in between"
	c := s.Config.Scheduler.Etcd
	hosts := strings.Join(c.Hosts, ", ")
	login := " answers, without a login"
	if c.Username != "" {
		login = " answers and knows user " + c.Username
	}
	all := merged(ofEach(s.etcd.Members, func(m etcd.Member) []Finding {
		if m.Err != nil {
			return warn(fix, "%s does not answer: %v", m.Host, m.Err)
		}
		return ok("%s (etcd %s)", m.Host, m.Version)
	}), ", ", "", login)
	switch {
	case errors.Is(s.etcdErr, etcd.ErrLogin):
		bad := slices.DeleteFunc(all, func(x Finding) bool { return x.Status == OK })
		return append(bad, fail("check CONFIG_whisk_etcd_username and CONFIG_whisk_etcd_password against etcd's users and their roles",
			"%s: %v", hosts, s.etcdErr)...)
	case s.etcdErr != nil:
		return fail(fix, "%s: %v", hosts, s.etcdErr)
	}
	return all
}

func checkLease(s *snapshot) []Finding {
	ttl := s.Config.Scheduler.Etcd.LeaseTimeout
	if err := s.etcd.Lease; err != nil {
		return fail("give the user of CONFIG_whisk_etcd_username the right to write, look at etcd's alarms (etcdctl alarm list: no space?), and check CONFIG_whisk_etcd_lease_timeout",
			"etcd grants no lease of %d s: %v", ttl, err)
	}
	return ok("etcd grants a lease of %d s (whisk.etcd.lease.timeout)", ttl)
}

func checkSchedulers(s *snapshot) []Finding {
	if len(s.etcd.Schedulers) == 0 {
		return warn("start a scheduler first; check CONFIG_whisk_cluster_name if one runs",
			"no scheduler is registered in etcd under %s", activation.Cluster(s.Config.Scheduler.Cluster).Schedulers())
	}
	return ofEach(s.etcd.Schedulers, func(x activation.SchedulerState) []Finding {
		at := net.JoinHostPort(x.Endpoints.Endpoint.Host, strconv.Itoa(x.Endpoints.Endpoint.Port))
		if err := s.Reach(s.ctx, at); err != nil {
			return fail("open that port for invokers, or correct WHISK_SCHEDULER_ENDPOINTS_HOST and _RPCPORT of the scheduler; activations are fetched there",
				"scheduler %s advertises %s, which cannot be reached from here: %v", x.ID, at, err)
		}
		return ok("scheduler %s at %s can be reached", x.ID, at)
	})
}

// checkTags: schedulers recognise GPU hosts only by their tag.
func checkTags(s *snapshot) []Finding {
	const tag = "gpu"
	tags := s.Config.Identity.Tags
	found, _ := s.devices() // checkCards reports the error
	without := len(found)+s.Config.GPU.SimulatedDevices == 0
	tagged := slices.Contains(tags, tag)
	switch {
	case without && tagged:
		return fail("take "+tag+" out of CONFIG_whisk_invoker_resource_tags (Ansible: tags of the host), or fix the findings on the GPU above",
			"CONFIG_whisk_invoker_resource_tags has %s, but no GPU is found here: schedulers send GPU functions, and this host refuses them", tag)
	case without:
		return ok("none for GPU functions, which this host refuses; others: %s", cmp.Or(strings.Join(tags, ", "), "none"))
	case !tagged:
		tags = append(slices.Clone(tags), tag)
	}
	return ok(`%s: GPU functions come here by the annotation invoker-resources ["%s"] beside gpu; one without it may be sent to any invoker`,
		strings.Join(tags, ", "), tag)
}
