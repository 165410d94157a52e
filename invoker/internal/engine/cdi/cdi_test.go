package cdi

import (
	"testing"
	"testing/fstest"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const uuid = "GPU-5fd4f087-86f3-7a43-b711-4771313afc50"

// As nvidia-ctk 1.17 writes it, shortened.
const generated = `---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidia-modeset
  - path: /dev/nvidiactl
  env:
  - NVIDIA_VISIBLE_DEVICES=void
  hooks:
  - args:
    - nvidia-cdi-hook
    - create-symlinks
    hookName: createContainer
    path: /usr/bin/nvidia-cdi-hook
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - path: /dev/dri/card1
    hooks:
    - args:
      - name
      path: /usr/bin/nvidia-cdi-hook
  name: "0"
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: GPU-a # by UUID
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
    - hostPath: /dev/nvidia7
      path: '/dev/nvidia1'
  name: all
kind: nvidia.com/gpu
`

const indented = `kind: "nvidia.com/gpu"
# a comment
devices:
  - name: '1'
    containerEdits:
      deviceNodes:
        - path: "/dev/nvidia1"
`

const object = `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","devices":[
	{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0"},{"path":"/dev/nvidia-uvm"}]}}]}`

func TestParseSpec(t *testing.T) {
	for _, c := range []struct {
		name, text, kind string
		devices          []cdiDevice
	}{
		{"generated", generated, "nvidia.com/gpu", []cdiDevice{
			{"0", []string{"/dev/nvidia0"}}, {"GPU-a", []string{"/dev/nvidia0"}}, {"all", []string{"/dev/nvidia0", "/dev/nvidia1"}}}},
		{"indented", indented, "nvidia.com/gpu", []cdiDevice{{"1", []string{"/dev/nvidia1"}}}},
		{"JSON", object, "nvidia.com/gpu", []cdiDevice{{"0", []string{"/dev/nvidia0"}}}},
		{"broken JSON", object[:40], "", nil},
		{"empty", "", "", nil},
		{"another vendor", "kind: intel.com/gpu\ndevices:\n- name: x\n", "intel.com/gpu", []cdiDevice{{name: "x"}}},
		{"item without a list", "devices:\n  name: x\n", "", nil},
	} {
		kind, devices := parseSpec([]byte(c.text))
		check.Equal(t, kind, c.kind, "%s", c.name)
		check.DeepEqual(t, devices, c.devices, "%s", c.name)
	}
}

// Of two names for one device the same one is taken each time; a name for
// several is none of them.
func TestFindByNode(t *testing.T) {
	s := Read(host(generated), []string{"/etc/cdi", "/not/there"})
	s.uuids["GPU-b"] = "/dev/nvidia0"
	name, ok := s.Find("GPU-b")
	check.That(t, ok)
	check.Equal(t, name, "nvidia.com/gpu=0")
	s.add(Kind, []cdiDevice{{"1:0", []string{"/dev/nvidia3"}}, {"MIG-x", []string{"/dev/nvidia3"}}})
	for _, device := range []string{"7", uuid, "", "nvidia.com/gpu=7"} {
		name, ok := s.Find(device)
		check.That(t, !ok, "%q is taken for %s", device, name)
	}
}

func FuzzParseSpec(f *testing.F) {
	for _, text := range []string{generated, indented, object, "devices:\n- \n-\n", "- a: b", "devices:\n -  name:\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, devices := parseSpec(data)
		for _, d := range devices {
			for _, node := range d.nodes {
				check.Greater(t, len(node), len("/dev/nvidia"), "%q is a node", node)
			}
		}
	})
}

// host is a file system with one GPU, and a specification if that is given.
func host(spec string) fstest.MapFS {
	files := fstest.MapFS{"proc/driver/nvidia/gpus/0000:1a:00.0/information": {
		Data: []byte("Model: \t\t NVIDIA H200\nGPU UUID: \t " + uuid + "\nDevice Minor: \t 3\n")}}
	if spec != "" {
		files["etc/cdi/nvidia.yaml"] = &fstest.MapFile{Data: []byte(spec)}
	}
	return files
}
