package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/logs"
)

// daemonFile is the usual place of dockerd's settings.
const daemonFile = "/etc/docker/daemon.json"

// checkLogs: the invoker requests the log driver json-file and reads its files. Reading
// the same lines through the API costs several times as much CPU.
func checkLogs(s *snapshot) []Finding {
	defaults, known := s.logDefaults()
	arguments := s.logArguments()
	switch {
	case s.Config.Logs.OutOfBand && arguments != "":
		return ok("left to Docker's driver, %s; records have no logs", arguments)
	case s.Config.Logs.OutOfBand && known && unbounded(defaults):
		return warn(`set "log-opts": {"max-size": "10m"} in `+daemonFile+", or choose another log driver",
			"left to %s; records have no logs", describeLogs(defaults, known))
	case s.Config.Logs.OutOfBand:
		return ok("left to %s; records have no logs", describeLogs(defaults, known))
	}
	bound := cmp.Or(arguments, fmt.Sprintf("%d files of %d MB a container", logs.Files, s.Config.MaxLogBytes()>>20))
	dirs := append(slices.Clone(s.Config.Docker.LogDirs), path.Join(s.docker.Root, "containers"))
	for _, dir := range dirs {
		if _, err := fs.ReadDir(s.Files, inRoot(dir)); err == nil {
			return ok("json-file, read at %s, %s; for other containers %s", dir, bound, describeLogs(defaults, known))
		}
	}
	return warn("run as root, or mount Docker's containers directory and name it in CONFIG_whisk_gpu_docker_logDirs",
		"container logs cannot be read as files (%s), so they are read through Docker's API, which is slower; %s; for other containers %s",
		strings.Join(dirs, ", "), bound, describeLogs(defaults, known))
}

// logArguments returns the log settings among the extra arguments, "" if there are none.
func (s *snapshot) logArguments() string {
	var given []string
	for _, arg := range []string{"log-driver", "log-opt"} {
		for _, value := range s.Config.Containers.ExtraArgs[arg] {
			given = append(given, arg+" "+value)
		}
	}
	if len(given) == 0 {
		return ""
	}
	return "with " + strings.Join(given, ", ") + " of the extra arguments"
}

// logDefaults returns the log settings that Docker gives to a container that requests
// none. Docker shows them on a container, which takes an image of the manifest. Without
// such an image they are read from dockerd's file, if the file is on this host and names
// the driver in use. known is false if only the driver is known.
func (s *snapshot) logDefaults() (settings docker.LogSettings, known bool) {
	for _, ref := range s.manifestImages() {
		if _, there, err := s.Image(s.ctx, ref); err != nil || !there {
			continue
		}
		if settings, err := s.DefaultLogs(s.ctx, ref); err == nil {
			return settings, true
		}
	}
	var file struct {
		Driver  string            `json:"log-driver"`
		Options map[string]string `json:"log-opts"`
	}
	err := json.Unmarshal([]byte(s.read(daemonFile)), &file)
	if driver := cmp.Or(file.Driver, jsonFile); err == nil && driver == s.docker.LogDriver {
		return docker.LogSettings{Driver: driver, Options: file.Options}, true
	}
	return docker.LogSettings{Driver: s.docker.LogDriver}, false
}

// jsonFile is Docker's log driver unless dockerd is given another one.
const jsonFile = "json-file"

// unbounded reports whether a container with the settings can fill the disk. Other
// drivers than json-file have a limit of their own or store logs elsewhere.
func unbounded(l docker.LogSettings) bool { return l.Driver == jsonFile && l.Options["max-size"] == "" }

// describeLogs names the driver and the limits, not the other options, which may hold
// secrets.
func describeLogs(l docker.LogSettings, known bool) string {
	text := "Docker's default, " + l.Driver
	if !known {
		return text + ", whose limits Docker shows only with an image of the manifest"
	}
	for _, name := range slices.Sorted(maps.Keys(l.Options)) {
		if value := l.Options[name]; name == "max-size" || name == "max-file" {
			text += fmt.Sprintf(", %s %s", name, value)
		}
	}
	if unbounded(l) {
		text += " without max-size: these logs grow without bound"
	}
	return text
}
