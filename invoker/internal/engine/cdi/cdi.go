// Package cdi finds the GPUs that the CDI specifications of a host name.
package cdi

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Kind is how NVIDIA's specifications call their devices.
const Kind = "nvidia.com/gpu"

// Specs are the GPUs that CDI specifications name. A specification that
// nvidia-ctk writes calls them by index, by UUID or by both
// (--device-name-strategy), so a UUID is also looked up by its device node.
type Specs struct {
	named map[string]bool   // by full name, such as nvidia.com/gpu=0
	nodes map[string]string // full name by device node, such as /dev/nvidia0
	uuids map[string]string // device node by UUID, as the driver reports it
}

// cdiDevice is one device of a specification.
type cdiDevice struct {
	name  string
	nodes []string
}

// Read reads the specifications in some directories. It skips files that it cannot read
// or parse.
func Read(files fs.FS, dirs []string) Specs {
	s := Specs{named: map[string]bool{}, nodes: map[string]string{}, uuids: driverNodes(files)}
	for _, name := range Files(files, dirs) {
		data, err := fs.ReadFile(files, name)
		if err == nil {
			s.add(parseSpec(data))
		}
	}
	return s
}

// Files lists the CDI specifications in some directories, for devices of any kind. It
// returns their names in files.
func Files(files fs.FS, dirs []string) []string {
	var all []string
	for _, dir := range dirs {
		for _, kind := range []string{"yaml", "json"} {
			names, _ := fs.Glob(files, strings.TrimPrefix(path.Clean(dir), "/")+"/*."+kind) // the pattern is well formed
			all = append(all, names...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func (s Specs) add(kind string, devices []cdiDevice) {
	if kind != Kind {
		return
	}
	for _, d := range devices {
		full := Kind + "=" + d.name
		s.named[full] = true
		// A name with several devices, such as "all", is not the name of one device,
		// and a MIG slice has the node of its card. If two names have the same node,
		// the first in the alphabet is used.
		if len(d.nodes) == 1 && !d.slice() && (s.nodes[d.nodes[0]] == "" || full < s.nodes[d.nodes[0]]) {
			s.nodes[d.nodes[0]] = full
		}
	}
}

// AddNames adds names that the container engine reports.
func (s Specs) AddNames(names []string) {
	for _, name := range names {
		if strings.HasPrefix(name, Kind+"=") {
			s.named[name] = true
		}
	}
}

// Find returns the full name of a device, which may be given by its name or its UUID.
func (s Specs) Find(device string) (string, bool) {
	full := device
	if !strings.HasPrefix(device, Kind+"=") {
		full = Kind + "=" + device
	}
	if s.named[full] {
		return full, true
	}
	byNode := s.nodes[s.uuids[device]]
	return byNode, byNode != ""
}

// Names lists the devices by their full names.
func (s Specs) Names() []string { return slices.Sorted(maps.Keys(s.named)) }

// driverNodes reads the device node of each GPU from the driver's files.
func driverNodes(files fs.FS) map[string]string {
	nodes := map[string]string{}
	infos, _ := fs.Glob(files, "proc/driver/nvidia/gpus/*/information")
	for _, info := range infos {
		data, _ := fs.ReadFile(files, info)
		fields := map[string]string{}
		for line := range strings.Lines(string(data)) {
			key, value, _ := strings.Cut(line, ":")
			fields[key] = strings.TrimSpace(value)
		}
		if uuid, minor := fields["GPU UUID"], fields["Device Minor"]; uuid != "" && minor != "" {
			nodes[uuid] = "/dev/nvidia" + minor
		}
	}
	return nodes
}

// parseSpec reads the kind and the devices of a specification. JSON is YAML, too.
func parseSpec(data []byte) (string, []cdiDevice) {
	var spec struct {
		Kind    string
		Devices []struct {
			Name           string
			ContainerEdits struct {
				DeviceNodes []struct{ Path string } `yaml:"deviceNodes"`
			} `yaml:"containerEdits"`
		}
	}
	if yaml.Unmarshal(data, &spec) != nil {
		return "", nil
	}
	var devices []cdiDevice
	for _, d := range spec.Devices {
		device := cdiDevice{name: d.Name}
		for _, n := range d.ContainerEdits.DeviceNodes { // some nodes belong to all GPUs
			if number, gpu := strings.CutPrefix(n.Path, "/dev/nvidia"); gpu && number != "" && strings.Trim(number, "0123456789") == "" {
				device.nodes = append(device.nodes, n.Path)
			}
		}
		devices = append(devices, device)
	}
	return spec.Kind, devices
}

// slice recognizes a MIG slice: named MIG-UUID, or CARD:SLICE.
func (d cdiDevice) slice() bool {
	return strings.HasPrefix(d.name, "MIG-") || strings.Contains(d.name, ":")
}
