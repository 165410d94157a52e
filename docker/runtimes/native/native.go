// Package native is the action proxy for executables: scripts with an
// interpreter line and programs in any language, alone or in an archive with
// an entry named exec.
//
// It starts the executable once per activation, with the protocol of
// OpenWhisk's docker skeleton: the parameters are the first argument and the
// standard input, the last line on standard output is the result, and all
// other output is log. If the environment says so, it uses the action loop
// protocol instead: one process reads a line per activation and answers on
// descriptor 3.
//
// The package owns the goroutines of its HTTP server and one that waits for a
// looping process. Run returns after both have ended.
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

// Variables that the proxy reads. The proxy's own variables are removed from the
// action's environment.
const (
	envSocket   = "__OW_PROXY_SOCKET" // Unix socket to listen on instead of a port
	envPort     = "__OW_PROXY_PORT"   // default 8080
	envHost     = "__OW_PROXY_HOST"   // default 0.0.0.0
	envDir      = "__OW_PROXY_DIR"    // directory of the code, default "action"
	envLoop     = "__OW_ACTION_LOOP"  // "true": the action loops
	envAck      = "__OW_WAIT_FOR_ACK" // not empty: a looping action acknowledges its start
	envStockAck = "OW_WAIT_FOR_ACK"   // the same, as stock images set it
	envNoImage  = "__OW_NO_IMAGE"     // not empty: this is a plain process, not in an image
)

const sentinel = "XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX\n"

// Config sets the directory of the code and the environment of the action.
type Config struct {
	Dir            string   // created if missing
	Env            []string // of the action, without the additions of /init and /run
	Stdout, Stderr *os.File // logs
	Loop           bool     // speak the action loop protocol
	NoImage        bool     // an action without code cannot run
}

// FromEnv splits an environment into the address to listen on, a Unix or TCP address,
// and the configuration, which includes the action's environment.
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

// WithoutImage returns an environment for a proxy outside of any image, so that an
// action that consists only of an image fails.
func WithoutImage(environ []string) []string {
	return append(slices.Clip(environ), envNoImage+"=true")
}

// Run serves one action until the context ends. It reads the environment with FromEnv.
func Run(ctx context.Context, environ []string, stdout, stderr *os.File) error {
	addr, cfg := FromEnv(environ, stdout, stderr)
	listener, err := net.Listen(addr.Network(), addr.String())
	if err != nil {
		return fmt.Errorf("listen for the invoker: %w", err)
	}
	return serve(ctx, listener, cfg)
}

// serve serves one action on a listener. It closes the listener.
func serve(ctx context.Context, listener net.Listener, cfg Config) error {
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

// action runs activations. It returns the status and the body of the answer to /run.
type action interface {
	run(ctx context.Context, req runRequest) (status int, body []byte)
	close()
}

// proxy is the state behind /init and /run.
type proxy struct {
	cfg    Config
	ctx    context.Context // of Serve; a looping action lives as long
	mu     sync.Mutex
	action action // nil until a successful /init
	logMu  sync.Mutex
	busy   sync.WaitGroup // requests in progress
}

func (p *proxy) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.action != nil {
		p.action.close()
	}
}

// writeSentinels writes the sentinel to both logs. It ignores errors: a log that cannot
// be written has no reader.
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
