package enginetest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
)

// Run runs the suite.
func Run(t *testing.T, h Host) {
	for name, test := range map[string]func(*testing.T, Host){
		"Life": life, "RemovePaused": removePaused, "Resize": resize, "OOM": outOfMemory, "Exit": exit,
		"Hardening": hardening, "ForkBomb": forkBomb, "Vanished": vanished, "CreateFailures": createFailures,
		"Parallel": parallel, "CleanUpKeepsOthers": cleanUpKeepsOthers, "Logs": logsOfActivations, "LogIsBounded": logIsBounded,
		"Apart": apart, "Adoption": adoption, "GPUMounts": gpuMounts, "SharedMounts": sharedMounts,
		"MissingMount": missingMount, "ImageEnvironment": imageEnvironment, "EndedAtOnce": endedAtOnce, "Orphans": orphans,
	} {
		t.Run(name, func(t *testing.T) { test(t, h) })
	}
}

func life(t *testing.T, host Host) {
	e := host.start(t, nil)
	h := e.create()
	MustCall(t, h.Addr, nil)
	resp, err := http.Post("http://"+h.Addr+"/init", "application/json", strings.NewReader("{}"))
	check.NoError(t, err)
	resp.Body.Close()
	check.Equal(t, resp.StatusCode, http.StatusOK)
	check.Equal(t, MustCall(t, h.Addr, map[string]any{"env": "__OW_API_HOST"}).Env, "https://example")
	check.NoError(t, e.Ping(t.Context()))
	check.NoError(t, e.Pause(t.Context(), h.ID))
	check.NoError(t, e.Pause(t.Context(), h.ID), "pause again")
	check.NoError(t, e.Resume(t.Context(), h.ID))
	check.NoError(t, e.Resume(t.Context(), h.ID), "resume again")
	MustCall(t, h.Addr, nil)
	for range 2 {
		check.NoError(t, e.Remove(t.Context(), h.ID))
	}
	check.ErrorIs(t, e.Pause(t.Context(), h.ID), container.ErrGone)
	check.ErrorIs(t, e.Resume(t.Context(), h.ID), container.ErrGone)
	check.ErrorIs(t, e.Resize(t.Context(), h.ID, 512<<20), container.ErrGone)
}

func removePaused(t *testing.T, host Host) {
	e := host.start(t, nil)
	h := e.create()
	check.NoError(t, e.Pause(t.Context(), h.ID))
	check.NoError(t, e.Remove(t.Context(), h.ID))
	left, err := e.Leftovers(t.Context(), e.settings.Prefix)
	check.NoError(t, err)
	check.Equal(t, len(left), 0)
}

// resize gives a container more memory while it lives, also while it is frozen.
func resize(t *testing.T, host Host) {
	e := host.start(t, nil)
	h := e.create()
	MustCall(t, h.Addr, nil)
	check.NoError(t, e.Pause(t.Context(), h.ID))
	check.NoError(t, e.Resize(t.Context(), h.ID, 512<<20))
	check.NoError(t, e.Resume(t.Context(), h.ID))
	MustCall(t, h.Addr, map[string]any{"allocate": 300}) // more than before
}

func outOfMemory(t *testing.T, host Host) {
	e := host.start(t, nil)
	h := e.create()
	_, err := call(t, h.Addr, map[string]any{"allocate": 400})
	check.That(check.Must(t), err != nil, "400 MiB fit into 128")
	check.That(t, e.OOMKilled(t.Context(), h.ID), "the OOM kill was not noticed")
	check.Equal(t, e.awaitDeath(), h.ID)
}

func exit(t *testing.T, host Host) {
	e := host.start(t, nil)
	h := e.create()
	_, err := call(t, h.Addr, map[string]any{"stdout": []string{"last words\n"}, "exit": 3})
	check.That(check.Must(t), err != nil, "an answer from the dead")
	check.That(t, !e.OOMKilled(t.Context(), h.ID), "an exit was taken for an OOM kill")
	got := e.Logs(t.Context(), h.ID, container.LogRequest{LimitBytes: 1 << 20, Failed: true, Now: time.Now()})
	check.Equal(check.Must(t), len(got.Lines), 2, "%q", got.Lines)
	check.That(t, strings.HasSuffix(got.Lines[0], "stdout: last words"), "got %q", got.Lines)
	check.That(t, !got.Incomplete, "got %+v", got)
	check.Equal(t, e.awaitDeath(), h.ID)
	check.ErrorIs(t, e.Pause(t.Context(), h.ID), container.ErrGone, "pause of a stopped container")
}

