package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/gpu/nvml"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/containerd"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

// now is the time on the fake host.
var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const manifest = `{"runtimes":{"python":[{"kind":"python:3-gpu","image":{"prefix":"whisk","name":"python-gpu","tag":"1"}}]}}`

const pythonImage = "whisk/python-gpu:1"

// fake is a host whose answers a test can change before the examination.
type fake struct {
	*Machine
	files         fstest.MapFS
	cards         []nvml.Card
	docker        docker.Survey
	containerd    containerd.Survey
	containerdErr error
	images        map[string]docker.Image
	logs          docker.LogSettings
	kafka         kafka.ClusterInfo
	couch         couchdb.Survey
	zoo           map[string]int
	space         Space

	tried    Tried
	triedErr error
	output   map[string]string // output of a program, by its name
}

func text(s string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte(s), ModTime: now.Add(-50 * time.Hour), Mode: 0o644}
}

func node() *fstest.MapFile { return &fstest.MapFile{Mode: fs.ModeDevice | fs.ModeCharDevice | 0o666} }

// healthy returns a host with one GPU and no problems.
func healthy() *fake {
	c := config.Default()
	id := 0
	c.Identity.ID = &id
	c.Kafka.Hosts = []string{"kafka:9092"}
	c.Runtimes.Manifest = manifest
	c.CouchDB = config.CouchDB{
		Protocol: "http", Host: "db", Port: 5984, Username: "whisk", Password: "some_passw0rd",
		Entities: "whisks", Subjects: "subjects", Activations: "activations",
	}
	f := &fake{
		files: fstest.MapFS{
			"proc/driver/nvidia/version": text("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build\nGCC version: gcc 12.2.0\n"),
			"proc/modules":               text("nvidia_uvm 1 0 - Live\nnvidia 2 1 nvidia_uvm, Live\n"),
			"proc/meminfo":               text("MemTotal:       16777216 kB\nMemFree: 1 kB\n"),
			"proc/1/comm":                text("systemd\n"),
			"dev/nvidiactl":              node(), "dev/nvidia0": node(), "dev/nvidia-uvm": node(),
			"etc/cdi/nvidia.yaml": text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ncontainerEdits:\n  mounts:\n" +
				"  - hostPath: /usr/lib/libcuda.so.580.95.05\ndevices:\n- name: GPU-0\n- name: \"0\"\n"),
			"var/lib/docker/containers/.any": text(""),
		},
		cards: []nvml.Card{{
			UUID: "GPU-0", Name: "H200", Memory: nvml.Memory{Total: 139 << 30, Free: 139 << 30}, Mode: nvml.ModeDefault,
			Persistence: nvml.On, MIG: nvml.Off, MIGPending: nvml.Off,
		}},
		docker: docker.Survey{
			Version: "28.3", API: "1.51", Storage: "overlay2", LogDriver: "json-file", CgroupDriver: "systemd",
			Root: "/var/lib/docker", Runtimes: []string{"nvidia", "runc"}, DefaultRuntime: "runc", CDIDirs: []string{"/etc/cdi"},
			MemoryBytes: 16 << 30, CPUs: 8,
		},
		containerd: containerd.Survey{Socket: "/run/containerd/containerd.sock", Version: "v2.1.4", Snapshotters: []string{"native", "overlayfs"}, Namespaces: []string{"k8s.io"}},
		images:     map[string]docker.Image{pythonImage: {Entrypoint: []string{"python3", "/proxy/proxy.py"}}},
		logs:       docker.LogSettings{Driver: "json-file", Options: map[string]string{"max-size": "10m", "max-file": "3"}},
		kafka: kafka.ClusterInfo{Asked: "kafka:9092", Brokers: []string{"kafka:9092"},
			Topics: map[string]int{"health": 1, "completed0": 1, "invoker0": 1}},
		couch: couchdb.Survey{Server: "CouchDB 3.3.3", Whisks: couchdb.Database{Name: "whisks"},
			Subjects: couchdb.Database{Name: "subjects"}, Activations: couchdb.Database{Name: "activations", Documents: 7}},
		space:  Space{Free: 100 << 30, Total: 200 << 30},
		tried:  Tried{Seen: 4 << 20, Out: 4 << 20, Back: 4 << 20},
		output: map[string]string{"nvidia-ctk": "NVIDIA Container Toolkit CLI version 1.17.8\ncommit: abc\n", "true": ""},
	}
	f.Machine = f.machine(c)
	f.Config.Admin.Password = "of-this-cluster"
	return f
}

