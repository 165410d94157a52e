package e2e

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/assembly"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/develop/harness"
)

// serial reports the installations of one test process apart.
var serial atomic.Int64

// platform is a running installation, with the helpers of a test.
type platform struct {
	t         *testing.T
	parts     parts
	s         *standalone.Standalone
	c         *whisk.Client
	db        harness.Database
	recording *recording
	dir       string
	unique    string    // of the invoker's containers
	output    io.Writer // log output of the parts
	admin     harness.Admin

	outOf map[string]string // further environment of the invoker
	child *child            // with setup.child
}

// setup holds a test's changes to an installation.
type setup struct {
	env         map[string]string // of the invoker, over all else
	store       func(http.Handler) http.Handler
	memory      string            // of all containers
	child       bool              // the invoker is a process of its own
	inContainer *invokerContainer // the child is in a container; nil: is not
}

// memoryForAll is memory enough that no container makes way for another, so that
// actions may run beside each other and each still finds its own warm.
const memoryForAll = "32768m"

// start brings an installation up that ends with the test, which fails if anything
// is left.
func start(t *testing.T, w parts, with setup) *platform {
	t.Helper()
	n := serial.Add(1)
	p := &platform{t: t, parts: w, dir: t.TempDir(), unique: fmt.Sprintf("e2e%d.%d", os.Getpid(), n), output: peertest.Output(t), outOf: map[string]string{}}
	maps.Copy(p.outOf, w.engineSettings())
	for name, value := range with.env {
		p.outOf[name] = value
	}
	if !w.shared {
		before := runtime.NumGoroutine()
		t.Cleanup(func() { noGoroutines(t, before) })
	}
	log := slog.New(slog.NewTextHandler(p.output, nil))
	o := standalone.Options{
		Data: p.dir, Runtime: "process", Kafka: w.kafka, CouchDB: w.couch, Version: "e2e",
		DBPrefix: fmt.Sprintf("e2e_%d_%d_", os.Getpid(), n), Memory: cmp.Or(with.memory, "2048m"), Log: log,
		Invoker: func(ctx context.Context, environ, args []string) (func() error, error) {
			return p.startInvoker(ctx, environ, log, with)
		},
	}
	if w.docker != "" {
		o.Runtime, o.Docker, o.Manifest = "docker", w.docker, manifest(w.images)
	}
	ctx, cancel := context.WithTimeout(t.Context(), peertest.WaitLimit)
	defer cancel()
	var err error
	p.s, err = standalone.Start(ctx, o)
	check.NoError(t, err)
	t.Cleanup(p.end)
	check.NoError(t, p.s.WaitReady(ctx))
	p.db = harness.OpenDatabase(t, p.s.Info().Database)
	p.recording = newRecording(t, p.s.Info().Kafka)
	p.c = p.client()
	return p
}

// manifest is the standalone's own with the tag of the images under test.
func manifest(tag string) []byte {
	attached := `"attached":{"attachmentName":"codefile","attachmentType":"text/plain"}`
	image := func(name string) string {
		return `"image":{"prefix":"gpuwhisk","name":"action-` + name + `","tag":"` + tag + `"}`
	}
	return []byte(`{"runtimes":{
"nodejs":[{"kind":"nodejs:20","default":true,` + image("nodejs") + `,` + attached + `}],
"python":[{"kind":"python:3","default":true,` + image("python3") + `,` + attached + `}],
"native":[{"kind":"native:1","default":true,` + image("native") + `,` + attached + `}]},"blackboxes":[]}`)
}

// startInvoker runs this project's invoker with the environment that the
// installation gives it, changed as the test needs it.
func (p *platform) startInvoker(ctx context.Context, environ []string, log *slog.Logger, with setup) (func() error, error) {
	p.outOf["CONFIG_whisk_userEvents_enabled"] = "true"
	p.outOf["CONFIG_whisk_gpu_flushDeadline"] = "1 minute" // for machines that have much else to do
	if with.store != nil {
		host, port, err := p.faultyStore(environ, with.store)
		if err != nil {
			return nil, err
		}
		p.outOf["CONFIG_whisk_couchdb_host"], p.outOf["CONFIG_whisk_couchdb_port"] = host, port
	}
	for name, value := range p.outOf {
		environ = append(environ, name+"="+value) // the last value counts
	}
	p.admin = harness.AdminOf(environ)
	if with.child {
		return p.startChild(ctx, environ, with.inContainer)
	}
	local := harness.Local{Options: assembly.Options{Log: log}}
	wait, err := local.Start(ctx, environ, []string{"--id", "0", "--uniqueName", p.unique})
	p.admin = local.Admin()
	return wait, err
}

// client makes the client that any user of OpenWhisk would make.
func (p *platform) client() *whisk.Client {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	p.t.Cleanup(transport.CloseIdleConnections)
	c, err := whisk.NewClient(&http.Client{Transport: transport, Timeout: 2 * peertest.WaitLimit}, &whisk.Config{
		Host: p.s.Info().APIHost, AuthToken: p.s.Info().Guest().AuthKey(), Namespace: "_",
	})
	check.NoError(p.t, err)
	return c
}

// prefix returns the prefix of the names of this invoker's containers.
func (p *platform) prefix() string { return "wsk" + p.unique + "0_" }

// end waits until the invoker is idle, ends everything, and fails the test for
// leftovers.
func (p *platform) end() {
	if p.recording != nil {
		p.atRest()
	}
	ctx, cancel := context.WithTimeout(context.Background(), peertest.WaitLimit)
	defer cancel()
	switch err := p.s.Stop(ctx); {
	case err == nil:
	case harness.RemovesSlowly(err):
		p.t.Logf("stop: %v", err)
		harness.AwaitRemoval(p.t, func() []string { return strings.Fields(p.containers()) }, p.tryRemove)
	default:
		p.t.Errorf("stop: %v", err)
	}
	p.nothingLeft()
	p.dropDatabases()
}

// dropDatabases leaves a server that is not ours as it was.
func (p *platform) dropDatabases() {
	if p.parts.couch == "" || p.db.Client == nil {
		return
	}
	n := p.db.Names()
	for _, name := range []string{n.Whisks, n.Activations, n.Subjects} {
		u, _ := url.Parse(p.parts.couch)
		req, err := http.NewRequest(http.MethodDelete, u.JoinPath(name).String(), nil)
		check.NoError(p.t, err)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			p.t.Errorf("drop database %s: %v", name, err)
			continue
		}
		res.Body.Close()
	}
}