// endedAtOnce: the last words of a program that ends before it listens can be read. Create
// returns the container, and beside it an error if the program had ended by then.
func endedAtOnce(t *testing.T, host Host) {
	e := host.start(t, nil)
	image := host.ImageWith(t, "ends", []string{"/proxy", "exit"})
	for range 3 { // how far the program came when it was inspected is chance
		spec := e.spec()
		spec.Image = image
		h, err := e.Create(t.Context(), spec)
		var failed *container.CreateError
		switch {
		case err == nil:
			check.Equal(t, e.awaitDeath(), h.ID)
		case errors.As(err, &failed):
			check.Equal(t, failed.Blame, container.BlameDeveloper)
			check.Equal(t, failed.Message, "The action did not initialize and exited unexpectedly.")
		default:
			t.Fatal(err)
		}
		check.That(check.Must(t), h.ID != "", "no container beside %v", err)
		got := e.Logs(t.Context(), h.ID, container.LogRequest{LimitBytes: 1 << 20, Failed: true, Now: time.Now()})
		check.That(check.Must(t), len(got.Lines) > 0, "the last words are missing")
		check.That(t, strings.HasSuffix(got.Lines[0], "stdout: no licence"), "got %q", got.Lines)
		check.NoError(t, e.Remove(t.Context(), h.ID))
	}
}

// hardening looks at the limits from inside a container.
func hardening(t *testing.T, host Host) {
	e := host.start(t, func(s *Settings) { s.CapDrop = []string{"ALL"} })
	h := e.create()
	status := MustCall(t, h.Addr, map[string]any{"read": "/proc/self/status"}).Output
	for _, line := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapBnd:\t0000000000000000", "CapEff:\t0000000000000000"} {
		check.Contains(t, status, line)
	}
	limits := MustCall(t, h.Addr, map[string]any{"read": "/proc/self/limits"}).Output
	check.Contains(t, strings.Join(strings.Fields(limits), " "), "Max open files 1024 1024")
	for _, file := range []string{"/proc/sys/kernel/hostname", "/sys/kernel/profiling"} {
		check.That(t, MustCall(t, h.Addr, map[string]any{"write": file}).Written != "done", "%s was written", file)
	}
}

func forkBomb(t *testing.T, host Host) {
	e := host.start(t, func(s *Settings) { s.PidsLimit = 64 })
	h := e.create()
	check.Less(t, MustCall(t, h.Addr, map[string]any{"fork": 200}).Started, 64, "processes in a container that may have 64")
	MustCall(t, e.create().Addr, nil) // others are not affected
}

// orphans: the orphans that an action leaves behind do not fill its container, unless the
// image is a user's. The limit on processes is the invoker's default.
func orphans(t *testing.T, host Host) {
	const limit, started = 1024, 1100
	e := host.start(t, func(s *Settings) { s.PidsLimit = limit })
	check.Equal(t, MustCall(t, e.create().Addr, map[string]any{"orphans": started}).Started, started)
	spec := e.spec()
	spec.Pull = true
	h, err := e.Create(t.Context(), spec)
	check.NoError(t, err)
	// A child counts as started even if there is no room for its own child.
	check.Less(t, MustCall(t, h.Addr, map[string]any{"orphans": started}).Started, started, "processes in a container that may have %d", limit)
}

func vanished(t *testing.T, host Host) {
	e := host.start(t, nil)
	h := e.create()
	host.Vanish(t, h.ID)
	check.Equal(t, e.awaitDeath(), h.ID)
	check.ErrorIs(t, e.Pause(t.Context(), h.ID), container.ErrGone)
	got := e.Logs(t.Context(), h.ID, container.LogRequest{LimitBytes: 1 << 20, WaitForSentinel: true})
	check.Equal(t, len(got.Lines), 1)
	check.That(t, got.Incomplete, "logs: got %+v", got)
	check.NoError(t, e.Remove(t.Context(), h.ID))
}

