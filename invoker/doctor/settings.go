package doctor

import (
	"fmt"
	"strings"
)

// classicMend says where the mode of an OpenWhisk is set. Stock settings of
// recent versions are the scheduler's (OpenWhisk: reference.conf, whisk.spi).
const classicMend = "set scheduler_enable=false with Ansible, or on the controllers " +
	"CONFIG_whisk_spi_LoadBalancerProvider=org.apache.openwhisk.core.loadBalancer.ShardingContainerPoolBalancer and " +
	"CONFIG_whisk_spi_EntitlementSpiProvider=org.apache.openwhisk.core.entitlement.LocalEntitlementProvider"

func settingChecks() []check {
	return []check{
		{name: "configuration", find: checkConfiguration},
		{name: "classic mode", find: checkClassicMode},
		{name: "ignored", find: checkIgnored},
	}
}

// SettingsFile is where a host keeps its invokers' settings when they run as
// services; see the package's unit.
const SettingsFile = "/etc/gpuwhisk/invoker.env"

func checkConfiguration(f *Facts) []Finding {
	if !f.configured() {
		return one(skip("not configured: none of the settings of an OpenWhisk deployment is given",
			"run this with the environment and the arguments of the invoker, or put its settings into "+SettingsFile))
	}
	if f.ConfigErr == nil {
		if f.Source != "" {
			return one(ok("complete, from " + f.Source))
		}
		return one(ok("complete"))
	}
	var all []Finding
	for line := range strings.Lines(f.ConfigErr.Error()) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "load configuration:") && strings.HasSuffix(line, "problems") {
			continue
		}
		all = append(all, fail(strings.TrimPrefix(line, "load configuration: "), "docs/configuration.md describes every key"))
	}
	return all
}

// checkClassicMode looks at the four settings that together make the mode in
// which controllers hand work to invokers themselves. Those of the controllers
// can be seen here only if their environment is shared.
func checkClassicMode(f *Facts) []Finding {
	var all []Finding
	for _, s := range []struct{ key, classic, scheduler string }{
		{"CONFIG_whisk_spi_LoadBalancerProvider", "ShardingContainerPoolBalancer", "FPCPoolBalancer"},
		{"CONFIG_whisk_spi_EntitlementSpiProvider", "LocalEntitlementProvider", "FPCEntitlementProvider"},
		{"CONFIG_whisk_spi_InvokerProvider", "InvokerReactive", "FPCInvokerReactive"},
		{"CONFIG_whisk_spi_InvokerServerProvider", "DefaultInvokerServer", "FPCInvokerServer"},
	} {
		class := f.variable(s.key)
		switch simple := class[strings.LastIndexByte(class, '.')+1:]; simple {
		case "", s.classic:
		case s.scheduler:
			all = append(all, fail(s.key+" asks for the scheduler mode ("+simple+"), which this invoker does not serve", classicMend))
		default:
			all = append(all, warn(fmt.Sprintf("%s is %s, not %s", s.key, simple, s.classic), classicMend))
		}
	}
	if len(all) == 0 && f.configured() {
		return one(ok("nothing here asks for the scheduler mode; the controllers' own settings cannot be seen from here"))
	}
	return all
}

func (f *Facts) variable(name string) string {
	value := ""
	for _, kv := range f.Environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = strings.TrimSpace(v)
		}
	}
	return value
}

func checkIgnored(f *Facts) []Finding {
	var names []string
	for _, s := range f.Config.Ignored() {
		names = append(names, s.Name)
	}
	if len(names) == 0 || !f.configured() {
		return nil
	}
	return one(ok(fmt.Sprintf("%d setting(s) of the original have no use here: %s", len(names), strings.Join(names, ", "))))
}
