package docker

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"
	api "github.com/moby/moby/api/types/container"
)

// setting puts the values of one `docker run` option into the shared part.
type setting func(p *hostPart, values []string) error

// settings are the options that may be given as extra arguments. Options that
// would undo what the invoker itself sets (name, memory, network, env of the
// proxy) are not among them.
func settings() map[string]setting {
	return map[string]setting{
		"add-host":           list(func(p *hostPart) *[]string { return &p.host.ExtraHosts }),
		"cap-add":            list(func(p *hostPart) *[]string { return &p.host.CapAdd }),
		"cap-drop":           list(func(p *hostPart) *[]string { return &p.host.CapDrop }),
		"cgroup-parent":      one(func(p *hostPart, v string) { p.host.CgroupParent = v }),
		"cgroupns":           one(func(p *hostPart, v string) { p.host.CgroupnsMode = api.CgroupnsMode(v) }),
		"cpuset-cpus":        one(func(p *hostPart, v string) { p.host.CpusetCpus = v }),
		"cpuset-mems":        one(func(p *hostPart, v string) { p.host.CpusetMems = v }),
		"device":             deviceMappings,
		"dns-option":         list(func(p *hostPart) *[]string { return &p.host.DNSOptions }),
		"dns-search":         list(func(p *hostPart) *[]string { return &p.host.DNSSearch }),
		"env":                list(func(p *hostPart) *[]string { return &p.config.Env }),
		"group-add":          list(func(p *hostPart) *[]string { return &p.host.GroupAdd }),
		"hostname":           one(func(p *hostPart, v string) { p.config.Hostname = v }),
		"init":               flag(func(p *hostPart, v bool) { p.host.Init = &v }),
		"ipc":                one(func(p *hostPart, v string) { p.host.IpcMode = api.IpcMode(v) }),
		"label":              pairs(func(p *hostPart) *map[string]string { return &p.config.Labels }),
		"log-driver":         one(func(p *hostPart, v string) { p.host.LogConfig.Type = v }),
		"log-opt":            pairs(func(p *hostPart) *map[string]string { return &p.host.LogConfig.Config }),
		"memory-reservation": bytesOf(func(p *hostPart, v int64) { p.host.MemoryReservation = v }),
		"memory-swappiness":  number(func(p *hostPart, v int64) { p.host.MemorySwappiness = &v }),
		"oom-score-adj":      number(func(p *hostPart, v int64) { p.host.OomScoreAdj = int(v) }),
		"pids-limit":         number(func(p *hostPart, v int64) { p.host.PidsLimit = &v }),
		"read-only":          flag(func(p *hostPart, v bool) { p.host.ReadonlyRootfs = v }),
		"runtime":            one(func(p *hostPart, v string) { p.host.Runtime = v }),
		"security-opt":       list(func(p *hostPart) *[]string { return &p.host.SecurityOpt }),
		"shm-size":           bytesOf(func(p *hostPart, v int64) { p.host.ShmSize = v }),
		"storage-opt":        pairs(func(p *hostPart) *map[string]string { return &p.host.StorageOpt }),
		"sysctl":             pairs(func(p *hostPart) *map[string]string { return &p.host.Sysctls }),
		"tmpfs":              tmpfs,
		"ulimit":             ulimits,
		"user":               one(func(p *hostPart, v string) { p.config.User = v }),
		"userns":             one(func(p *hostPart, v string) { p.host.UsernsMode = api.UsernsMode(v) }),
		"volume":             list(func(p *hostPart) *[]string { return &p.host.Binds }),
		"workdir":            one(func(p *hostPart, v string) { p.config.WorkingDir = v }),
	}
}

// apply sets the extra arguments, in the order of their names.
func (p *hostPart) apply(extra map[string][]string) error {
	known := settings()
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		set, ok := known[name]
		if !ok {
			return fmt.Errorf("extra docker argument %q is not supported; known are %s",
				name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if err := set(p, extra[name]); err != nil {
			return fmt.Errorf("extra docker argument %q: %w", name, err)
		}
	}
	return nil
}

func list(field func(*hostPart) *[]string) setting {
	return func(p *hostPart, values []string) error {
		*field(p) = slices.Clone(values)
		return nil
	}
}

// last gives the value that counts when an option that takes one is repeated.
func last(values []string) (string, error) {
	if len(values) == 0 {
		return "", fmt.Errorf("value is missing")
	}
	return values[len(values)-1], nil
}

func one(put func(*hostPart, string)) setting {
	return func(p *hostPart, values []string) error {
		v, err := last(values)
		if err == nil {
			put(p, v)
		}
		return err
	}
}

func flag(put func(*hostPart, bool)) setting {
	return func(p *hostPart, values []string) error {
		v, err := last(values)
		if err != nil || v == "" {
			v = "true"
		}
		b, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", v)
		}
		put(p, b)
		return nil
	}
}

func number(put func(*hostPart, int64)) setting {
	return func(p *hostPart, values []string) error {
		v, err := last(values)
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", v)
		}
		put(p, n)
		return nil
	}
}

// bytesOf reads a size as docker does: a number and b, k, m or g, powers of
// 1024.
func bytesOf(put func(*hostPart, int64)) setting {
	return func(p *hostPart, values []string) error {
		v, err := last(values)
		if err != nil {
			return err
		}
		n, err := units.RAMInBytes(v)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a size such as 64m", v)
		}
		put(p, n)
		return nil
	}
}

func pairs(field func(*hostPart) *map[string]string) setting {
	return func(p *hostPart, values []string) error {
		m := map[string]string{}
		for _, v := range values {
			key, value, _ := strings.Cut(v, "=")
			if key == "" {
				return fmt.Errorf("%q is not of the form key=value", v)
			}
			m[key] = value
		}
		*field(p) = m
		return nil
	}
}

func tmpfs(p *hostPart, values []string) error {
	p.host.Tmpfs = map[string]string{}
	for _, v := range values {
		path, options, _ := strings.Cut(v, ":")
		p.host.Tmpfs[path] = options
	}
	return nil
}

func deviceMappings(p *hostPart, values []string) error {
	p.host.Devices = nil
	for _, v := range values {
		parts := strings.Split(v, ":")
		if len(parts) > 3 || parts[0] == "" {
			return fmt.Errorf("%q is not of the form host[:container[:permissions]]", v)
		}
		d := api.DeviceMapping{PathOnHost: parts[0], PathInContainer: parts[0], CgroupPermissions: "rwm"}
		if len(parts) > 1 {
			d.PathInContainer = parts[1]
		}
		if len(parts) > 2 {
			d.CgroupPermissions = parts[2]
		}
		p.host.Devices = append(p.host.Devices, d)
	}
	return nil
}

func ulimits(p *hostPart, values []string) error {
	p.host.Ulimits = nil
	for _, v := range values {
		limit, err := units.ParseUlimit(v)
		if err != nil {
			return fmt.Errorf("%q is not of the form name=soft[:hard]: %w", v, err)
		}
		p.host.Ulimits = append(p.host.Ulimits, limit)
	}
	return nil
}
