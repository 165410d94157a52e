package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"golang.org/x/sys/unix"
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

func checkConfiguration(f *Snapshot) []Finding {
	if !f.configured() {
		return skip("not configured: none of the settings of an OpenWhisk deployment is given",
			"run this with the environment and the arguments of the invoker, or put its settings into "+SettingsFile)
	}
	if f.ConfigErr == nil {
		if f.Source != "" {
			return ok("complete, from " + f.Source)
		}
		return ok("complete")
	}
	var all []Finding
	for line := range strings.Lines(f.ConfigErr.Error()) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "load configuration:") && strings.HasSuffix(line, "problems") {
			continue
		}
		all = append(all, fail(strings.TrimPrefix(line, "load configuration: "), "docs/configuration.md describes every key")...)
	}
	return all
}

// checkLogin examines the login of the admin port, which is open to all hosts that
// reach it.
func checkLogin(f *Snapshot) []Finding {
	if f.Config.Admin.WellKnown() {
		return warn("the admin port takes the login of OpenWhisk's sources, which everybody knows: with it anyone who reaches the port can disable the invoker",
			"give it a login of its own: docs/operating.md, Security and isolation")
	}
	return ok("not the one of OpenWhisk's sources")
}

// checkMode examines the settings that together make the mode in which work comes to
// the invoker: from controllers, or from schedulers. Those of the controllers can be
// seen here only if their environment is shared.
func checkMode(f *Snapshot) []Finding {
	scheduled := f.Config.Scheduler.Enabled
	mode := map[bool]string{false: "classic mode", true: "scheduler mode"}
	var all []Finding
	for _, s := range []struct{ key, classic, scheduler string }{
		{"CONFIG_whisk_spi_LoadBalancerProvider", "ShardingContainerPoolBalancer", "FPCPoolBalancer"},
		{"CONFIG_whisk_spi_EntitlementSpiProvider", "LocalEntitlementProvider", "FPCEntitlementProvider"},
	} {
		class, want, other := f.variable(s.key), s.classic, s.scheduler
		if scheduled {
			want, other = other, want
		}
		switch simple := class[strings.LastIndexByte(class, '.')+1:]; simple {
		case "", want:
		case other:
			all = append(all, fail(s.key+" is "+simple+", of the "+mode[!scheduled]+", but the invoker's settings are those of the "+mode[scheduled], modeFix)...)
		default:
			all = append(all, warn(fmt.Sprintf("%s is %s, not %s", s.key, simple, want), modeFix)...)
		}
	}
	if len(all) == 0 && f.configured() {
		return ok(mode[scheduled] + "; the controllers' own settings cannot be seen from here")
	}
	return all
}

func (f *Snapshot) variable(name string) string {
	value := ""
	for _, kv := range f.Environ {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = strings.TrimSpace(v)
		}
	}
	return value
}

func checkIgnored(f *Snapshot) []Finding {
	var names []string
	for _, s := range f.Config.Ignored() {
		names = append(names, s.Name)
	}
	if len(names) == 0 || !f.configured() {
		return nil
	}
	return ok(fmt.Sprintf("%d setting(s) of the original have no use here: %s", len(names), strings.Join(names, ", ")))
}

// stateDir is a directory that outlives the invoker.
type stateDir struct {
	what, key, dir string
	may            int64 // bytes that may come to lie there
}

// minFree is what an invoker needs at its start and to end in order.
const minFree = 64 * int64(config.MiB)

// checkState examines where the invoker keeps its journal with the state of its
// containers, records that wait, and dead letters.
func checkState(f *Snapshot) []Finding {
	name := "invoker0"
	if id := f.Config.Identity.ID; id != nil {
		name = fmt.Sprintf("invoker%d", *id)
	}
	s := f.Config.State
	var all []Finding
	for _, k := range []stateDir{
		{"journal", "whisk.gpu.journal", s.JournalDir(name), int64(s.JournalSize)},
		{"waiting records", "whisk.gpu.records.spool", s.SpoolDir(name), int64(s.SpoolSize)},
		{"dead letters", "whisk.gpu.records.dead-letters", s.DeadLetterDir(name), 0},
	} {
		if k.dir != "" {
			all = append(all, f.judgeStateDir(k)...)
		}
	}
	if len(all) == 0 {
		return ok("nothing outlives the invoker (whisk.gpu.state=none)")
	}
	return all
}

func (f *Snapshot) judgeStateDir(k stateDir) []Finding {
	way := fmt.Sprintf("give the invoker's user a directory that may be written (whisk.gpu.state, or %s; none does without)", k.key)
	at, err := f.Writable(context.Background(), k.dir)
	if err != nil {
		return fail(fmt.Sprintf("%s: %s cannot be written: %v", k.what, at, err), way)
	}
	space, err := f.diskAt(at)
	if err != nil {
		return warn(fmt.Sprintf("%s: %s: %v", k.what, at, err), "check the disk of "+at)
	}
	text := fmt.Sprintf("%s: %s can be written, %s of %s free", k.what, k.dir, amount(space.Free), amount(space.Total))
	const width = "make room, or name a directory on a larger disk (whisk.gpu.state)"
	need := max(0, k.may-f.bytesIn(k.dir))
	switch {
	case space.Free < minFree:
		return fail(text+"; on a full disk nothing is pulled", width)
	case space.Free < need:
		return warn(fmt.Sprintf("%s; up to %s more may come to lie there, and when the disk is full nothing is pulled", text, amount(need)), width+", or allow less ("+k.key+"-size)")
	}
	return ok(text)
}

// bytesIn is what lies in a directory already.
func (f *Snapshot) bytesIn(dir string) (sum int64) {
	if f.Files == nil {
		return 0
	}
	_ = fs.WalkDir(f.Files, strings.TrimPrefix(dir, "/"), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // not there yet, or gone meanwhile
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}

// writable reports whether this user may make a directory, or write in it where it
// is there. It makes nothing.
func writable(_ context.Context, dir string) (at string, err error) {
	for at = filepath.Clean(dir); ; at = filepath.Dir(at) {
		var s unix.Stat_t
		switch err := unix.Stat(at, &s); {
		case errors.Is(err, unix.ENOENT) && at != "/" && at != ".":
			continue
		case err != nil:
			return at, err
		case s.Mode&unix.S_IFMT != unix.S_IFDIR:
			return at, unix.ENOTDIR
		}
		return at, unix.Access(at, unix.W_OK|unix.X_OK)
	}
}
