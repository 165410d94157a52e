package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/contrib/apparmor"
	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	api "github.com/moby/moby/api/types/container"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/cdi"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/runargs"
)

// unsupported are the options of `docker run` that this engine cannot honour.
var unsupported = []string{"cgroupns", "ipc", "log-driver", "log-opt", "runtime", "storage-opt", "userns", "volume"}

const (
	noNewPrivileges   = "no-new-privileges"
	seccompUnconfined = "seccomp=unconfined"
)

// arguments returns the settings that all containers of this invoker have in common.
func (o Options) arguments() (runargs.Args, error) {
	for _, name := range unsupported {
		if _, given := o.ExtraArgs[name]; given {
			return runargs.Args{}, fmt.Errorf("extra docker argument %q is not supported with containerd", name)
		}
	}
	args := runargs.Args{Host: api.HostConfig{
		DNSSearch: o.DNSSearch, DNSOptions: o.DNSOptions, CapDrop: o.CapDrop, CapAdd: o.CapAdd,
		SecurityOpt: []string{noNewPrivileges}, ShmSize: 64 << 20,
		Resources: api.Resources{PidsLimit: &o.PidsLimit},
	}}
	if err := args.Apply(o.ExtraArgs); err != nil {
		return runargs.Args{}, err
	}
	for _, option := range args.Host.SecurityOpt {
		if !strings.HasPrefix(option, "apparmor=") && !slices.Contains([]string{noNewPrivileges, noNewPrivileges + "=true", noNewPrivileges + ":true", seccompUnconfined}, option) {
			return runargs.Args{}, fmt.Errorf("extra docker argument %q: %q is not supported with containerd", "security-opt", option)
		}
	}
	return args, nil
}

// cgroups is how the host limits containers.
type cgroups struct {
	unified bool // version 2
	swap    bool // version 1 can limit memory and swap together
}

func hostCgroups(files fs.FS) (cgroups, error) {
	if _, err := fs.Stat(files, "sys/fs/cgroup/cgroup.controllers"); err == nil {
		return cgroups{unified: true, swap: true}, nil
	}
	_, err := fs.Stat(files, "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cgroups{}, fmt.Errorf("look at the host's cgroups: %w", err)
	}
	return cgroups{swap: err == nil}, nil
}

// memory limits memory, and memory plus swap, to so many bytes: no container swaps.
func (c cgroups) memory(bytes int64) *specs.LinuxMemory {
	m := &specs.LinuxMemory{Limit: &bytes}
	if c.swap {
		m.Swap = &bytes
	}
	return m
}

// ociSpec returns the options that make the runtime's specification of a container.
func (e *Engine) ociSpec(b build) []oci.SpecOpts {
	h := e.args.Host
	opts := []oci.SpecOpts{
		oci.WithDefaultSpec(), oci.WithDefaultUnixDevices, oci.WithImageConfig(b.image),
		oci.WithHostname(b.id[:12]), oci.WithoutMounts("/run"), oci.WithDevShmSize(h.ShmSize >> 10),
		oci.WithLinuxNamespace(specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: b.place.Path}),
		oci.WithDroppedCapabilities(capabilities(h.CapDrop)), oci.WithAddedCapabilities(capabilities(h.CapAdd)),
		oci.WithMounts(e.fileMounts(b.dir)), e.limits(b.spec), e.overrides(), e.environment(b.spec), e.gpu(b.spec.GPU), e.withInit(b.spec),
	}
	if e.profile != "" {
		opts = append(opts, apparmor.WithProfile(e.profile))
	}
	if slices.Contains(capabilities(h.CapDrop), "ALL") {
		opts = append(opts, oci.WithCapabilities(nil), oci.WithAddedCapabilities(capabilities(h.CapAdd)))
	}
	if !slices.Contains(h.SecurityOpt, seccompUnconfined) {
		opts = append(opts, seccomp.WithDefaultProfile()) // it depends on the capabilities
	}
	return opts
}

// capabilities adds the prefix that Docker's names lack.
func capabilities(names []string) []string {
	var all []string
	for _, name := range names {
		name = strings.ToUpper(name)
		if name != "ALL" && !strings.HasPrefix(name, "CAP_") {
			name = "CAP_" + name
		}
		all = append(all, name)
	}
	return all
}

// edit makes a SpecOpts of a function that only changes the specification.
func edit(change func(s *oci.Spec) error) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error { return change(s) }
}

// cpuPeriod is the length of the slices of time in which processors are shared out.
const cpuPeriod = 100_000

