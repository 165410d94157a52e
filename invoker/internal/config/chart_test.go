package config

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// daemonSet is the part of the chart's object that the tests look at.
type daemonSet struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct {
				ServiceAccountName            string            `yaml:"serviceAccountName"`
				TerminationGracePeriodSeconds int64             `yaml:"terminationGracePeriodSeconds"`
				RuntimeClassName              string            `yaml:"runtimeClassName"`
				NodeSelector                  map[string]string `yaml:"nodeSelector"`
				Containers                    []chartContainer
				Volumes                       []struct {
					Name     string
					HostPath struct{ Path, Type string } `yaml:"hostPath"`
				}
			}
		}
	}
}

type chartContainer struct {
	Image         string
	Command, Args []string
	Env           []chartVariable
	Ports         []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	Resources      struct{ Requests, Limits map[string]string }
	ReadinessProbe struct {
		HTTPGet          struct{ Path, Port, Scheme string } `yaml:"httpGet"`
		InitialDelay     int                                 `yaml:"initialDelaySeconds"`
		Period           int                                 `yaml:"periodSeconds"`
		Timeout          int                                 `yaml:"timeoutSeconds"`
		FailureThreshold int                                 `yaml:"failureThreshold"`
	} `yaml:"readinessProbe"`
	LivenessProbe   map[string]any `yaml:"livenessProbe"`
	SecurityContext map[string]any `yaml:"securityContext"`
	VolumeMounts    []struct {
		Name             string
		MountPath        string `yaml:"mountPath"`
		MountPropagation string `yaml:"mountPropagation"`
	} `yaml:"volumeMounts"`
}

type chartVariable struct {
	Name, Value string
	ValueFrom   map[string]any `yaml:"valueFrom"`
}

// kubernetesDir returns the folder of the chart.
func kubernetesDir(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	check.NoError(t, err)
	for !exists(filepath.Join(dir, "go.mod")) {
		dir = filepath.Dir(dir)
	}
	return filepath.Join(dir, "docker", "kubernetes")
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// helmTemplate runs helm template with files of docker/kubernetes/values and --set options.
func helmTemplate(t *testing.T, files []string, set ...string) (output string, err error) {
	t.Helper()
	helm, dir := peertest.Variable(t, "GPUWHISK_TEST_HELM", "helm.sh"), kubernetesDir(t)
	args := []string{"template", "gpu", filepath.Join(dir, "chart"), "--namespace", "nuvolaris"}
	for _, file := range files {
		args = append(args, "--values", filepath.Join(dir, "values", file+".yaml"))
	}
	for _, one := range set {
		args = append(args, "--set", one)
	}
	out, err := exec.Command(helm, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("helm template: %w: %s", err, out)
	}
	return string(out), nil
}

// chart returns the chart's DaemonSet, which is all that the chart makes.
func chart(t *testing.T, files []string, set ...string) daemonSet {
	t.Helper()
	text, err := helmTemplate(t, files, set...)
	check.NoError(t, err)
	var d daemonSet
	decoder := yaml.NewDecoder(strings.NewReader(text))
	check.NoError(t, decoder.Decode(&d))
	check.Equal(t, d.Kind, "DaemonSet")
	check.That(t, decoder.Decode(new(any)) != nil, "the chart makes further objects")
	check.Equal(t, len(d.Spec.Template.Spec.Containers), 1, "containers")
	return d
}

// configured loads the configuration that the rendered container would get. References to
// Secrets and ConfigMaps get values of the test.
func configured(t *testing.T, c chartContainer) *Config {
	t.Helper()
	var environ []string
	for _, v := range c.Env {
		switch {
		case v.Name == "RUNTIMES_MANIFEST":
			v.Value = `{"runtimes":{},"blackboxes":[]}`
		case v.ValueFrom != nil:
			v.Value = "of-a-test-" + v.Name
		}
		environ = append(environ, v.Name+"="+v.Value)
	}
	config, err := Load(Input{Environ: environ, Args: []string{c.Args[0], "node-7"}})
	check.NoError(t, err)
	return config
}

// TestChartTakesThePagesOptions: helm accepts the options that docs/kubernetes.md gives for
// all deployments, and the pod has them.
func TestChartTakesThePagesOptions(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(kubernetesDir(t), "..", "..", "docs", "kubernetes.md"))
	check.NoError(t, err)
	var set []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "--set ") {
			set = append(set, slices.DeleteFunc(strings.Fields(line), func(word string) bool { return word == "--set" })...)
		}
	}
	check.Equal(check.Must(t), len(set), 5, "%q", set)
	for _, file := range []string{"openserverless", "openwhisk"} {
		pod := chart(t, []string{file}, set...).Spec.Template.Spec
		check.Equal(t, pod.Containers[0].Image, "registry.example.org/gpuwhisk/invoker:v1")
		check.Equal(t, pod.Containers[0].Resources.Requests["memory"], "66048Mi")
		check.Equal(t, pod.Containers[0].Resources.Limits["nvidia.com/gpu"], "8")
		check.Equal(t, pod.RuntimeClassName, "nvidia")
	}
}

