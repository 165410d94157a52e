package doctor

import (
	"errors"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// modeFix is where the mode of an OpenWhisk is set. Stock settings of recent
// versions are the scheduler's (OpenWhisk: reference.conf, whisk.spi).
const modeFix = "for scheduler mode give the invoker CONFIG_whisk_etcd_hosts and CONFIG_whisk_spi_InvokerProvider=org.apache.openwhisk.core.invoker.FPCInvokerReactive, as OpenWhisk's role does; " +
	"for classic mode set scheduler_enable=false with Ansible, or on the controllers " +
	"CONFIG_whisk_spi_LoadBalancerProvider=org.apache.openwhisk.core.loadBalancer.ShardingContainerPoolBalancer and " +
	"CONFIG_whisk_spi_EntitlementSpiProvider=org.apache.openwhisk.core.entitlement.LocalEntitlementProvider"

// SettingsFile is where a host keeps its invokers' settings when they run as
// services; see the package's unit.
const SettingsFile = "/etc/gpuwhisk/invoker.env"

func checkConfiguration(s *snapshot) []Finding {
	switch {
	case !s.configured():
		return skip("run this with the environment and the arguments of the invoker, or put its settings into "+SettingsFile,
			"not configured: none of the settings of an OpenWhisk deployment is given")
	case s.ConfigErr == nil && s.Source != "":
		return ok("complete, from %s", s.Source)
	case s.ConfigErr == nil:
		return ok("complete")
	}
	var problems config.Problems
	if !errors.As(s.ConfigErr, &problems) { // the sources cannot be read
		problems = config.Problems{s.ConfigErr}
	}
	return ofEach(problems, func(problem error) []Finding {
		return fail("docs/configuration.md describes every key", "%v", problem)
	})
}

// checkMode examines the settings that together make the mode in which work comes to
// the invoker: from controllers, or from schedulers. Those of the controllers can be
// seen here only if their environment is shared.
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
			all = append(all, fail(modeFix, "%s is %s, of the %s, but the invoker's settings are those of the %s", k.key, class, mode[!scheduled], mode[scheduled])...)
		default:
			all = append(all, warn(modeFix, "%s is %s, not %s", k.key, class, want)...)
		}
	}
	if len(all) == 0 && s.configured() {
		return ok("%s; the controllers' own settings cannot be seen from here", mode[scheduled])
	}
	return all
}

// variable is the last value of a variable of the environment.
func (s *snapshot) variable(name string) (value string) {
	for _, kv := range s.Environ {
		if v, found := strings.CutPrefix(kv, name+"="); found {
			value = strings.TrimSpace(v)
		}
	}
	return value
}

// instance is this invoker. Its number is 0 where ZooKeeper has it.
func (m *Machine) instance() activation.Instance {
	id := m.Config.Identity
	i := activation.Instance{UniqueName: id.UniqueName}
	if id.ID != nil {
		i.ID = *id.ID
	}
	return i
}

// checkLogin examines the login of the admin port, which is open to all hosts that
// reach it.
func checkLogin(s *snapshot) []Finding {
	if s.Config.Admin.LocalOnly() {
		return ok("none is set: all but /ping and /metrics is served to this machine alone")
	}
	if s.Config.Admin.WellKnown() {
		return warn("give it a login of its own: docs/operating.md, Security and isolation",
			"the admin port takes the login of OpenWhisk's sources, which everybody knows: with it anyone who reaches the port can disable the invoker")
	}
	return ok("not the one of OpenWhisk's sources")
}

func checkIgnored(s *snapshot) []Finding {
	var names []string
	for _, setting := range s.Config.Ignored() {
		names = append(names, setting.Name)
	}
	if len(names) == 0 {
		return nil
	}
	return ok("%d setting(s) of the original have no use here: %s", len(names), strings.Join(names, ", "))
}
