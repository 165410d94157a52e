package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/operate/doctor"
)

// pingCmd checks whether the invoker of this host takes work: the health
// check of the image.
type pingCmd struct {
	ID      string        `name:"id" placeholder:"N" help:"As for gpuwhisk invoker."`
	Timeout time.Duration `default:"4s" help:"Longest time to wait."`
	EnvFile string        `name:"env-file" placeholder:"PATH" help:"${env_file}"`
}

// Help is the longer text of gpuwhisk ping --help.
func (pingCmd) Help() string {
	return `Asks /ping on PORT of this host, over https with the invoker's own key store where the
environment has that. Exit status 1, and what the invoker waits for, when it takes no work.`
}

// Run sends one request.
func (c pingCmd) Run() error {
	cfg, err := hostConfig(c.EnvFile, c.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	return ping(ctx, cfg.Admin)
}

func ping(ctx context.Context, a config.Admin) error {
	status, text, err := doctor.Ping(ctx, a)
	switch {
	case err != nil:
		return err
	case status != http.StatusOK:
		return fmt.Errorf("the invoker takes no work: %s", text)
	}
	fmt.Println(text)
	return nil
}
