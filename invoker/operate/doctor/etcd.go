package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
)

// scheduled is the condition of checks of OpenWhisk's scheduler mode.
func (f *Snapshot) scheduled() bool {
	return f.Config.Scheduler.Enabled && len(f.Config.Scheduler.Etcd.Hosts) > 0
}

// etcdAnswers is the condition of checks of what etcd has.
func (f *Snapshot) etcdAnswers() bool { return f.scheduled() && f.etcd.err == nil }

func (m *Machine) askEtcd(ctx context.Context) (etcd.Survey, error) {
	c := m.Config.Scheduler
	return etcd.Inspect(ctx, etcd.Config{
		Hosts: c.Etcd.Hosts, Username: c.Etcd.Username, Password: c.Etcd.Password,
		TTL: time.Duration(c.Etcd.LeaseTimeout) * time.Second, Cluster: activation.Cluster(c.Cluster), Log: silent(),
	})
}

// askSchedulers asks etcd, and then whether the schedulers that it names can be reached.
func (f *Snapshot) askSchedulers(ctx context.Context, limit time.Duration) {
	f.etcd = ask(ctx, limit, f.Etcd)
	var at []string
	for _, s := range f.etcd.value.Schedulers {
		at = append(at, address(s))
	}
	f.schedulers = askEach(ctx, limit, at, func(ctx context.Context, at string) (struct{}, error) {
		return struct{}{}, f.Reach(ctx, at)
	})
}

func address(s activation.SchedulerState) string {
	return net.JoinHostPort(s.Endpoints.Endpoint.Host, strconv.Itoa(s.Endpoints.Endpoint.Port))
}

func checkEtcd(f *Snapshot) []Finding {
	const members = "check CONFIG_whisk_etcd_hosts (host:port, no scheme), the members, and the firewall between"
	c := f.Config.Scheduler.Etcd
	var all []Finding
	var good []string
	for _, m := range f.etcd.value.Members {
		if m.Err != nil {
			all = append(all, warn(fmt.Sprintf("%s does not answer: %v", m.Host, m.Err), members)...)
		} else {
			good = append(good, m.Host+" (etcd "+m.Version+")")
		}
	}
	switch err := f.etcd.err; {
	case errors.Is(err, etcd.ErrLogin):
		return append(all, fail(strings.Join(c.Hosts, ", ")+": "+err.Error(),
			"check CONFIG_whisk_etcd_username and CONFIG_whisk_etcd_password against etcd's users and their roles")...)
	case err != nil:
		return fail(strings.Join(c.Hosts, ", ")+": "+err.Error(), members)
	}
	text := strings.Join(good, ", ") + " answers, without a login"
	if c.Username != "" {
		text = strings.Join(good, ", ") + " answers and knows user " + c.Username
	}
	return append(all, ok(text)...)
}

func checkLease(f *Snapshot) []Finding {
	ttl := f.Config.Scheduler.Etcd.LeaseTimeout
	if err := f.etcd.value.Lease; err != nil {
		return fail(fmt.Sprintf("etcd grants no lease of %d s: %v", ttl, err),
			"give the user of CONFIG_whisk_etcd_username the right to write, look at etcd's alarms (etcdctl alarm list: no space?), and check CONFIG_whisk_etcd_lease_timeout")
	}
	return ok(fmt.Sprintf("etcd grants a lease of %d s (whisk.etcd.lease.timeout)", ttl))
}

func checkSchedulers(f *Snapshot) []Finding {
	prefix := activation.Cluster(f.Config.Scheduler.Cluster).Schedulers()
	var all []Finding
	for _, s := range f.etcd.value.Schedulers {
		at := address(s)
		if err := f.schedulers[at].err; err != nil {
			all = append(all, fail(fmt.Sprintf("scheduler %s advertises %s, which cannot be reached from here: %v", s.ID, at, err),
				"open that port for invokers, or correct WHISK_SCHEDULER_ENDPOINTS_HOST and _RPCPORT of the scheduler; activations are fetched there")...)
			continue
		}
		all = append(all, ok(fmt.Sprintf("scheduler %s at %s can be reached", s.ID, at))...)
	}
	if len(all) == 0 {
		return warn("etcd has no scheduler under "+prefix, "start a scheduler first; check CONFIG_whisk_cluster_name if one runs")
	}
	return all
}

// checkTags: schedulers know GPU hosts by their tag alone.
func checkTags(f *Snapshot) []Finding {
	const tag = "gpu"
	tags := f.Config.Identity.Tags
	devices := max(f.Config.GPU.SimulatedDevices, len(f.gpu.value.Cards))
	if strings.TrimSpace(f.Config.GPU.Devices) == noShim {
		devices = 0
	}
	if devices == 0 {
		if slices.Contains(tags, tag) {
			return fail("CONFIG_whisk_invoker_resource_tags has "+tag+", but no GPU is found here: schedulers send GPU functions, and each is refused",
				"take "+tag+" out of CONFIG_whisk_invoker_resource_tags (Ansible: tags of the host), or correct the GPU's findings above")
		}
		return ok("none for GPU functions, which this host refuses; others: " + list(tags))
	}
	if !slices.Contains(tags, tag) {
		tags = append(slices.Clone(tags), tag)
	}
	return ok(list(tags) + `: GPU functions come here by the annotation invoker-resources ["` + tag + `"] beside gpu; one without it may be sent to any invoker`)
}

func list(tags []string) string {
	if len(tags) == 0 {
		return "none"
	}
	return strings.Join(tags, ", ")
}
