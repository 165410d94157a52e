package main

import (
	"log/slog"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/gpuwhisk/gpuwhisk/invoker/demo"
	"github.com/gpuwhisk/gpuwhisk/invoker/standalone"
)

// demoCmd shows the main job end to end and cleans up after itself.
type demoCmd struct {
	Load    time.Duration `default:"20s" help:"How long calls are made."`
	Seed    uint64        `default:"1" help:"Seed of the arrivals."`
	Runtime string        `default:"auto" enum:"auto,docker,process" help:"Run actions in Docker, or as plain processes (${enum})."`
	Policy  string        `placeholder:"NAME" help:"Scheduling policy of GPU functions (mqfq-sticky)."`
	Verbose bool          `short:"v" help:"Log what the invoker does."`
}

// Run shows everything on standard output.
func (c demoCmd) Run() error {
	level := slog.LevelError
	if c.Verbose {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	_, plain := os.LookupEnv("NO_COLOR")
	return demo.Run(interrupted(), demo.Options{
		Standalone: standalone.Options{
			Runtime: c.Runtime, GPUs: 1, GPUMemory: demo.DeviceMemory, Policy: c.Policy, Memory: "8192m",
			Extra:  demo.Settings(),
			Docker: os.Getenv("DOCKER_HOST"), Version: version, Invoker: inProcess(log), Log: log,
		},
		Functions: demo.Catalogue(), Load: c.Load, Seed: c.Seed,
		Out: os.Stdout, Terminal: terminal, Colour: terminal && !plain,
	})
}
