package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
)

// drainedCmd waits until an invoker has answered all activations.
type drainedCmd struct {
	ID      int           `name:"id" required:"" placeholder:"N" help:"Number of the invoker."`
	Wait    time.Duration `default:"6m" help:"Longest time to wait."`
	Longest time.Duration `default:"6m" help:"Longest time that an activation may take; an older activation without an answer counts as lost."`
	EnvFile string        `name:"env-file" placeholder:"PATH" help:"${env_file}"`
}

// Help is the longer text of gpuwhisk drained --help.
func (drainedCmd) Help() string {
	return `Compares the activations that controllers sent to the invoker with the acks that came back; works with
any OpenWhisk invoker in classic mode. Disable the invoker first (POST /disable), or new work keeps arriving.
Reads Kafka's settings from the invoker's environment, or as doctor does. Exit status 1 if the time is up.`
}

// Run blocks until the invoker is drained or the time is up.
func (c drainedCmd) Run() error {
	i, err := kafkaOf(c.EnvFile, c.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(interrupted(), c.Wait, fmt.Errorf("not answered within %v", c.Wait))
	defer cancel()
	last := ""
	err = i.Drained(ctx, c.Longest, func(waiting, running int) {
		if now := fmt.Sprintf("invoker%d: %d wait, %d run", c.ID, waiting, running); now != last {
			fmt.Println(now)
			last = now
		}
	})
	if err != nil {
		return fmt.Errorf("wait for invoker%d to be drained: %w", c.ID, err)
	}
	return nil
}

// probeCmd runs one activation through an invoker.
type probeCmd struct {
	ID     int           `name:"id" required:"" placeholder:"N" help:"Number of the invoker."`
	Action string        `placeholder:"NAMESPACE/NAME" help:"Action to run, without parameters; by default the action with which controllers test invokers."`
	Wait   time.Duration `default:"60s" help:"Longest time to wait."`
	Ready  bool          `name:"held" help:"Get ready, print \"ready\", and send the activation on SIGUSR1; --wait counts from then."`

	EnvFile string `name:"env-file" placeholder:"PATH" help:"${env_file}"`
}

// Help is the longer text of gpuwhisk probe --help.
func (probeCmd) Help() string {
	return `Sends an activation to the invoker as a controller would and waits for its ack; works with
any OpenWhisk invoker, even a disabled one. To test a GPU, name an action with the annotation gpu.
In scheduler mode it acts as a scheduler with one activation, and a running invoker fetches it.
Reads Kafka's settings from the invoker's environment, or as doctor does. The record stays in the database.`
}

// Run sends the activation and waits for its ack.
func (c probeCmd) Run() error {
	i, err := kafkaOf(c.EnvFile, c.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(interrupted())
	defer cancel(nil)
	late := time.AfterFunc(c.Wait, func() { cancel(fmt.Errorf("no ack within %v", c.Wait)) })
	defer late.Stop()
	if c.Ready {
		i.Hold = untilReleased(late, c.Wait)
	}
	took, err := i.Probe(ctx, c.Action)
	if err != nil {
		return fmt.Errorf("probe invoker%d: %w", c.ID, err)
	}
	fmt.Printf("invoker%d: answered after %v\n", c.ID, took.Round(time.Millisecond))
	return nil
}

// untilReleased stops the timer, prints "ready" and waits for SIGUSR1, which starts
// the timer again.
func untilReleased(late *time.Timer, wait time.Duration) func(context.Context) error {
	released := make(chan os.Signal, 1)
	signal.Notify(released, syscall.SIGUSR1)
	return func(ctx context.Context) error {
		late.Stop()
		fmt.Println("ready")
		select {
		case <-released:
			late.Reset(wait)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// kafkaOf returns access to the topics of an invoker in Kafka, by the settings of this
// host.
func kafkaOf(envFile string, id int) (handover.Invoker, error) {
	cfg, err := hostConfig(envFile, strconv.Itoa(id))
	if err != nil {
		return handover.Invoker{}, err
	}
	if len(cfg.Kafka.Hosts) == 0 {
		return handover.Invoker{}, errors.New("KAFKA_HOSTS is not set: set it to the brokers, host:port (gpuwhisk standalone prints its broker as Kafka)")
	}
	i, err := assembly.Handover(cfg, slog.New(slog.DiscardHandler))
	i.ID = id
	return i, err
}
