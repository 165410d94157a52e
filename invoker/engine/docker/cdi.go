package docker

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// specs are the GPUs that CDI specifications name. A specification that
// nvidia-ctk writes calls them by index, by UUID or by both
// (--device-name-strategy), so a UUID is also looked up by its device node.
type specs struct {
	named map[string]bool   // by full name, such as nvidia.com/gpu=0
	nodes map[string]string // full name by device node, such as /dev/nvidia0
	uuids map[string]string // device node by UUID, as the driver reports it
}

// cdiDevice is one device of a specification.
type cdiDevice struct {
	name  string
	nodes []string
}

// readSpecs reads the specifications in some directories. What cannot be read
// or understood names nothing.
func readSpecs(files fs.FS, dirs []string) specs {
	s := specs{named: map[string]bool{}, nodes: map[string]string{}, uuids: driverNodes(files)}
	for _, name := range CDIFiles(files, dirs) {
		data, err := fs.ReadFile(files, name)
		if err == nil {
			s.add(parseSpec(data))
		}
	}
	return s
}

// CDIFiles are the CDI specifications in some directories, of whatever devices, by
// their names in files.
func CDIFiles(files fs.FS, dirs []string) []string {
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

func (s specs) add(kind string, devices []cdiDevice) {
	if kind != CDIKind {
		return
	}
	for _, d := range devices {
		full := CDIKind + "=" + d.name
		s.named[full] = true
		// A name with several devices, such as "all", is none of them, and a
		// slice has the node of its card. Of two names for one node either
		// will do; the same one each time is better.
		if len(d.nodes) == 1 && !d.slice() && (s.nodes[d.nodes[0]] == "" || full < s.nodes[d.nodes[0]]) {
			s.nodes[d.nodes[0]] = full
		}
	}
}

// addNames adds the names that the daemon itself lists.
func (s specs) addNames(names []string) {
	for _, name := range names {
		if strings.HasPrefix(name, CDIKind+"=") {
			s.named[name] = true
		}
	}
}

// find gives the full name of a device.
func (s specs) find(device string) (string, bool) {
	full := device
	if !strings.HasPrefix(device, CDIKind+"=") {
		full = CDIKind + "=" + device
	}
	if s.named[full] {
		return full, true
	}
	byNode := s.nodes[s.uuids[device]]
	return byNode, byNode != ""
}

func (s specs) names() []string { return slices.Sorted(maps.Keys(s.named)) }

// driverNodes asks the driver's files which device node each GPU has.
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

// parseSpec reads kind and devices of a specification, in YAML or JSON, which is
// YAML, too.
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
		for _, n := range d.ContainerEdits.DeviceNodes { // of which some are of all GPUs
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
