package standalone

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

// The runtimes of actions.
const (
	runtimeAuto    = "auto"
	runtimeDocker  = "docker"
	runtimeProcess = "process"
)

// The images of python:3-gpu: the image with the CUDA libraries, and the plain Python
// image if the former is not built.
const (
	gpuImage   = "action-python3-gpu"
	plainImage = "action-python3"
)

// defaultManifest returns the manifest of the kinds that our own proxies serve, with the
// images that this project builds. python3GPU is the image of python:3-gpu.
func defaultManifest(python3GPU string) []byte {
	kind := func(kind, image string, standard bool) string {
		return fmt.Sprintf(`{"kind":%q,"default":%t,"image":{"prefix":"gpuwhisk","name":%q,"tag":"latest"},`+
			`"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}}`, kind, standard, image)
	}
	return fmt.Appendf(nil, `{"runtimes":{"nodejs":[%s],"python":[%s,%s,%s],"native":[%s]},"blackboxes":[{"prefix":"gpuwhisk","name":"action-native"}]}`,
		kind("nodejs:20", "action-nodejs", true), kind("python:3", plainImage, true), kind("python:3.11", plainImage, false),
		kind("python:3-gpu", python3GPU, false), kind("native:1", "action-native", true))
}

// chooseManifest selects the runtimes manifest and the runtime.
func (s *Standalone) chooseManifest(ctx context.Context) (text string, m *activation.Manifest, err error) {
	given := s.opts.Manifest
	if given == nil {
		given = defaultManifest(plainImage)
	}
	if m, err = activation.ParseManifest(given, activation.ManifestOptions{}); err != nil {
		return "", nil, fmt.Errorf("--runtimes: %w", err)
	}
	if s.info.Runtime, s.info.Why, err = chooseRuntime(ctx, s.opts.Runtime, s.opts.Docker, m); err != nil {
		return "", nil, err
	}
	if s.opts.Manifest == nil && s.info.Runtime == runtimeDocker && hasImage(ctx, s.opts.Docker, gpuImage) {
		s.info.Why += "; python:3-gpu with CuPy and the CUDA libraries"
		given = defaultManifest(gpuImage)
		m, err = activation.ParseManifest(given, activation.ManifestOptions{})
	}
	return string(given), m, err
}

// healthTest returns the kind and code of the action with which invokers are tested:
// Node.js as in OpenWhisk, or else a kind that can run here.
func healthTest(runtime string, m *activation.Manifest) (kind, code string, err error) {
	const node, python = "function main(params) { return params; }", "def main(params):\n    return params\n"
	if r, ok := m.Runtime("nodejs:default"); ok && (runtime == runtimeDocker || onPath("node", "nodejs")) {
		return r.Kind, node, nil
	}
	if r, ok := m.Runtime("python:default"); ok && (runtime == runtimeDocker || onPath("python3")) {
		return r.Kind, python, nil
	}
	return "", "", errors.New("neither Node.js nor Python 3 can run actions here: install one, or give a runtimes manifest with one of them and Docker")
}

func onPath(names ...string) bool {
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			return true
		}
	}
	return false
}

// chooseRuntime selects Docker or plain processes. "auto" selects Docker if it answers
// and has the images. why is the reason, for the banner. If Docker is requested, it
// returns an error for problems that would make the first call fail: Docker does not
// answer, or it lacks our images, which no registry has.
func chooseRuntime(ctx context.Context, wanted, host string, m *activation.Manifest) (runtime, why string, err error) {
	const unguarded, without = "; no isolation, for development only", "(--runtime process does without)"
	switch wanted {
	case runtimeProcess:
		return runtimeProcess, "as asked" + unguarded, nil
	case "", runtimeAuto, runtimeDocker:
	default:
		return "", "", fmt.Errorf("--runtime %s: want docker, process or auto", wanted)
	}
	lacking, err := lackingImages(ctx, host, defaultImages(m)...)
	ours := slices.IndexFunc(lacking, func(image string) bool { return strings.HasPrefix(image, ownImages) })
	switch asked := wanted == runtimeDocker; {
	case asked && err != nil:
		return "", "", fmt.Errorf("--runtime docker: Docker does not answer %s: %w", without, err)
	case asked && ours >= 0:
		return "", "", fmt.Errorf("--runtime docker: Docker has no image %s; make images builds it %s", lacking[ours], without)
	case asked:
		return runtimeDocker, "as asked", nil
	case err != nil:
		return runtimeProcess, "Docker does not answer" + unguarded, nil
	case len(lacking) > 0:
		return runtimeProcess, "Docker lacks " + strings.Join(lacking, ", ") + unguarded, nil
	}
	return runtimeDocker, "Docker answers and has the images", nil
}

// ownImages is the prefix of images that this project builds.
const ownImages = "gpuwhisk/"

// hasImage reports whether the Docker Engine has one of our images.
func hasImage(ctx context.Context, host, name string) bool {
	lacking, err := lackingImages(ctx, host, ownImages+name+":latest")
	return err == nil && len(lacking) == 0
}

// defaultImages returns the images of the default kinds.
func defaultImages(m *activation.Manifest) []string {
	var all []string
	for _, r := range m.Runtimes() {
		if r.Default {
			all = append(all, m.ManagedReference(r.Image))
		}
	}
	return all
}

// lackingImages returns the images that the Docker Engine does not have. If host is
// empty, it uses the default socket.
func lackingImages(ctx context.Context, host string, images ...string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	d, err := docker.Connect(docker.Options{Host: host})
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	var lacking []string
	for _, image := range images {
		_, there, err := d.Image(ctx, image)
		if err != nil {
			return nil, err
		}
		if !there {
			lacking = append(lacking, image)
		}
	}
	return lacking, nil
}
