package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/assembly"
)

// cleanCmd removes the containers that an invoker left behind.
type cleanCmd struct {
	ID         *int   `name:"id" placeholder:"N" help:"Number of the invoker, which must not run."`
	UniqueName string `name:"uniqueName" placeholder:"NAME" help:"Name that it was started with."`
	EnvFile    string `name:"env-file" placeholder:"PATH" help:"${env_file}"`
	All        bool   `help:"Of every invoker that this host's Docker has containers of, those that run included."`
}

// Help is the longer text of gpuwhisk clean --help.
func (cleanCmd) Help() string {
	return `An invoker that is stopped by SIGTERM, or killed, leaves its action containers to the next
process with its id. If none is to come, this removes them. Give --id and --uniqueName as
the invoker had them. The same by hand:

  docker rm -f $(docker ps -aq --filter label=org.gpuwhisk.invoker=wsk00)

where wsk00 is wsk, the unique name and the number; without =wsk00, all invokers'.
--all also removes their network (docker network rm gpuwhisk), unless it was made by hand.`
}

// Run removes them.
func (c cleanCmd) Run() error {
	if (c.ID == nil) == !c.All {
		return errors.New("whose containers is not given: --id N (and --uniqueName NAME), or --all")
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
	fmt.Println("removed", n, "containers")
	return err
}
