// Package zookeeper assigns numbers to invokers. OpenWhisk maps the names of invokers to
// numbers in ZooKeeper. This package reads and extends the mapping exactly as the
// original does (InstanceIdAssigner), so that original invokers and ours can share it.
//
// The package is not a general client. Assign connects, gets the number and
// disconnects; the client library's goroutines end before Assign returns.
package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// retryAfter is the pause before the next try after a lost or
// refused connection, as in the original's RetryUntilElapsed.
const retryAfter = 500 * time.Millisecond

// Request asks for the number of one invoker.
type Request struct {
	// Hosts is ZooKeeper's connect string, host:port[,host:port...].
	Hosts string
	// Name identifies the invoker; the same name gets the same number again.
	Name string
	// Overwrite, when not nil, is the number to take, also if another invoker has it.
	Overwrite *int
	// Log reports when ZooKeeper is away and when it is back; nil is silent.
	Log *slog.Logger
}

// Assign returns the number of the invoker. While ZooKeeper is unreachable, Assign
// retries until ctx ends. It returns an error at once for an invalid answer.
func Assign(ctx context.Context, r Request) (int, error) {
	if err := r.check(); err != nil {
		return 0, err
	}
	log := r.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	a := &assigner{name: r.Name, containers: true}
	for away := false; ; away = true {
		id, err := a.visit(ctx, r)
		if ctx.Err() != nil {
			return 0, fmt.Errorf("assign id to %s: %w", r.Name, errors.Join(context.Cause(ctx), err))
		}
		if !errors.Is(err, errAway) {
			if err != nil {
				return 0, fmt.Errorf("assign id to %s: %w", r.Name, err)
			}
			log.Info("id assigned by zookeeper", "name", r.Name, "id", id)
			return id, nil
		}
		if !away {
			log.Warn("zookeeper cannot be reached, trying again until it can", "hosts", r.Hosts, "error", err)
		}
		retry.Sleep(ctx, retryAfter)
	}
}

// check refuses names that do not form a single node below the mapping.
func (r Request) check() error {
	odd := func(c rune) bool {
		return c == '/' || c < ' ' || c >= 0x7f && c <= 0x9f || c >= 0xd800 && c <= 0xf8ff || c >= 0xfff0
	}
	if r.Name == "" || r.Name == "." || r.Name == ".." || strings.ContainsFunc(r.Name, odd) {
		return fmt.Errorf("name %q: not usable as the name of a zookeeper node", r.Name)
	}
	if hosts := servers(r.Hosts); len(hosts) == 0 || strings.HasPrefix(r.Hosts, ":") || strings.HasSuffix(r.Hosts, ":") {
		return fmt.Errorf("zookeeper hosts %q: expected host:port[,host:port...]", r.Hosts)
	}
	if r.Overwrite != nil && (*r.Overwrite < 0 || *r.Overwrite > math.MaxInt32) {
		return fmt.Errorf("overwrite id %d: expected an integer from 0", *r.Overwrite)
	}
	return nil
}

func servers(hosts string) []string {
	var out []string
	for h := range strings.SplitSeq(hosts, ",") {
		if h = strings.TrimSpace(h); h != "" {
			out = append(out, h)
		}
	}
	return out
}

// visit connects once, settles the number and disconnects.
func (a *assigner) visit(ctx context.Context, r Request) (int, error) {
	s, err := connect(ctx, servers(r.Hosts))
	if err != nil {
		return 0, err
	}
	defer s.close()
	if r.Overwrite != nil {
		return a.overwrite(ctx, s, *r.Overwrite)
	}
	return a.assign(ctx, s)
}
