package doctor

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

func checkEngine(s *snapshot) []Finding {
	if s.usesContainerd() {
		return checkContainerd(s)
	}
	if !s.usesDocker() {
		return warn("unset CONFIG_whisk_gpu_runtime except for development", "actions run as plain processes, without any isolation")
	}
	if s.dockerErr != nil {
		return fail("start Docker, and give this user access to its socket (group docker); set DOCKER_HOST if Docker has another address", "%v", s.dockerErr)
	}
	d := s.docker
	text := fmt.Sprintf("Docker %s, API %s, %d CPUs, %s", d.Version, d.API, d.CPUs, amount(d.MemoryBytes))
	if api, known := findVersion(d.API); known && api.before(version{1, 40}) {
		return fail("use Docker 19.03 or later", "%s: the API is too old", text)
	}
	return ok("%s", text)
}

func checkStorage(s *snapshot) []Finding {
	d := s.docker
	if slices.Contains([]string{"vfs", "devicemapper", "aufs"}, d.Storage) {
		return warn("use overlay2 (\"storage-driver\" in /etc/docker/daemon.json)",
			"%s at %s: every cold start copies whole images", d.Storage, d.Root)
	}
	return ok("%s at %s", d.Storage, d.Root)
}

func checkManifest(s *snapshot) []Finding {
	switch err := s.manifestErr; {
	case s.Config.Runtimes.Manifest == "":
		return skip("set RUNTIMES_MANIFEST to the deployment's runtimes manifest", "not configured")
	case err != nil:
		return fail("fix RUNTIMES_MANIFEST; it must be the same as on the controllers", "%v", err)
	}
	kinds := 0
	var gpu []string
	for _, r := range s.manifest.Runtimes() {
		kinds++
		if strings.Contains(r.Kind, "gpu") {
			gpu = append(gpu, r.Kind)
		}
	}
	switch {
	case kinds == 0:
		return fail("set RUNTIMES_MANIFEST to the same value as on the controllers",
			"RUNTIMES_MANIFEST has no runtime: actions fail unless they have an image of their own, and so does the controllers' test action")
	case len(gpu) > 0:
		return ok("%d kinds, for GPUs %s", kinds, strings.Join(gpu, ", "))
	case s.hasDriver():
		return warn("add a kind such as python:3-gpu whose image has Python and the CUDA libraries",
			"%d kinds, no kind is for GPUs: only actions with their own image can use CUDA", kinds)
	}
	return ok("%d kinds", kinds)
}

// checkImages examines the images of the manifest.
func checkImages(s *snapshot) []Finding {
	if s.manifestErr != nil {
		return nil
	}
	return merged(ofEach(s.manifestImages(), s.judgeImage), ", ", "present and made for actions: ", "")
}

// manifestImages returns the references of the manifest's images, sorted, each once.
func (s *snapshot) manifestImages() []string {
	if s.manifestErr != nil {
		return nil
	}
	var references []string
	for _, r := range s.manifest.Runtimes() {
		references = append(references, s.manifest.ManagedReference(r.Image))
	}
	slices.Sort(references)
	return slices.Compact(references)
}

func (s *snapshot) judgeImage(ref string) []Finding {
	image, there, err := s.Image(s.ctx, ref)
	switch {
	case err != nil:
		return warn("docker image inspect "+ref, "%v", err)
	case !there:
		return warn("docker pull "+ref, "%s is not on this host: the first action of its kind waits for the pull, or fails if no registry has the image", ref)
	}
	switch certain, why := lacksProxy(image); {
	case certain:
		return fail("build on an image that has an action proxy, or add one (docker build --build-arg BASE="+ref+" docker/runtimes/python3)",
			"%s has no /init and /run: %s", ref, why)
	case why != "":
		return warn("gpuwhisk doctor --probe "+ref, "%s may have no /init and /run: %s", ref, why)
	}
	return ok("%s", ref)
}

// lacksProxy guesses from an image's start command whether the image lacks an action
// proxy, which serves /init and /run. why is empty if it has a proxy. The stock CUDA
// images start a shell, and without a terminal a shell ends at once. Actions then fail
// with a timeout or a refused connection that does not name the reason.
func lacksProxy(i docker.Image) (certain bool, why string) {
	argv := slices.Concat(i.Entrypoint, i.Cmd)
	line := strings.Join(argv, " ")
	proxies := []string{"/proxy/", "/bin/proxy", "actionProxy", "actionproxy", "app.js", "actionloop", "bin/exec", "proxy.jar", "javaAction", "prelauncher"}
	variables := []string{"OW_EXECUTION_ENV", "OW_COMPILER", "FLASK_PROXY_PORT"}
	starts := `it starts "` + line + `"`
	switch {
	case slices.ContainsFunc(proxies, func(sign string) bool { return strings.Contains(line, sign) }),
		slices.ContainsFunc(i.Env, func(kv string) bool { name, _, _ := strings.Cut(kv, "="); return slices.Contains(variables, name) }):
		return false, ""
	case stock(i) && shellOrInterpreter(i.Cmd):
		return true, "it is a stock CUDA image that" + strings.TrimPrefix(starts, "it")
	case len(argv) == 0:
		return true, "it starts nothing"
	case shellOrInterpreter(argv):
		return true, starts + ", which listens on no port"
	}
	return false, starts + ", which is not known to be an action proxy"
}

// stock recognises NVIDIA's own images by their label or entry point.
func stock(i docker.Image) bool {
	return strings.Contains(i.Labels["maintainer"], "NVIDIA") || strings.Contains(strings.Join(i.Entrypoint, " "), "nvidia_entrypoint")
}

// shellOrInterpreter reports whether a command is a program that waits for input, which
// a container does not have.
func shellOrInterpreter(argv []string) bool {
	return len(argv) == 0 || len(argv) == 1 && slices.Contains(
		[]string{"sh", "bash", "dash", "ash", "zsh", "python", "python3", "node", "irb", "jshell", "php"}, path.Base(argv[0]))
}

func checkProbes(s *snapshot) []Finding {
	return ofEach(s.ProbeImages, func(ref string) []Finding {
		text, err := s.Probe(s.ctx, ref)
		if err != nil {
			return fail("run it by hand (docker run --rm "+ref+") to see its output; an action image listens on port 8080 and answers /init and /run",
				"%s does not speak the protocol of actions: %v", ref, err)
		}
		return ok("%s: %s", ref, text)
	})
}
