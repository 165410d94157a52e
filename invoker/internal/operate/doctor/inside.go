package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/gpu"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// Inside is an action's view of the shim in its own process.
type Inside struct {
	Preload string // LD_PRELOAD
	Socket  string // GPUWHISK_SHIM_SOCKET
	Loaded  bool   // the shim library is loaded
}

// looks lists the small test actions by language. Each returns an Inside. The first one
// whose sign occurs in the name, command or environment of an image is used, else the
// last one.
var looks = []struct {
	signs []string
	code  string
}{
	{[]string{"python"}, `
import os
def main(args):
    return {"preload": os.getenv("LD_PRELOAD", ""), "socket": os.getenv("GPUWHISK_SHIM_SOCKET", ""),
            "loaded": "libgpuwhisk.so" in open("/proc/self/maps").read()}
`},
	{[]string{"node", "app.js"}, `
function main() {
  return { preload: process.env.LD_PRELOAD || "", socket: process.env.GPUWHISK_SHIM_SOCKET || "",
           loaded: require("fs").readFileSync("/proc/self/maps", "utf8").includes("libgpuwhisk.so") };
}
`},
	{[]string{"php"}, `<?php
function main(array $args) : array {
    return ["preload" => (string) getenv("LD_PRELOAD"), "socket" => (string) getenv("GPUWHISK_SHIM_SOCKET"),
            "loaded" => strpos(file_get_contents("/proc/self/maps"), "libgpuwhisk.so") !== false];
}
`},
	{[]string{"ruby"}, `
def main(args)
  { "preload" => ENV["LD_PRELOAD"].to_s, "socket" => ENV["GPUWHISK_SHIM_SOCKET"].to_s,
    "loaded" => File.read("/proc/self/maps").include?("libgpuwhisk.so") }
end
`},
	// With cgo: a Go program without cgo is static, and cannot use CUDA.
	{[]string{"golang", "action-go"}, `package main

import "C"

import (
	"os"
	"strings"
)

func Main(args map[string]interface{}) map[string]interface{} {
	maps, _ := os.ReadFile("/proc/self/maps")
	return map[string]interface{}{"preload": os.Getenv("LD_PRELOAD"), "socket": os.Getenv("GPUWHISK_SHIM_SOCKET"),
		"loaded": strings.Contains(string(maps), "libgpuwhisk.so")}
}
`},
	{nil, `#!/bin/sh
loaded=false
grep -q libgpuwhisk.so /proc/self/maps && loaded=true
echo "{\"preload\":\"$LD_PRELOAD\",\"socket\":\"$GPUWHISK_SHIM_SOCKET\",\"loaded\":$loaded}"
`},
}

// lookFor returns the code of the test action for an image.
func lookFor(reference string, i docker.Image) string {
	text := strings.ToLower(strings.Join(slices.Concat([]string{reference}, i.Entrypoint, i.Cmd, i.Env), "\n"))
	for _, one := range looks {
		if slices.ContainsFunc(one.signs, func(sign string) bool { return strings.Contains(text, sign) }) {
			return one.code
		}
	}
	return looks[len(looks)-1].code
}

// look runs an image as the invoker would for a GPU action, with a simulated device and
// the shim, and runs a test action in it.
func (m *Machine) look(ctx context.Context, reference, library string) (inside Inside, err error) {
	image, there, err := m.Image(ctx, reference)
	if err != nil || !there {
		return Inside{}, cmp.Or(err, errors.New("it is not on this host"))
	}
	spec := m.probeSpec(probeName(), reference)
	short := "doctor" + spec.Name[len(spec.Name)-6:] // a socket's path is limited to 107 bytes
	dir, err := devices.SocketDir(m.Config.SocketDirs(short, os.TempDir())...)
	if err != nil {
		return Inside{}, fmt.Errorf("make a directory for the shim's socket: %w", err)
	}
	device := gpu.Device{Name: "gpu", MemoryBytes: 1 << 30, Simulated: true}
	mover, err := devices.OpenMover(devices.Options{Dir: dir, Library: library, Mounted: true, Devices: []gpu.Device{device}, Log: silent()})
	if err != nil {
		return Inside{}, err
	}
	defer func() { err = errors.Join(err, mover.Close()) }()
	given, err := mover.Prepare(spec.Name, device, container.DeviceRequest{})
	if err != nil {
		return Inside{}, err
	}
	spec.GPU = &given
	err = m.withContainer(ctx, spec, func(ctx context.Context, c *proxy.Client) (err error) {
		inside, err = runLook(ctx, c, lookFor(reference, image), &given)
		return err
	})
	return inside, err
}

