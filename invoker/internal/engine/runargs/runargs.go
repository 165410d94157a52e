// Package runargs reads options of `docker run`, which an operator may give for all
// action containers.
package runargs

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

// Args is the part of a container's settings that the options change.
type Args struct {
	Config api.Config
	Host   api.HostConfig
}

// setting puts the values of one `docker run` option into the shared part.
type setting func(p *Args, values []string) error

// settings returns the options that may be given as extra arguments. Options that would undo
// the invoker's own settings (name, memory, network, env of the proxy) are not among them.
func settings() map[string]setting {
	return map[string]setting{
		"add-host":           list(func(p *Args) *[]string { return &p.Host.ExtraHosts }),
		"cap-add":            list(func(p *Args) *[]string { return &p.Host.CapAdd }),
		"cap-drop":           list(func(p *Args) *[]string { return &p.Host.CapDrop }),
		"cgroup-parent":      text(func(p *Args, v string) { p.Host.CgroupParent = v }),
		"cgroupns":           text(func(p *Args, v string) { p.Host.CgroupnsMode = api.CgroupnsMode(v) }),
		"cpuset-cpus":        text(func(p *Args, v string) { p.Host.CpusetCpus = v }),
		"cpuset-mems":        text(func(p *Args, v string) { p.Host.CpusetMems = v }),
		"device":             deviceMappings,
		"dns-option":         list(func(p *Args) *[]string { return &p.Host.DNSOptions }),
		"dns-search":         list(func(p *Args) *[]string { return &p.Host.DNSSearch }),
		"env":                list(func(p *Args) *[]string { return &p.Config.Env }),
		"group-add":          list(func(p *Args) *[]string { return &p.Host.GroupAdd }),
		"hostname":           text(func(p *Args, v string) { p.Config.Hostname = v }),
		"init":               flag(func(p *Args, v bool) { p.Host.Init = &v }),
		"ipc":                text(func(p *Args, v string) { p.Host.IpcMode = api.IpcMode(v) }),
		"label":              pairs(func(p *Args) *map[string]string { return &p.Config.Labels }),
		"log-driver":         text(func(p *Args, v string) { p.Host.LogConfig.Type = v }),
		"log-opt":            pairs(func(p *Args) *map[string]string { return &p.Host.LogConfig.Config }),
		"memory-reservation": bytesOf(func(p *Args, v int64) { p.Host.MemoryReservation = v }),
		"memory-swappiness":  number(func(p *Args, v int64) { p.Host.MemorySwappiness = &v }),
		"oom-score-adj":      number(func(p *Args, v int64) { p.Host.OomScoreAdj = int(v) }),
		"pids-limit":         number(func(p *Args, v int64) { p.Host.PidsLimit = &v }),
		"read-only":          flag(func(p *Args, v bool) { p.Host.ReadonlyRootfs = v }),
		"runtime":            text(func(p *Args, v string) { p.Host.Runtime = v }),
		"security-opt":       list(func(p *Args) *[]string { return &p.Host.SecurityOpt }),
		"shm-size":           bytesOf(func(p *Args, v int64) { p.Host.ShmSize = v }),
		"storage-opt":        pairs(func(p *Args) *map[string]string { return &p.Host.StorageOpt }),
		"sysctl":             pairs(func(p *Args) *map[string]string { return &p.Host.Sysctls }),
		"tmpfs":              tmpfs,
		"ulimit":             ulimits,
		"user":               text(func(p *Args, v string) { p.Config.User = v }),
		"userns":             text(func(p *Args, v string) { p.Host.UsernsMode = api.UsernsMode(v) }),
		"volume":             list(func(p *Args) *[]string { return &p.Host.Binds }),
		"workdir":            text(func(p *Args, v string) { p.Config.WorkingDir = v }),
	}
}

// Apply sets the extra arguments, in the order of their names.
func (p *Args) Apply(extra map[string][]string) error {
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

func list(field func(*Args) *[]string) setting {
	return func(p *Args, values []string) error {
		*field(p) = slices.Clone(values)
		return nil
	}
}

// one reads the value of an option that takes one; where it is repeated, the last.
func one[T any](read func(value string) (T, error), put func(*Args, T)) setting {
	return func(p *Args, values []string) error {
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

func text(put func(*Args, string)) setting {
	return one(func(v string) (string, error) { return v, nil }, put)
}

// flag reads an option that means true without a value.
func flag(put func(*Args, bool)) setting {
	set := one(func(v string) (bool, error) {
		b, err := strconv.ParseBool(cmp.Or(v, "true"))
		if err != nil {
			return false, fmt.Errorf("%q is neither true nor false", v)
		}
		return b, nil
	}, put)
	return func(p *Args, values []string) error { return set(p, append([]string{""}, values...)) }
}

func number(put func(*Args, int64)) setting {
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
func bytesOf(put func(*Args, int64)) setting {
	return one(func(v string) (int64, error) {
		n, err := units.RAMInBytes(v)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%q is not a size such as 64m", v)
		}
		return n, nil
	}, put)
}

func pairs(field func(*Args) *map[string]string) setting {
	return func(p *Args, values []string) error {
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

func tmpfs(p *Args, values []string) error {
	p.Host.Tmpfs = map[string]string{}
	for _, v := range values {
		path, options, _ := strings.Cut(v, ":")
		p.Host.Tmpfs[path] = options
	}
	return nil
}

func deviceMappings(p *Args, values []string) error {
	p.Host.Devices = nil
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
		p.Host.Devices = append(p.Host.Devices, d)
	}
	return nil
}

func ulimits(p *Args, values []string) error {
	p.Host.Ulimits = nil
	for _, v := range values {
		limit, err := units.ParseUlimit(v)
		if err != nil {
			return fmt.Errorf("%q is not of the form name=soft[:hard]: %w", v, err)
		}
		p.Host.Ulimits = append(p.Host.Ulimits, limit)
	}
	return nil
}