func createFailures(t *testing.T, host Host) {
	e := host.start(t, nil)
	noProgram := host.ImageWith(t, "nothing", []string{"/nothing"})
	const provision = "Failed to provision resources to run the action."
	absent := "gpuwhisk-test.invalid/none"
	for _, c := range []struct {
		name, image string
		pull        bool
		blame       container.Blame
		message     string
	}{
		{"no such program", noProgram, true, container.BlameDeveloper, "executable file not found in image " + noProgram},
		{"managed image is missing", absent + ":1", false, container.BlameWhisk, provision},
		{"pull fails", absent, true, container.BlameDeveloper, "Failed to pull container image '" + absent + "'."},
		{"pull and run fail", absent + ":1", true, container.BlameDeveloper, "Failed to pull container image '" + absent + ":1'."},
		{"bad reference", "UPPER CASE", false, container.BlameWhisk, provision},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := e.spec()
			spec.Image, spec.Pull = c.image, c.pull
			_, err := e.Create(t.Context(), spec)
			var failed *container.CreateError
			check.That(check.Must(t), errors.As(err, &failed), "got %v, want a CreateError", err)
			check.Equal(t, failed.Blame, c.blame)
			check.Equal(t, failed.Message, c.message)
		})
	}
	// A user's image whose tag does not move may be the host's own copy.
	spec := e.spec()
	spec.Pull = true
	h, err := e.Create(t.Context(), spec)
	check.NoError(t, err)
	MustCall(t, h.Addr, nil)
}

func parallel(t *testing.T, host Host) {
	e := host.start(t, nil)
	var wg sync.WaitGroup
	for range 8 {
		spec := e.spec()
		wg.Go(func() {
			h, err := e.Create(t.Context(), spec)
			if err != nil {
				t.Error(err)
				return
			}
			MustCall(t, h.Addr, nil)
		})
	}
	wg.Wait()
	check.NoError(t, e.CleanUp(t.Context(), e.settings.Prefix))
}

func cleanUpKeepsOthers(t *testing.T, host Host) {
	e := host.start(t, nil)
	spec, other := e.spec(), e.spec()
	spec.Name = e.settings.Prefix + "1_a"
	other.Name = e.settings.Prefix + "10_x" + spec.Name // holds the prefix in its middle
	for _, s := range []container.Spec{spec, other} {
		_, err := e.Create(t.Context(), s)
		check.NoError(t, err)
	}
	check.NoError(t, e.CleanUp(t.Context(), e.settings.Prefix+"1_"))
	left, err := e.Leftovers(t.Context(), e.settings.Prefix)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(left), 1)
	check.Equal(t, left[0].Name, other.Name)
}

func request() container.LogRequest {
	return container.LogRequest{WaitForSentinel: true, LimitBytes: 1 << 20, Now: time.Now(), Alone: true}
}

// logsOfActivations reads the lines of each activation of a container, and no others.
func logsOfActivations(t *testing.T, host Host) {
	e := host.start(t, nil)
	h := e.create()
	for _, c := range []struct {
		value map[string]any
		lines int
	}{
		{map[string]any{}, 0},
		{map[string]any{"stdout": []string{"a\n", "b\n"}, "stderr": []string{"c\n"}}, 3},
		{map[string]any{"stdout": []string{"a"}, "stderr": []string{"b"}}, 2},
		{map[string]any{"stdout": []string{"<é>\t\"\\\x01\u2028 \r\n"}}, 1},
		{map[string]any{"stdout": []string{strings.Repeat("x", 40000) + "\n"}}, 3},
	} {
		MustCall(t, h.Addr, c.value)
		got := e.Logs(t.Context(), h.ID, request())
		check.Equal(t, len(got.Lines), c.lines, "%v: %q", c.value, got.Lines)
		check.That(t, !got.Incomplete, "%v", c.value)
	}
}

// logIsBounded floods a log: it is cut, and the next activation has its own lines.
func logIsBounded(t *testing.T, host Host) {
	e := host.start(t, func(s *Settings) { s.MaxLogBytes = 2 << 20 })
	h := e.create()
	for range 2 {
		MustCall(t, h.Addr, map[string]any{"stdout": []string{strings.Repeat("y", 99) + "\n"}, "repeat": 40_000})
		check.That(t, e.Logs(t.Context(), h.ID, request()).Truncated, "a flood was not truncated")
		MustCall(t, h.Addr, map[string]any{"stdout": []string{"after the flood\n"}})
		got := e.Logs(t.Context(), h.ID, request())
		check.Equal(check.Must(t), len(got.Lines), 1)
		check.That(t, strings.HasSuffix(got.Lines[0], ": after the flood"), "%q", got.Lines)
	}
}

// apart: an action does not reach another container, but the invoker does.
func apart(t *testing.T, host Host) {
	if host.NotApart != "" {
		t.Skip("this machine's kernel lets containers reach each other: " + host.NotApart)
	}
	e := host.start(t, nil)
	a, b := e.create(), e.create()
	MustCall(t, b.Addr, nil)
	got := MustCall(t, a.Addr, map[string]any{"connect": b.Addr}).Connected
	check.That(t, got != "done" && got != "", "from one container to another: %q", got)
}