// TestChartStartsTheInvoker: the variables that the chart sets are a complete
// configuration for containerd, and the pod's grace period is longer than the drain.
func TestChartStartsTheInvoker(t *testing.T) {
	for _, files := range [][]string{{"openserverless"}, {"openwhisk"}, {"openserverless", "k3s"}} {
		t.Run(strings.Join(files, ","), func(t *testing.T) {
			d := chart(t, files, "drain.deadlineSeconds=100", "userMemoryMiB=4096")
			pod := d.Spec.Template.Spec
			container := pod.Containers[0]
			check.DeepEqual(t, container.Command, []string{"/init.sh"})
			check.DeepEqual(t, container.Args, []string{"--uniqueName", "$(NODE_NAME)"})
			c := configured(t, container)
			for _, s := range c.Ignored() {
				t.Errorf("%s has no effect: %s", s.Name, s.Ignored)
			}
			check.Equal(t, c.Containers.Engine, "containerd")
			wantSettings(t, c, map[string]string{"whisk.gpu.drain-deadline": "100 seconds", "whisk.container-pool.user-memory": "4 GiB"})
			grace := time.Duration(pod.TerminationGracePeriodSeconds) * time.Second
			check.That(t, grace > c.Drain.Deadline+c.Drain.Flush+10*time.Second, "grace period %v", grace)
			check.Equal(t, container.Resources.Requests["memory"], "4608Mi")
			// A dependency that is away is no reason for a restart.
			check.That(t, container.LivenessProbe["tcpSocket"] != nil && container.LivenessProbe["httpGet"] == nil, "liveness %v", container.LivenessProbe)
		})
	}
}

// TestChartAsksPing: the readiness probe asks /ping on the port and by the protocol that the
// invoker serves. A pod whose /ping fails is not ready after at most 15 seconds.
func TestChartAsksPing(t *testing.T) {
	for _, set := range [][]string{nil, {"port=8081"}, {"probeScheme=HTTPS", "env.CONFIG_whisk_invoker_protocol=https", "env.CONFIG_whisk_invoker_https_keystorePath=/conf/store.p12"}} {
		container := chart(t, []string{"openserverless"}, set...).Spec.Template.Spec.Containers[0]
		c, probe := configured(t, container), container.ReadinessProbe
		check.Equal(t, probe.HTTPGet.Path, "/ping")
		check.Equal(t, strings.ToLower(probe.HTTPGet.Scheme), c.Admin.Protocol)
		check.Equal(check.Must(t), len(container.Ports), 1)
		check.Equal(t, probe.HTTPGet.Port, container.Ports[0].Name)
		check.Equal(t, container.Ports[0].Port, c.Admin.Port)
		check.Equal(t, probe.InitialDelay, 0)
		check.AtLeast(t, probe.Timeout, 1)
		check.AtLeast(t, probe.FailureThreshold, 1)
		check.AtMost(t, probe.Period*probe.FailureThreshold+probe.Timeout, 15)
	}
}

// TestChartSharesPathsWithTheNode: containerd on the node finds each file of the invoker
// under the invoker's own path, and the chart follows k3s.
func TestChartSharesPathsWithTheNode(t *testing.T) {
	for _, tt := range []struct {
		files  []string
		socket string
		root   string
	}{
		{[]string{"openserverless"}, "/run/containerd/containerd.sock", "/var/lib/containerd"},
		{[]string{"openserverless", "k3s"}, "/run/k3s/containerd/containerd.sock", "/var/lib/rancher/k3s/agent/containerd"},
	} {
		d := chart(t, tt.files)
		c := configured(t, d.Spec.Template.Spec.Containers[0])
		check.Equal(t, c.Containerd.Socket, tt.socket)
		paths, modes := map[string]string{}, map[string]string{}
		for _, v := range d.Spec.Template.Spec.Volumes {
			paths[v.Name] = v.HostPath.Path
		}
		for _, m := range d.Spec.Template.Spec.Containers[0].VolumeMounts {
			if host := paths[m.Name]; host != "" {
				check.Equal(t, m.MountPath, host, "place of %s in the pod", m.Name)
				modes[host] = m.MountPropagation
			}
		}
		check.Equal(t, modes["/run/gpuwhisk"], "Bidirectional")
		check.Equal(t, modes[filepath.Dir(tt.socket)], "HostToContainer")
		check.Equal(t, modes[tt.root], "HostToContainer")
		for _, dir := range []string{c.State.Dir, c.Containerd.StateDir, c.Containerd.RunDir, c.Containerd.HostsDir, filepath.Dir(c.Containerd.Config), "/run/cdi", "/etc/cdi"} {
			covered := false
			for host := range modes {
				covered = covered || dir == host || strings.HasPrefix(dir, host+"/")
			}
			check.That(t, covered, "%s is not the node's", dir)
		}
	}
}

