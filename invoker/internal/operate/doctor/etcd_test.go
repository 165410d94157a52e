package doctor

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// whole returns the survey of a faultless etcd.
func whole() etcd.Survey {
	return etcd.Survey{
		Members: []etcd.Member{{Host: "e0:2379", Version: "3.5.21"}},
		Schedulers: []activation.SchedulerState{{
			ID: "0", Endpoints: activation.SchedulerEndpoints{Endpoint: activation.Endpoint{Host: "s0", Port: 13001}},
		}},
	}
}

// scheduled changes a host to scheduler mode, with a changed survey of etcd.
func scheduled(change func(*fake, *etcd.Survey)) func(*fake) {
	return func(f *fake) {
		f.Config.Scheduler.Enabled = true
		f.Config.Scheduler.Etcd.Hosts = []string{"e0:2379"}
		s := whole()
		var err error
		if change != nil {
			change(f, &s)
		}
		if s.Members == nil {
			err = s.Lease
		}
		f.Etcd = func(context.Context) (etcd.Survey, error) { return s, err }
	}
}

func TestEtcdChecks(t *testing.T) {
	fails := func(err error) func(*fake) {
		return scheduled(func(_ *fake, s *etcd.Survey) { *s = etcd.Survey{Lease: err} })
	}
	runTrials(t, []trial{
		{"", scheduled(nil), "etcd/members", OK, "e0:2379 (etcd 3.5.21) answers, without a login", ""},
		{"user", scheduled(func(f *fake, _ *etcd.Survey) { f.Config.Scheduler.Etcd.Username = "whisk" }), "etcd/members", OK, "knows user whisk", ""},
		{"one away", scheduled(func(_ *fake, s *etcd.Survey) {
			s.Members = append(s.Members, etcd.Member{Host: "e1:2380", Err: errors.New("refused")})
		}), "etcd/members", Warn, "e1:2380 does not answer: refused", "CONFIG_whisk_etcd_hosts"},
		{"away", fails(errors.New("refused")), "etcd/members", Fail, "e0:2379: refused", "CONFIG_whisk_etcd_hosts"},
		{"login", fails(fmt.Errorf("%w: x", etcd.ErrLogin)), "etcd/members", Fail, "refuses the login", "CONFIG_whisk_etcd_password"},
		{"", scheduled(nil), "etcd/lease", OK, "lease of 10 s", ""},
		{"no right", scheduled(func(_ *fake, s *etcd.Survey) { s.Lease = errors.New("permission denied") }), "etcd/lease", Fail, "permission denied", "CONFIG_whisk_etcd_username"},
		{"", scheduled(nil), "etcd/schedulers", OK, "scheduler 0 at s0:13001", ""},
		{"none", scheduled(func(_ *fake, s *etcd.Survey) { s.Schedulers = nil }), "etcd/schedulers", Warn, "whisk/scheduler/", "CONFIG_whisk_cluster_name"},
		{"unreachable", scheduled(func(f *fake, _ *etcd.Survey) {
			f.Reach = func(context.Context, string) error { return errors.New("refused") }
		}), "etcd/schedulers", Fail, "s0:13001, which cannot be reached", "WHISK_SCHEDULER_ENDPOINTS_HOST"},
		{"", scheduled(nil), "etcd/tags", OK, `gpu: GPU functions come here by the annotation invoker-resources ["gpu"]`, ""},
		{"others", scheduled(func(f *fake, _ *etcd.Survey) { f.Config.Identity.Tags = []string{"v1"} }), "etcd/tags", OK, "v1, gpu: ", ""},
		{"no device", scheduled(func(f *fake, _ *etcd.Survey) {
			f.Config.GPU.Devices, f.Config.Identity.Tags = "none", []string{"gpu"}
		}), "etcd/tags", Fail, "no GPU is found", "CONFIG_whisk_invoker_resource_tags"},
		{"simulated ones in the place of none", scheduled(func(f *fake, _ *etcd.Survey) {
			f.Config.GPU.Devices, f.Config.GPU.SimulatedDevices, f.Config.Identity.Tags = "none", 2, []string{"gpu"}
		}), "etcd/tags", OK, "gpu: GPU functions come here", ""},
		{"a lost device", scheduled(func(f *fake, _ *etcd.Survey) {
			f.cards[0].Lost, f.Config.Identity.Tags = "fallen off the bus", []string{"gpu"}
		}), "etcd/tags", Fail, "no GPU is found", "CONFIG_whisk_invoker_resource_tags"},
		{"no GPU", scheduled(func(f *fake, _ *etcd.Survey) { f.cards = nil }), "etcd/tags", OK, "none for GPU functions", ""},
	})
	for _, r := range Examine(t.Context(), healthy().Machine, time.Minute) {
		if r.Group == "etcd" {
			t.Errorf("classic mode has the line %+v", r)
		}
	}
}

// TestRealEtcd surveys a real etcd with a registered scheduler that does not answer.
func TestRealEtcd(t *testing.T) {
	c := config.Default()
	c.Scheduler.Enabled, c.Scheduler.Cluster = true, fmt.Sprint("doctor", time.Now().UnixNano())
	c.Scheduler.Etcd.Hosts = []string{peertest.NeedEtcd(t)}
	f := bare()
	f.Machine = f.machine(c)
	f.Etcd = (&Machine{Config: c}).Here("", "", "").Etcd
	r := Examine(t.Context(), f.Machine, time.Minute)
	for _, want := range []struct{ check, found string }{{"members", "(etcd 3."}, {"lease", "grants a lease"}, {"schedulers", "no scheduler is registered in etcd under " + c.Scheduler.Cluster}} {
		check.Contains(t, r.only(t, "etcd", want.check).Found, want.found, "%s", want.check)
	}
	c.Scheduler.Etcd.Hosts = []string{"127.0.0.1:1"}
	x := Examine(t.Context(), f.Machine, 5*time.Second).only(t, "etcd", "members")
	check.Equal(t, x.Status, Fail, "no etcd: %s", x.Found)
}