// adoption opens a second engine while the containers of the first one live, as after a
// kill -9.
func adoption(t *testing.T, host Host) {
	e := host.start(t, nil)
	spec, changed := e.spec(), e.spec()
	h, err := e.Create(t.Context(), spec)
	check.NoError(t, err)
	frozen, err := e.Create(t.Context(), changed)
	check.NoError(t, err)
	MustCall(t, h.Addr, map[string]any{"stdout": []string{"before\n"}})
	check.NoError(t, e.Pause(t.Context(), frozen.ID))

	next := host.Open(t, e.settings)
	defer func() { check.NoError(t, next.Close()) }()
	left, err := next.Leftovers(t.Context(), e.settings.Prefix)
	check.NoError(t, err)
	check.Equal(check.Must(t), len(left), 2)
	check.Equal(t, left[0].Addr, h.Addr)
	check.Equal(t, left[0].Name, spec.Name)
	check.Equal(t, left[0].MemoryMB, 128)
	check.That(t, left[0].Alive && !left[0].Paused && left[1].Alive && left[1].Paused, "%+v", left)
	changed.MemoryMB = 256
	errs := next.Adopt(t.Context(), left, []container.Spec{spec, changed})
	check.NoError(t, errs[0])
	check.ErrorContains(t, errs[1], "other settings")

	MustCall(t, h.Addr, map[string]any{"stdout": []string{"after\n"}})
	got := next.Logs(t.Context(), h.ID, request())
	check.Equal(check.Must(t), len(got.Lines), 1, "%q", got.Lines)
	check.That(t, strings.HasSuffix(got.Lines[0], ": after"), "%q", got.Lines)
	_, err = call(t, h.Addr, map[string]any{"exit": 1})
	check.That(t, err != nil, "an answer from the dead")
	check.Equal(t, check.Receive(t, next.Died()), h.ID)
}

// greeter sends a word to each client of a socket in a directory that others may pass.
func greeter(t *testing.T, word string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gw") // short: a socket's path has at most 107 bytes
	check.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, "a.sock"))
	check.NoError(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() { listener.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, word)
			conn.Close()
		}
	}()
	check.NoError(t, errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Join(dir, "a.sock"), 0o666)))
	return dir
}

// gpuMounts: the host's files for a GPU container are there, cannot be written, and do not
// follow later mounts of the host. The container can talk to a mounted socket, with any
// user. The image has neither a C library nor the directories.
func gpuMounts(t *testing.T, host Host) {
	for _, user := range []string{"0", "1001"} {
		t.Run("user "+user, func(t *testing.T) {
			e := host.start(t, func(s *Settings) { s.ExtraArgs = map[string][]string{"user": {user}} })
			dir := greeter(t, "hello from the host")
			library := filepath.Join(t.TempDir(), "lib.so")
			check.NoError(t, os.WriteFile(library, []byte("no library"), 0o644))
			spec := e.spec()
			spec.GPU = &container.GPU{
				Simulated: true,
				Env:       []string{"LD_PRELOAD=/opt/gpuwhisk/lib.so", "__OW_API_HOST=over"},
				Mounts:    []container.Mount{{Source: library, Target: "/opt/gpuwhisk/lib.so"}, {Source: dir, Target: "/run/gpuwhisk"}},
			}
			h, err := e.Create(t.Context(), spec)
			check.NoError(t, err)
			checkMounts(t, h.Addr)
		})
	}
}

func checkMounts(t *testing.T, addr string) {
	t.Helper()
	a := MustCall(t, addr, map[string]any{"env": "LD_PRELOAD", "read": "/opt/gpuwhisk/lib.so", "write": "/opt/gpuwhisk/lib.so", "dial": "/run/gpuwhisk/a.sock"})
	check.Equal(t, a.Env, "/opt/gpuwhisk/lib.so")
	check.Includes(t, a.Environ, "__OW_API_HOST=over")
	check.That(t, !slices.Contains(a.Environ, "__OW_API_HOST=https://example"), "environment %v", a.Environ)
	check.Equal(t, a.Output, "no library")
	check.That(t, refused(a.Written), "written: %q", a.Written)
	check.Equal(t, a.Received, "hello from the host")
	a = MustCall(t, addr, map[string]any{"read": "/proc/self/mountinfo", "write": "/run/gpuwhisk/new"})
	check.That(t, refused(a.Written), "written to the socket's directory: %q", a.Written)
	for _, target := range []string{"/opt/gpuwhisk/lib.so", "/run/gpuwhisk"} {
		options := mountOptions(a.Output, target)
		check.That(check.Must(t), strings.HasPrefix(options, "ro,"), "%s is mounted as %q", target, options)
		check.Lacks(t, options, "shared:", "%s is mounted", target)
		check.Lacks(t, options, "master:", "%s is mounted", target)
	}
}

