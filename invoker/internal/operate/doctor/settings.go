package doctor

import (
	"errors"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// modeFix names the settings of the mode. The stock settings of recent versions select
// the scheduler mode (OpenWhisk: reference.conf, whisk.spi).
const modeFix = "for scheduler mode give the invoker CONFIG_whisk_etcd_hosts and CONFIG_whisk_spi_InvokerProvider=org.apache.openwhisk.core.invoker.FPCInvokerReactive, as OpenWhisk's role does; " +
	"for classic mode set scheduler_enable=false with Ansible, or on the controllers " +
	"CONFIG_whisk_spi_LoadBalancerProvider=org.apache.openwhisk.core.loadBalancer.ShardingContainerPoolBalancer and " +
	"CONFIG_whisk_spi_EntitlementSpiProvider=org.apache.openwhisk.core.entitlement.LocalEntitlementProvider"

// SettingsFile is the file with the settings of invokers that run as services; see the
// package's unit.
const SettingsFile = "/etc/gpuwhisk/invoker.env"

func checkConfiguration(s *snapshot) []Finding {
	switch {
	case !s.configured():
		return skip("run this with the environment and the arguments of the invoker, or put the invoker's settings into "+SettingsFile,
			"not configured: none of the settings of an OpenWhisk deployment is given")
	case s.ConfigErr == nil && s.Source != "":
		return ok("complete, from %s", s.Source)
	case s.ConfigErr == nil:
		return ok("complete")
	}
	var problems config.Problems
	if !errors.As(s.ConfigErr, &problems) { // the sources are unreadable
		problems = config.Problems{s.ConfigErr}
	}
	return ofEach(problems, func(problem error) []Finding {
		return fail("docs/configuration.md describes every key", "%v", problem)
	})
}

// checkMode examines the settings that select the source of work: controllers or
// schedulers. The settings of controllers are visible here only if they share the
// environment.
func checkMode(s *snapshot) []Finding {
	scheduled := s.Config.Scheduler.Enabled
	mode := map[bool]string{false: "classic mode", true: "scheduler mode"}
	var all []Finding
	for _, k := range []struct{ key, classic, scheduler string }{
		{"CONFIG_whisk_spi_LoadBalancerProvider", "ShardingContainerPoolBalancer", "FPCPoolBalancer"},
		{"CONFIG_whisk_spi_EntitlementSpiProvider", "LocalEntitlementProvider", "FPCEntitlementProvider"},
	} {
		class, want, other := s.variable(k.key), k.classic, k.scheduler
		if scheduled {
			want, other = other, want
		}
		switch class = class[strings.LastIndexByte(class, '.')+1:]; class {
		case "", want:
		case other:
			all = append(all, fail(modeFix, "%s is %s, which means %s, but the invoker's settings mean %s", k.key, class, mode[!scheduled], mode[scheduled])...)
		default:
			all = append(all, warn(modeFix, "%s is %s, not %s", k.key, class, want)...)
		}
	}
	if len(all) == 0 && s.configured() {
		return ok("%s; the controllers' settings are not visible here", mode[scheduled])
	}
	return all
}

// variable returns the last value of a variable in the environment.
func (s *snapshot) variable(name string) (value string) {
	for _, kv := range s.Environ {
		if v, found := strings.CutPrefix(kv, name+"="); found {
			value = strings.TrimSpace(v)
		}
	}
	return value
}

// instance returns the identity of this invoker. The number is 0 if ZooKeeper assigns
// it.
func (m *Machine) instance() activation.Instance {
	id := m.Config.Identity
	i := activation.Instance{UniqueName: id.UniqueName}
	if id.ID != nil {
		i.ID = *id.ID
	}
	return i
}

// checkLogin examines the login of the admin port, which is open to every host that can
// reach it.
func checkLogin(s *snapshot) []Finding {
	if s.Config.Admin.LocalOnly() {
		return ok("none is set: everything except /ping and /metrics is served only to this machine")
	}
	if s.Config.Admin.WellKnown() {
		return warn("set a private login: docs/operating.md, Security and isolation",
			"the admin port has the login of OpenWhisk's sources, which is public: anyone who can reach the port can disable the invoker")
	}
	return ok("not the login of OpenWhisk's sources")
}

func checkIgnored(s *snapshot) []Finding {
	var names []string
	for _, setting := range s.Config.Ignored() {
		names = append(names, setting.Name)
	}
	if len(names) == 0 {
		return nil
	}
	return ok("%d setting(s) of OpenWhisk have no effect here: %s", len(names), strings.Join(names, ", "))
}
