package containerd

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// inits are the usual places of static init programs: tini's and catatonit's.
var inits = []string{
	"/usr/bin/docker-init", "/usr/libexec/docker/docker-init", "/usr/bin/tini-static", "/sbin/tini-static",
	"/usr/bin/catatonit", "/usr/libexec/catatonit/catatonit", "/usr/libexec/podman/catatonit",
}

// initTarget is the path of the init program in a container.
const initTarget = "/sbin/docker-init"

// findInit returns a copy of the program that is the first process of containers, as by
// docker run --init: it reaps the orphans that an action leaves behind. Without an init
// they stay as zombies, and fill the pids limit. The result is "" if there is no program.
func (e *Engine) findInit() (string, error) {
	wanted := e.options.Init
	if wanted == "none" {
		return "", nil
	}
	at := slices.IndexFunc(inits, func(path string) bool {
		_, err := fs.Stat(e.options.Files, strings.TrimPrefix(path, "/"))
		return err == nil
	})
	switch {
	case wanted == "" && at < 0:
		e.log.Warn("containers have no init: orphans that an action leaves behind count against its pids limit",
			"fix", "install tini or catatonit, or name a static init in whisk.gpu.containerd.init")
		return "", nil
	case wanted == "":
		wanted = inits[at]
	}
	if err := checkStatic(wanted); err != nil {
		return "", fmt.Errorf("init program of containers (whisk.gpu.containerd.init): %w", err)
	}
	return install(wanted, e.options.StateDir, "init", "whisk.gpu.containerd.init")
}

// checkStatic returns an error for a program that needs the libraries of an image.
func checkStatic(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return fmt.Errorf("%s is not linked statically, so images may lack its libraries", path)
	}
	return nil
}

// withInit starts a container's program by the init program. By default the images of the
// manifest have an init, and images of users do not: one of these may have an init of its
// own, which refuses to be another process than the first. The extra argument init decides
// for all containers.
func (e *Engine) withInit(spec container.Spec) oci.SpecOpts {
	return edit(func(s *oci.Spec) error {
		wanted := !spec.Pull
		if own := e.args.Host.Init; own != nil {
			wanted = *own
		}
		if !wanted || e.init == "" {
			return nil
		}
		s.Process.Args = append([]string{initTarget, "--"}, s.Process.Args...)
		s.Mounts = append(s.Mounts, bind(e.init, initTarget, "ro"))
		return nil
	})
}

// defaultProfile is the name of the AppArmor profile of action containers.
const defaultProfile = "gpuwhisk-default"

// confine loads the AppArmor profile of containers, where the host has AppArmor. The
// result is "" if containers have no profile.
func (e *Engine) confine(load func(name string) error) (profile string, err error) {
	enabled, _ := fs.ReadFile(e.options.Files, "sys/module/apparmor/parameters/enabled")
	if !strings.HasPrefix(string(enabled), "Y") {
		return "", nil
	}
	for _, option := range e.args.Host.SecurityOpt {
		if name, given := strings.CutPrefix(option, "apparmor="); given {
			return name, nil
		}
	}
	if err := load(defaultProfile); err != nil {
		return "", fmt.Errorf("load the AppArmor profile of containers (needs apparmor_parser; the extra argument security-opt=apparmor=unconfined does without): %w", err)
	}
	return defaultProfile, nil
}

// install copies a program into the state directory, which containerd's host has under the
// same path also when the invoker runs in a container. It returns the path of the copy. A
// copy is used again if its content is the program's.
func install(program, stateDir, name, key string) (string, error) {
	if !filepath.IsAbs(stateDir) {
		return "", fmt.Errorf("the state directory must be an absolute path, not %q (whisk.gpu.containerd.state-dir)", stateDir)
	}
	wanted, err := os.ReadFile(program)
	if err != nil {
		return "", fmt.Errorf("read a program (%s): %w", key, err)
	}
	path := filepath.Join(stateDir, "bin", name)
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, wanted) {
		return path, nil
	}
	if err := writeProgram(path, wanted); err != nil {
		return "", fmt.Errorf("copy a program for containers (whisk.gpu.containerd.state-dir): %w", err)
	}
	return path, nil
}

// writeProgram replaces a program by a rename, because containers may run the old one.
func writeProgram(to string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	part, err := os.CreateTemp(filepath.Dir(to), "part-")
	if err != nil {
		return err
	}
	defer os.Remove(part.Name()) // fails if all went well
	_, err = part.Write(content)
	if err = errors.Join(err, part.Chmod(0o755), part.Close()); err != nil {
		return err
	}
	return os.Rename(part.Name(), to)
}
