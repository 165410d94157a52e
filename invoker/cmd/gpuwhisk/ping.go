package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/operate/doctor"
)

// pingCmd checks whether the invoker of this host accepts work. It is the health check
// of the image.
type pingCmd struct {
	ID      string        `name:"id" placeholder:"N" help:"Number of the invoker. Its settings may be in /etc/gpuwhisk/invokerN.env."`
	Timeout time.Duration `default:"4s" help:"Longest time to wait."`
	EnvFile string        `name:"env-file" placeholder:"PATH" help:"${env_file}"`
}

// Help is the longer text of gpuwhisk ping --help.
func (pingCmd) Help() string {
	return `Asks /ping on PORT of this host, over https with the invoker's key store if the
environment configures that. If the invoker does not accept work, it prints the reason and exits with status 1.`
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
		return fmt.Errorf("%w (PORT names the port of the invoker, now %d; gpuwhisk doctor examines the host)", err, a.Port)
	case status != http.StatusOK:
		return fmt.Errorf("the invoker does not accept work: %s", text)
	}
	fmt.Println(text)
	return nil
}
