// Package native is the action proxy for executables: scripts with an
// interpreter line and programs of any language, alone or in an archive with
// an entry named exec.
//
// It starts the executable once per activation and speaks the protocol of
// OpenWhisk's docker skeleton with it: the parameters are the first argument
// and the standard input, the last line on standard output is the result, and
// all other output is log. Where the environment asks for it, it speaks the
// action loop protocol instead: one process that reads a line per activation
// and answers on descriptor 3.
//
// The package owns the goroutines of its HTTP server and one that waits for a
// looping process; Run ends after both.
package native

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Variables that the proxy reads. Its own are removed from the action's
// environment.
const (
	envSocket   = "__OW_PROXY_SOCKET" // a Unix socket to listen on instead of a port
	envPort     = "__OW_PROXY_PORT"   // default 8080
	envHost     = "__OW_PROXY_HOST"   // default 0.0.0.0
	envDir      = "__OW_PROXY_DIR"    // where code is kept, default "action"
	envLoop     = "__OW_ACTION_LOOP"  // "true": the action loops
	envAck      = "__OW_WAIT_FOR_ACK" // not empty: a looping action acknowledges its start
	envStockAck = "OW_WAIT_FOR_ACK"   // the same, as stock images set it
	envNoImage  = "__OW_NO_IMAGE"     // not empty: this is a plain process, in no image
)

const sentinel = "XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX\n"

// Config is where code is kept and what the action inherits.
type Config struct {
	Dir            string   // made when missing
	Env            []string // of the action, before what /init and /run add
	Stdout, Stderr *os.File // logs
	Loop           bool     // speak the action loop protocol
	NoImage        bool     // an action without code has nothing to run
}

// FromEnv divides an environment into the address to listen on, a Unix or TCP one, and
// what the action inherits.
func FromEnv(environ []string, stdout, stderr *os.File) (addr net.Addr, cfg Config) {
	set := map[string]string{envPort: "8080", envHost: "0.0.0.0", envDir: "action"}
	cfg = Config{Stdout: stdout, Stderr: stderr}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case envSocket, envPort, envHost, envDir:
			if value != "" {
				set[name] = value
			}
			continue
		case envNoImage:
			cfg.NoImage = value != ""
			continue
		case envLoop:
			cfg.Loop = strings.EqualFold(value, "true")
		}
		cfg.Env = append(cfg.Env, kv)
	}
	cfg.Dir = set[envDir]
	if path := set[envSocket]; path != "" {
		return address{"unix", path}, cfg
	}
	return address{"tcp", net.JoinHostPort(set[envHost], set[envPort])}, cfg
}

type address struct{ network, text string }

func (a address) Network() string { return a.network }
func (a address) String() string  { return a.text }

// WithoutImage is an environment for a proxy that runs outside of any image, so
// that an action which is an image cannot run.
func WithoutImage(environ []string) []string {
	return append(slices.Clip(environ), envNoImage+"=true")
}

// Run serves one action until the context ends. FromEnv reads
// the environment.
func Run(ctx context.Context, environ []string, stdout, stderr *os.File) error {
	addr, cfg := FromEnv(environ, stdout, stderr)
	listener, err := net.Listen(addr.Network(), addr.String())
	if err != nil {
		return fmt.Errorf("listen for the invoker: %w", err)
	}
	return Serve(ctx, listener, cfg)
}

// Serve serves one action on a listener, which it closes.
func Serve(ctx context.Context, listener net.Listener, cfg Config) error {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		listener.Close()
		return fmt.Errorf("find action directory: %w", err)
	}
	cfg.Dir = dir
	p := &proxy{cfg: cfg, ctx: ctx}
	defer p.end()
	defer p.busy.Wait()
	server := &http.Server{Handler: p}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the invoker: %w", err)
	}
	return nil
}

// action runs activations. Its answer is the status and the body of /run.
type action interface {
	run(ctx context.Context, req runRequest) (status int, body []byte)
	close()
}

// proxy is the state behind the two endpoints.
type proxy struct {
	cfg    Config
	ctx    context.Context // of Serve: a looping action lives as long
	mu     sync.Mutex
	action action // nil until /init went well
	logMu  sync.Mutex
	busy   sync.WaitGroup // requests under way
}

func (p *proxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.action != nil {
		p.action.close()
	}
}

// writeSentinels writes the sentinel to both logs. Errors are dropped: a log that
// cannot be written has no reader.
func (p *proxy) writeSentinels() {
	p.logMu.Lock()
	defer p.logMu.Unlock()
	_, _ = p.cfg.Stdout.WriteString(sentinel)
	_, _ = p.cfg.Stderr.WriteString(sentinel)
}

func (p *proxy) log(f *os.File, text string) {
	p.logMu.Lock()
	defer p.logMu.Unlock()
	_, _ = f.WriteString(strings.TrimRight(text, "\n") + "\n")
}
