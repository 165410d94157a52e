package docker

import (
	"cmp"
	"errors"
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
		"cgroup-parent":      text(func(p *hostPart, v string) { p.host.CgroupParent = v }),
		"cgroupns":           text(func(p *hostPart, v string) { p.host.CgroupnsMode = api.CgroupnsMode(v) }),
		"cpuset-cpus":        text(func(p *hostPart, v string) { p.host.CpusetCpus = v }),
		"cpuset-mems":        text(func(p *hostPart, v string) { p.host.CpusetMems = v }),
		"device":             deviceMappings,
		"dns-option":         list(func(p *hostPart) *[]string { return &p.host.DNSOptions }),
		"dns-search":         list(func(p *hostPart) *[]string { return &p.host.DNSSearch }),
		"env":                list(func(p *hostPart) *[]string { return &p.config.Env }),
		"group-add":          list(func(p *hostPart) *[]string { return &p.host.GroupAdd }),
		"hostname":           text(func(p *hostPart, v string) { p.config.Hostname = v }),
		"init":               flag(func(p *hostPart, v bool) { p.host.Init = &v }),
		"ipc":                text(func(p *hostPart, v string) { p.host.IpcMode = api.IpcMode(v) }),
		"label":              pairs(func(p *hostPart) *map[string]string { return &p.config.Labels }),
		"log-driver":         text(func(p *hostPart, v string) { p.host.LogConfig.Type = v }),
		"log-opt":            pairs(func(p *hostPart) *map[string]string { return &p.host.LogConfig.Config }),
		"memory-reservation": bytesOf(func(p *hostPart, v int64) { p.host.MemoryReservation = v }),
		"memory-swappiness":  number(func(p *hostPart, v int64) { p.host.MemorySwappiness = &v }),
		"oom-score-adj":      number(func(p *hostPart, v int64) { p.host.OomScoreAdj = int(v) }),
		"pids-limit":         number(func(p *hostPart, v int64) { p.host.PidsLimit = &v }),
		"read-only":          flag(func(p *hostPart, v bool) { p.host.ReadonlyRootfs = v }),
		"runtime":            text(func(p *hostPart, v string) { p.host.Runtime = v }),
		"security-opt":       list(func(p *hostPart) *[]string { return &p.host.SecurityOpt }),
		"shm-size":           bytesOf(func(p *hostPart, v int64) { p.host.ShmSize = v }),
		"storage-opt":        pairs(func(p *hostPart) *map[string]string { return &p.host.StorageOpt }),
		"sysctl":             pairs(func(p *hostPart) *map[string]string { return &p.host.Sysctls }),
		"tmpfs":              tmpfs,
		"ulimit":             ulimits,
		"user":               text(func(p *hostPart, v string) { p.config.User = v }),
		"userns":             text(func(p *hostPart, v string) { p.host.UsernsMode = api.UsernsMode(v) }),
		"volume":             list(func(p *hostPart) *[]string { return &p.host.Binds }),
		"workdir":            text(func(p *hostPart, v string) { p.config.WorkingDir = v }),
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

// one reads the value of an option that takes one; where it is repeated, the last.
func one[T any](read func(value string) (T, error), put func(*hostPart, T)) setting {
	return func(p *hostPart, values []string) error {
		if len(values) == 0 {
			return errors.New("value is missing")
		}
		v, err := read(values[len(values)-1])
		if err == nil {
			put(p, v)
		}
		return err
	}
}

func text(put func(*hostPart, string)) setting {
	return one(func(v string) (string, error) { return v, nil }, put)
}

// flag reads an option that means true without a value.
func flag(put func(*hostPart, bool)) setting {
	set := one(func(v string) (bool, error) {
		b, err := strconv.ParseBool(cmp.Or(v, "true"))
		if err != nil {
			return false, fmt.Errorf("%q is neither true nor false", v)
		}
		return b, nil
	}, put)
	return func(p *hostPart, values []string) error { return set(p, append([]string{""}, values...)) }
}

func number(put func(*hostPart, int64)) setting {
	return one(func(v string) (int64, error) {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", v)
		}
		return n, nil
	}, put)
}

// bytesOf reads a size as docker does: a number and b, k, m or g, powers of
// 1024.
func bytesOf(put func(*hostPart, int64)) setting {
	return one(func(v string) (int64, error) {
		n, err := units.RAMInBytes(v)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%q is not a size such as 64m", v)
		}
		return n, nil
	}, put)
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
