package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
)

// cleanCmd removes the containers that an invoker left behind.
type cleanCmd struct {
	ID         *int   `name:"id" placeholder:"N" help:"Number of the invoker, which must not run."`
	UniqueName string `name:"uniqueName" placeholder:"NAME" help:"The invoker's --uniqueName."`
	EnvFile    string `name:"env-file" placeholder:"PATH" help:"${env_file}"`
	All        bool   `help:"Remove the containers of all invokers on this host, even of running invokers."`
}

// Help is the longer text of gpuwhisk clean --help.
func (cleanCmd) Help() string {
	return `An invoker that is stopped by SIGTERM, or killed, leaves its action containers to the next
process with its id. If no such process will start, this command removes the containers. Give
the --id and --uniqueName of the invoker. It works with Docker and with containerd
(whisk.container-engine). With Docker the same is done by hand with

  docker rm -f $(docker ps -aq --filter label=org.gpuwhisk.invoker=wsk00)

where wsk00 consists of wsk, the unique name and the number. Without =wsk00 it removes the containers of all invokers.
--all also removes their network (gpuwhisk in Docker, the bridge on containerd), unless it was created by hand.`
}

// Run removes the containers.
func (c cleanCmd) Run() error {
	if (c.ID == nil) == !c.All {
		return errors.New("give the invoker: --id N (and --uniqueName NAME), or --all")
	}
	id, number := activation.Instance{UniqueName: c.UniqueName}, ""
	if c.ID != nil {
		id.ID, number = *c.ID, strconv.Itoa(*c.ID)
	}
	cfg, err := hostConfig(c.EnvFile, number)
	if err != nil {
		return err
	}

	n, err := assembly.Clean(interrupted(), cfg, id, c.All, newLogger(os.Stderr, cfg.Logs))
	if err == nil || n > 0 {
		fmt.Println("removed", n, "containers")
	}
	return err
}