// refused reports that nothing could be written. The kernel looks at the file's mode first,
// which stops all users but root.
func refused(written string) bool {
	return strings.Contains(written, "read-only file system") || strings.Contains(written, "permission denied")
}

// mountOptions returns a mount's options and its ties to other mounts
// (proc_pid_mountinfo(5)).
func mountOptions(mountinfo, target string) string {
	for line := range strings.Lines(mountinfo) {
		head, _, _ := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		if len(fields) > 5 && fields[4] == target {
			return strings.Join(fields[5:], " ")
		}
	}
	return ""
}

// sharedMounts: a container may write to the directories that it shares with others of its
// device, also to /dev/shm.
func sharedMounts(t *testing.T, host Host) {
	e := host.start(t, nil)
	shm := t.TempDir()
	spec := e.spec()
	spec.GPU = &container.GPU{Simulated: true, Shared: []container.Mount{{Source: shm, Target: "/dev/shm"}}}
	h, err := e.Create(t.Context(), spec)
	check.NoError(t, err)
	check.Equal(t, MustCall(t, h.Addr, map[string]any{"write": "/dev/shm/cuda"}).Written, "done")
	text, err := os.ReadFile(filepath.Join(shm, "cuda"))
	check.NoError(t, err)
	check.Equal(t, string(text), "x", "on the host")
}

// missingMount: a source that is not there is the system's fault, and the operator reads
// its path.
func missingMount(t *testing.T, host Host) {
	e := host.start(t, nil)
	spec := e.spec()
	missing := filepath.Join(t.TempDir(), "libgpuwhisk.so")
	spec.GPU = &container.GPU{Simulated: true, Mounts: []container.Mount{{Source: missing, Target: "/opt/gpuwhisk/libgpuwhisk.so"}}}
	_, err := e.Create(t.Context(), spec)
	var failed *container.CreateError
	check.That(check.Must(t), errors.As(err, &failed), "got %v", err)
	check.Equal(t, failed.Blame, container.BlameWhisk)
	check.ErrorContains(t, failed.Err, missing)
	check.ErrorContains(t, failed.Err, "on the host")
}

// imageEnvironment: the variables of an image by which it would choose devices or come
// before the shim do not reach a GPU container, also if the image's name comes to mean
// another image. Other containers have them.
func imageEnvironment(t *testing.T, host Host) {
	e := host.start(t, nil)
	image := host.ImageWith(t, "cuda", []string{"/proxy"}, "LD_LIBRARY_PATH=/keep")
	create := func(gpu *container.GPU) []string {
		t.Helper()
		spec := e.spec()
		spec.Image, spec.GPU = image, gpu
		h, err := e.Create(t.Context(), spec)
		check.NoError(t, err)
		return MustCall(t, h.Addr, nil).Environ
	}
	gpu := &container.GPU{Simulated: true, Env: []string{"LD_PRELOAD=/shim.so"}}
	env := create(gpu)
	check.Includes(t, env, "LD_LIBRARY_PATH=/keep")
	check.EqualSlices(t, steered(env), []string{"LD_PRELOAD=/shim.so"})
	evil := []string{"CUDA_MPS_PIPE_DIRECTORY=/tmp/mps", "CUDA_VISIBLE_DEVICES=7", "LD_AUDIT=/evil.so", "LD_PRELOAD=/evil.so", "NVIDIA_VISIBLE_DEVICES=all"}
	check.Equal(t, host.ImageWith(t, "cuda", []string{"/proxy"}, append([]string{"CUDA_HOME=/cuda"}, evil...)...), image)
	for range 2 { // the engine knows the older image, then the newer one
		env := create(gpu)
		check.Includes(t, env, "CUDA_HOME=/cuda")
		check.EqualSlices(t, steered(env), []string{"LD_PRELOAD=/shim.so"})
	}
	check.Equal(t, len(steered(create(&container.GPU{Simulated: true}))), 0, "without a shim")
	check.EqualSlices(t, steered(create(nil)), evil, "without a GPU")
}

// steered lists the variables that an image must not choose for a GPU container.
func steered(environ []string) []string {
	var names []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); container.IsReservedImageEnv(name) {
			names = append(names, entry)
		}
	}
	slices.Sort(names)
	return names
}