func (f *fake) machine(c *config.Config) *Machine {
	return &Machine{
		Config: c, Arch: "amd64", Now: now, Files: f.files, Shim: []string{"/lib/libgpuwhisk.so"},
		Command: func(_ context.Context, _ []string, name string, _ ...string) (string, error) {
			s, ok := f.output[name]
			if !ok {
				return "", errors.New("executable file not found")
			}
			return s, nil
		},
		GPU: func(context.Context) (GPU, error) {
			return GPU{Versions: nvml.Versions{Driver: "580.95.05", CUDA: "13.0"}, Cards: f.cards}, nil
		},
		Hooks:      func(context.Context, string, string) (Tried, error) { return f.tried, f.triedErr },
		Docker:     func(context.Context) (docker.Survey, error) { return f.docker, nil },
		Containerd: func(context.Context) (containerd.Survey, error) { return f.containerd, f.containerdErr },
		Image: func(_ context.Context, ref string) (docker.Image, bool, error) {
			i, ok := f.images[ref]
			return i, ok, nil
		},
		DefaultLogs: func(context.Context, string) (docker.LogSettings, error) { return f.logs, nil },
		Network: func(context.Context) (docker.Isolation, error) {
			return docker.Isolation{Network: docker.Network{Name: docker.OwnNetwork}, Found: true, From: "wsk00_1_a_b", To: "wsk00_2_c_d"}, nil
		},
		Probe:     func(context.Context, string) (string, error) { return "answers /init after 20ms", nil },
		Broker:    func(context.Context, string) (kafka.ClusterInfo, error) { return f.kafka, nil },
		Reach:     func(context.Context, string) error { return nil },
		Couch:     func(context.Context) (couchdb.Survey, error) { return f.couch, nil },
		ZooKeeper: func(context.Context) (map[string]int, error) { return f.zoo, nil },
		Listen:    func(context.Context, int) error { return nil },
		Ping:      func(context.Context, config.Admin) (int, string, error) { return 0, "", errors.New("refused") },
		Disk:      func(context.Context, string) (Space, error) { return f.space, nil },
		Writable:  func(_ context.Context, path string) (string, error) { return path, nil },

		ProbeLimit: time.Minute,
	}
}

// bare returns a host without software and without configuration.
func bare() *fake {
	f := healthy()
	f.files = fstest.MapFS{}
	f.Machine = f.machine(config.Default())
	f.GPU = func(context.Context) (GPU, error) { return GPU{}, nvml.ErrNoDriver }
	f.output = map[string]string{}
	return f
}

// of returns the results of one check.
func (r Report) of(group, name string) Report {
	var some Report
	for _, x := range r {
		if x.Group == group && x.Check == name {
			some = append(some, x)
		}
	}
	return some
}

// only returns the single result of a check.
func (r Report) only(t *testing.T, group, name string) Result {
	t.Helper()
	some := r.of(group, name)
	check.Equal(check.Must(t), len(some), 1, "%s/%s in %+v", group, name, r)
	return some[0]
}

// trial is a change to a host and the expected finding of a check.
type trial struct {
	name   string
	change func(*fake)
	check  string // group/name
	status Status
	found  string
	fix    string
}

func runTrials(t *testing.T, trials []trial) {
	t.Helper()
	for _, tt := range trials {
		t.Run(tt.check+" "+tt.name, func(t *testing.T) {
			f := healthy()
			if tt.change != nil {
				tt.change(f)
			}
			group, name, _ := strings.Cut(tt.check, "/")
			some := Examine(t.Context(), f.Machine, time.Minute).of(group, name)
			for _, x := range some {
				if x.Status == tt.status && strings.Contains(x.Found, tt.found) && strings.Contains(x.Fix, tt.fix) {
					if (x.Fix == "") != (x.Status == OK) {
						t.Errorf("status %v with the fix %q", x.Status, x.Fix)
					}
					return
				}
			}
			t.Errorf("no %v with %q and the fix %q in %+v", tt.status, tt.found, tt.fix, some)
		})
	}
}