func (e *Engine) limits(spec container.Spec) oci.SpecOpts {
	return edit(func(s *oci.Spec) error {
		h, r := e.args.Host, s.Linux.Resources
		r.Memory = e.cgroups.memory(spec.Limit())
		if h.MemoryReservation > 0 {
			r.Memory.Reservation = &h.MemoryReservation
		}
		if h.MemorySwappiness != nil && !e.cgroups.unified {
			swappiness := uint64(*h.MemorySwappiness)
			r.Memory.Swappiness = &swappiness
		}
		shares := uint64(spec.CPUShares)
		r.CPU = &specs.LinuxCPU{Shares: &shares, Cpus: h.CpusetCpus, Mems: h.CpusetMems}
		if spec.CPUs > 0 {
			period, quota := uint64(cpuPeriod), int64(math.Round(spec.CPUs*cpuPeriod))
			r.CPU.Period, r.CPU.Quota = &period, &quota
		}
		if h.PidsLimit != nil && *h.PidsLimit > 0 {
			r.Pids = &specs.LinuxPids{Limit: h.PidsLimit}
		}
		s.Process.NoNewPrivileges = slices.ContainsFunc(h.SecurityOpt, func(o string) bool { return strings.HasPrefix(o, noNewPrivileges) })
		// Runtimes of languages read their limits there.
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"ro", "nosuid", "noexec", "nodev"}})
		if e.cgroups.unified && !slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool { return n.Type == specs.CgroupNamespace }) {
			s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
		}
		return nil
	})
}

// overrides sets the operator's arguments beyond limits and capabilities.
func (e *Engine) overrides() oci.SpecOpts {
	c, h := e.args.Config, e.args.Host
	opts := []oci.SpecOpts{edit(func(s *oci.Spec) error {
		s.Root.Readonly = h.ReadonlyRootfs
		for _, limit := range h.Ulimits {
			kind := "RLIMIT_" + strings.ToUpper(limit.Name)
			s.Process.Rlimits = slices.DeleteFunc(s.Process.Rlimits, func(r specs.POSIXRlimit) bool { return r.Type == kind })
			s.Process.Rlimits = append(s.Process.Rlimits, specs.POSIXRlimit{Type: kind, Soft: uint64(limit.Soft), Hard: uint64(limit.Hard)})
		}
		if h.OomScoreAdj != 0 {
			s.Process.OOMScoreAdj = &h.OomScoreAdj
		}
		for _, path := range slices.Sorted(maps.Keys(h.Tmpfs)) {
			options := append([]string{"nosuid", "nodev", "noexec"}, strings.FieldsFunc(h.Tmpfs[path], func(r rune) bool { return r == ',' })...)
			s.Mounts = append(s.Mounts, specs.Mount{Destination: path, Type: "tmpfs", Source: "tmpfs", Options: options})
		}
		s.Linux.Sysctl = h.Sysctls
		if h.CgroupParent != "" {
			s.Linux.CgroupsPath = filepath.Join("/", h.CgroupParent, filepath.Base(s.Linux.CgroupsPath))
		}
		if c.WorkingDir != "" {
			s.Process.Cwd = c.WorkingDir
		}
		if c.Hostname != "" {
			s.Hostname = c.Hostname
		}
		return nil
	})}
	if c.User != "" {
		opts = append(opts, oci.WithUser(c.User))
	}
	if len(h.GroupAdd) > 0 {
		opts = append(opts, oci.WithAppendAdditionalGroups(h.GroupAdd...))
	}
	for _, d := range h.Devices {
		opts = append(opts, oci.WithDevices(d.PathOnHost, d.PathInContainer, d.CgroupPermissions))
	}
	return oci.Compose(opts...)
}

// environment adds the container's variables to those of the image. A GPU container does
// not get those of the image by which it would choose devices or come before the shim.
func (e *Engine) environment(spec container.Spec) oci.SpecOpts {
	return edit(func(s *oci.Spec) error {
		lists := [][]string{s.Process.Env, spec.Env, e.args.Config.Env}
		if g := spec.GPU; g != nil {
			lists[0] = slices.DeleteFunc(slices.Clone(s.Process.Env), func(entry string) bool {
				name, _, _ := strings.Cut(entry, "=")
				return container.IsReservedImageEnv(name)
			})
			lists = append(lists, g.Env)
		}
		s.Process.Env = runargs.Environ(lists...)
		return nil
	})
}