// runLook initialises and runs the action, with the invoker's messages.
func runLook(ctx context.Context, c *proxy.Client, code string, given *container.GPU) (inside Inside, err error) {
	defer c.Close()
	message := &activation.Message{Action: activation.ActionRef{Path: "whisk.system", Name: "doctor", Version: "0.0.1"}}
	call, err := proxy.NewInvocation(message, nil, false)
	if err != nil {
		return Inside{}, err
	}
	call.GPU = given
	end, bounded := ctx.Deadline()
	if !bounded {
		end = time.Now().Add(time.Minute)
	}
	limit := proxy.Limit{Max: 64 << 10, Truncation: 64 << 10}
	action := &activation.Action{Name: "doctor", Exec: activation.Exec{HasCode: true, Code: code}}
	x := c.Init(ctx, call.InitBody(action, end), time.Until(end), limit)
	if answer, good := proxy.InitOutcome(x, time.Until(end), false); !good {
		return Inside{}, refusal(ctx, "/init", answer)
	}
	answer := proxy.RunOutcome(c.Run(ctx, call.RunBody(end), time.Until(end), limit), time.Until(end), false)
	if answer.StatusCode != activation.StatusSuccess {
		return Inside{}, refusal(ctx, "/run", answer)
	}
	if err := json.Unmarshal(answer.Result, &inside); err != nil {
		return Inside{}, fmt.Errorf("read the answer of the test action: %w", err)
	}
	return inside, nil
}

// refusal returns the error for a test action that did not run.
func refusal(ctx context.Context, path string, answer activation.Response) error {
	if errors.Is(context.Cause(ctx), errEnded) {
		return errEnded
	}
	return fmt.Errorf("the test action is refused at %s: %s", path, answer.Result)
}

// judgeInside judges the answer of the test action. fits is the finding on the C
// library.
func judgeInside(fits, ref string, inside Inside, err error) []Finding {
	const off = `; or switch the shim off for the action with the annotation gpu: {"shim": "off"}`
	switch {
	case err != nil:
		return warn("run a GPU action of this image and see whether the log warns that no process is connected; docker logs shows why the container ended",
			"%s; it is not known whether the shim reaches its actions: %v", fits, err)
	case inside.Loaded && inside.Socket != "":
		return ok("%s, and is loaded into the process of an action", fits)
	case inside.Preload == "" || inside.Socket == "":
		return fail("make its proxy pass the container's environment, or the env of /init, to the action, as OpenWhisk's runtimes do"+off,
			"the shim does not reach the actions of %s: their process lacks %s, so their GPU memory is neither measured, moved nor limited",
			ref, strings.Join(inside.lacks(), " and "))
	}
	return fail("link the program that runs the action with glibc, dynamically"+off,
		"the shim does not reach the actions of %s: their process has the variables, but did not load the library, so their GPU memory is neither measured, moved nor limited", ref)
}

// lacks returns the variables that did not reach the action.
func (i Inside) lacks() (names []string) {
	if i.Preload == "" {
		names = append(names, "LD_PRELOAD")
	}
	if i.Socket == "" {
		names = append(names, "GPUWHISK_SHIM_SOCKET")
	}
	return names
}