// TestChartIsSmall: the pod has no account, and asks for GPUs only if it is told to.
func TestChartIsSmall(t *testing.T) {
	d := chart(t, []string{"openserverless"})
	pod := d.Spec.Template.Spec
	check.Equal(t, pod.ServiceAccountName, "")
	text, err := helmTemplate(t, []string{"openserverless"})
	check.NoError(t, err)
	for _, line := range []string{"automountServiceAccountToken: false", "enableServiceLinks: false", "hostNetwork: true", "readOnlyRootFilesystem: true"} {
		check.That(t, strings.Contains(text, line), "the pod lacks %s", line)
	}
	check.Equal(t, pod.NodeSelector["nvidia.com/gpu.present"], "true")
	check.Equal(t, pod.Containers[0].Resources.Limits["nvidia.com/gpu"], "")
	visible := func(d daemonSet) bool {
		return slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(v chartVariable) bool { return v.Name == "NVIDIA_VISIBLE_DEVICES" })
	}
	check.That(t, visible(d), "without a request the invoker sees no GPU")
	d = chart(t, []string{"openserverless", "k3s"}, "gpus.count=8")
	check.Equal(t, d.Spec.Template.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"], "8")
	check.Equal(t, d.Spec.Template.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"], "8")
	check.Equal(t, d.Spec.Template.Spec.RuntimeClassName, "nvidia")
	check.That(t, !visible(d), "the device plugin's choice of GPUs is overridden")
}

// TestChartQuotesNames: a name that looks like a number stays a name. YAML would read it as
// a number, and y as a truth value.
func TestChartQuotesNames(t *testing.T) {
	var set []string
	for _, name := range []string{"image.pullSecrets[0]", "registrySecret", "couchdb.secret", "couchdb.usernameKey", "couchdb.passwordKey", "runtimes.configMap",
		"runtimes.key", "admin.secret", "admin.usernameKey", "admin.passwordKey", "priorityClassName", "runtimeClassName", "env.A", "kafka.hosts"} {
		set = append(set, name+"=1e3")
	}
	text, err := helmTemplate(t, []string{"openserverless"}, set...)
	check.NoError(t, err)
	var object any
	check.NoError(t, yaml.Unmarshal([]byte(text), &object))
	found := 0
	var visit func(path string, value any)
	visit = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for name, v := range value {
				visit(path+"."+name, v)
			}
		case []any:
			for _, v := range value {
				visit(path, v)
			}
		case float64:
			t.Errorf("%s is a number", path)
		case string:
			if value == "1e3" {
				found++
			}
		}
	}
	visit("", object)
	// The Secrets of CouchDB and of the login are named twice.
	check.Equal(t, found, len(set)+2, "names")
}

// TestChartRefusesMistakes: the schema names a value that is missing, misspelt or wrong.
func TestChartRefusesMistakes(t *testing.T) {
	_, err := helmTemplate(t, nil)
	for _, want := range []string{"kafka", "apiHost", "couchdb", "runtimes"} {
		check.ErrorContains(t, err, want)
	}
	for set, want := range map[string]string{
		"gpus.count=-1":                "gpus",
		"gpu.count=1":                  "gpu",
		"distribution=openshift":       "distribution",
		"containerd.socket=run/x.sock": "socket",
		"drain.deadlineSeconds=30s":    "deadlineSeconds",
		"couchdb.password=x":           "password",
		"userMemoryMiB=2048m":          "userMemoryMiB",
	} {
		_, err := helmTemplate(t, []string{"openserverless"}, set)
		check.ErrorContains(t, err, want, "%s", set)
	}
}

// TestChartSchemaIsComplete: every value of values.yaml is in the schema, so that the
// schema refuses no value that the chart reads.
func TestChartSchemaIsComplete(t *testing.T) {
	dir := filepath.Join(kubernetesDir(t), "chart")
	var values map[string]any
	text, err := os.ReadFile(filepath.Join(dir, "values.yaml"))
	check.NoError(t, err)
	check.NoError(t, yaml.Unmarshal(text, &values))
	var schema struct{ Properties map[string]any }
	text, err = os.ReadFile(filepath.Join(dir, "values.schema.json"))
	check.NoError(t, err)
	check.NoError(t, json.Unmarshal(text, &schema))
	for name := range values {
		check.That(t, schema.Properties[name] != nil, "%s is not in the schema", name)
	}
	for name := range schema.Properties {
		_, known := values[name]
		check.That(t, known || name == "global", "values.yaml does not explain %s", name)
	}
}