// gpu gives a container its device, and the files that go with it.
func (e *Engine) gpu(g *container.GPU) oci.SpecOpts {
	return edit(func(s *oci.Spec) error {
		if g == nil {
			return nil
		}
		if !g.Simulated {
			name, err := e.deviceName(g.Device)
			if err != nil {
				return err
			}
			if _, err := e.devices.InjectDevices(s, name); err != nil {
				return fmt.Errorf("give the container its device by CDI: %w", err)
			}
		}
		for way, mounts := range map[string][]container.Mount{"ro": g.Mounts, "rw": g.Shared} {
			for _, m := range mounts {
				if _, err := fs.Stat(e.options.Files, strings.TrimPrefix(m.Source, "/")); err != nil {
					return fmt.Errorf("mount into a GPU container, on the host of containerd: %s: %w", m.Source, err)
				}
				s.Mounts = slices.DeleteFunc(s.Mounts, func(have specs.Mount) bool { return have.Destination == m.Target })
				s.Mounts = append(s.Mounts, bind(m.Source, m.Target, way))
			}
		}
		return nil
	})
}

func bind(source, target, way string) specs.Mount {
	return specs.Mount{Destination: target, Type: "bind", Source: source, Options: []string{"rbind", "rprivate", way}}
}

// deviceName returns the full name of a device in a CDI specification.
func (e *Engine) deviceName(device string) (string, error) {
	if err := e.devices.Refresh(); err != nil {
		e.log.Debug("read CDI specifications", "error", err) // of other devices, perhaps
	}
	known := cdi.Read(e.options.Files, e.options.CDIDirs)
	if name, found := known.Find(device); found {
		return name, nil
	}
	return "", fmt.Errorf("give GPU %s to containers: no CDI specification in %s names it (found: %s); run nvidia-ctk cdi generate",
		device, strings.Join(e.options.CDIDirs, " and "), strings.Join(known.Names(), ", "))
}

// CheckDevices reports whether every device can be given to a container.
func (e *Engine) CheckDevices(devices ...string) error {
	for _, device := range devices {
		name, err := e.deviceName(device)
		if err != nil {
			return err
		}
		e.log.Info("containers get a GPU", "device", device, "way", "cdi", "name", name)
	}
	return nil
}

// writeFiles makes the directory of a container with the files that Docker makes, too.
func (e *Engine) writeFiles(b build) error {
	if err := os.MkdirAll(b.dir, 0o711); err != nil {
		return fmt.Errorf("make the directory of a container (whisk.gpu.containerd.state-dir): %w", err)
	}
	hosts := "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" + b.place.Address + "\t" + b.id[:12] + "\n"
	for _, entry := range e.args.Host.ExtraHosts {
		name, addr, _ := strings.Cut(entry, ":")
		if addr == "host-gateway" {
			addr = e.network.Gateway().String()
		}
		hosts += addr + "\t" + name + "\n"
	}
	for name, text := range map[string]string{"hosts": hosts, "hostname": b.id[:12] + "\n", "resolv.conf": e.resolver(), networkFile: b.place.Path} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("write a file of a container (whisk.gpu.containerd.state-dir): %w", err)
		}
	}
	return nil
}

// networkFile has the path of a container's network namespace, for the removal of a
// container whose record in containerd is gone.
const networkFile = "network"

func (e *Engine) fileMounts(dir string) []specs.Mount {
	var mounts []specs.Mount
	for _, name := range []string{"hosts", "hostname", "resolv.conf"} {
		mounts = append(mounts, bind(filepath.Join(dir, name), "/etc/"+name, "ro"))
	}
	return mounts
}

// resolver returns the containers' resolv.conf: the host's, without servers that only the
// host reaches, and with the operator's settings in place of the host's.
func (e *Engine) resolver() string {
	var servers, rest []string
	for _, file := range []string{"etc/resolv.conf", "run/systemd/resolve/resolv.conf"} {
		text, _ := fs.ReadFile(e.options.Files, file)
		rest = nil
		for line := range strings.Lines(string(text)) {
			fields := strings.Fields(line)
			switch {
			case len(fields) < 2 || strings.HasPrefix(fields[0], "#"):
			case fields[0] == "nameserver" && !strings.HasPrefix(fields[1], "127.") && fields[1] != "::1":
				servers = append(servers, fields[1])
			case fields[0] == "search" && len(e.args.Host.DNSSearch) == 0, fields[0] == "options" && len(e.args.Host.DNSOptions) == 0:
				rest = append(rest, strings.TrimSpace(line))
			}
		}
		if len(servers) > 0 {
			break
		}
	}
	if len(e.options.DNSServers) > 0 {
		servers = e.options.DNSServers
	}
	if len(servers) == 0 {
		servers = []string{"8.8.8.8", "8.8.4.4"} // as Docker does
	}
	for _, server := range servers {
		rest = append(rest, "nameserver "+server)
	}
	if h := e.args.Host; len(h.DNSSearch) > 0 {
		rest = append(rest, "search "+strings.Join(h.DNSSearch, " "))
	}
	if h := e.args.Host; len(h.DNSOptions) > 0 {
		rest = append(rest, "options "+strings.Join(h.DNSOptions, " "))
	}
	return strings.Join(rest, "\n") + "\n"
}
