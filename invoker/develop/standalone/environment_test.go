package standalone

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// TestTheInvokerTakesItsEnvironment gives what standalone makes to the code
// that reads an operator's.
func TestTheInvokerTakesItsEnvironment(t *testing.T) {
	s := &Standalone{
		opts: Options{Data: "/data", GPUs: 2, GPUMemory: 16 * activation.GB, MemoryMax: 2 * activation.GB, Policy: "fcfs", Tokens: 3, Memory: "4096m", Extra: []string{"CONFIG_whisk_gpu_prefetch=false"}},
		info: Info{
			APIHost: "http://127.0.0.1:3233", Kafka: "127.0.0.1:9092", Runtime: "process",
			Database: couchdb.Config{URL: "http://127.0.0.1:5984", User: "u", Password: "p w", Names: couchdb.Names{Whisks: "w", Activations: "a", Subjects: "s"}},
		},
	}
	env, err := s.environment(string(defaultManifest(plainImage)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Input{Environ: env, Args: []string{"--id", "0", "--uniqueName", "standalone"}})
	if err != nil {
		t.Fatal(err)
	}
	if c.GPU.SimulatedDevices != 2 || c.GPU.Policy != "fcfs" || c.GPU.Tokens.Max != 3 || c.GPU.Prefetch || c.CouchDB.Password != "p w" || c.CouchDB.Activations != "a" ||
		c.Runtimes.Kind != "process" || len(c.Kafka.Hosts) != 1 || c.Pool.UserMemory != 4096<<20 ||
		c.GPU.SimulatedMemory != 16<<30 || c.Limits.MemoryMax != 2<<30 {
		t.Errorf("the invoker has read %+v", c)
	}
}

func TestCouchDBAddress(t *testing.T) {
	c, err := parseCouchDB("https://admin:se%40cret@db:6984")
	if err != nil || c.URL != "https://db:6984" || c.User != "admin" || c.Password != "se@cret" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"", "db:5984", "http://db:5984", "ftp://a:secret@db", "http://a:secret@db:port"} {
		if _, err := parseCouchDB(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v; want an error without the password", bad, err)
		}
	}
}

// The error of a wrong value names its flag.
func TestStartNamesTheFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	address := strings.TrimPrefix(closed.URL, "http://")
	for _, c := range []struct {
		want string
		o    Options
	}{
		{"--runtimes: ", Options{Data: t.TempDir(), Manifest: []byte("[]")}},
		{"--data: ", Options{Data: file}},
		{"--kafka nobody: want HOST:PORT", Options{Data: t.TempDir(), Kafka: "nobody"}},
		{"--couchdb: ", Options{Data: t.TempDir(), CouchDB: "http://u:secret@" + address}},
	} {
		c.o.Runtime = "process"
		_, err := Start(t.Context(), c.o)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line that begins with %q", err, c.want)
		}
	}
}

// engineWith answers like a Docker Engine that has these images.
func engineWith(t *testing.T, images ...string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "d.sock")
	ln, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: ln, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := r.URL.Path == "/_ping" || slices.ContainsFunc(images, func(image string) bool {
			return strings.HasSuffix(r.URL.Path, "/images/"+image+"/json")
		})
		w.Header().Set("Content-Type", "application/json")
		if !found {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte("{}"))
	})}}
	srv.Start()
	t.Cleanup(srv.Close)
	return "unix://" + socket
}

func TestRuntimeIsChosenAndExplained(t *testing.T) {
	m, err := activation.ParseManifest(defaultManifest(plainImage), activation.ManifestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	all := engineWith(t, "gpuwhisk/action-nodejs:latest", "gpuwhisk/action-python3:latest", "gpuwhisk/action-native:latest")
	some := engineWith(t, "gpuwhisk/action-nodejs:latest")
	none := "unix://" + filepath.Join(t.TempDir(), "none.sock")
	for _, c := range []struct{ wanted, host, runtime, why string }{
		{"auto", all, "docker", "has the images"},
		{"", some, "process", "lacks gpuwhisk/action-python3:latest, gpuwhisk/action-native:latest"},
		{"auto", none, "process", "does not answer"},
		{"docker", all, "docker", "as asked"},
		{"process", all, "process", "as asked"},
	} {
		runtime, why, err := chooseRuntime(t.Context(), c.wanted, c.host, m)
		if err != nil || runtime != c.runtime || !strings.Contains(why, c.why) {
			t.Errorf("%q at %s: %s because %q, %v; want %s because %q", c.wanted, c.host, runtime, why, err, c.runtime, c.why)
		}
	}
	for host, want := range map[string]string{none: "Docker does not answer", some: "make images builds it"} {
		if _, _, err := chooseRuntime(t.Context(), "docker", host, m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("docker at %s: %v, want %q", host, err, want)
		}
	}
	if _, _, err := chooseRuntime(t.Context(), "podman", none, m); err == nil {
		t.Error("podman was taken")
	}
}

// TestPythonForGPUs: python:3-gpu is the image with the CUDA libraries where
// Docker has it.
func TestPythonForGPUs(t *testing.T) {
	with := engineWith(t, "gpuwhisk/action-python3-gpu:latest")
	if !hasImage(t.Context(), with, gpuImage) || hasImage(t.Context(), engineWith(t), gpuImage) ||
		hasImage(t.Context(), "unix://"+filepath.Join(t.TempDir(), "none.sock"), gpuImage) {
		t.Error("the image is not seen where it is, or is where it is not")
	}
	m, err := activation.ParseManifest(defaultManifest(gpuImage), activation.ManifestOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"python:3-gpu": "gpuwhisk/action-python3-gpu:latest", "python:3": "gpuwhisk/action-python3:latest"} {
		r, ok := m.Runtime(kind)
		if got := m.ManagedReference(r.Image); !ok || got != want {
			t.Errorf("%s is %s, want %s", kind, got, want)
		}
	}
}

func TestBanner(t *testing.T) {
	s := begin(t, &fakeInvoker{}, func(o *Options) { o.GPUs, o.GPUMemory = 2, 8*activation.GB })
	var b bytes.Buffer
	s.Banner(&b)
	for _, want := range []string{"2 simulated, 8 GB each", "wsk property set --apihost " + s.Info().APIHost + " --auth " + s.Info().Guest().AuthKey(), s.Info().Data, "(embedded)"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the banner lacks %q:\n%s", want, &b)
		}
	}
	if password := s.Info().Database.Password; len(password) < 32 || strings.Contains(b.String(), password) {
		t.Error("the store's password is short, or in the banner")
	}
}

func TestAnInvokerThatCannotStart(t *testing.T) {
	reason := errors.New("no such device")
	_, err := Start(t.Context(), Options{Data: t.TempDir(), Runtime: "process",
		Invoker: func(context.Context, []string, []string) (func() error, error) { return nil, reason }})
	if !errors.Is(err, reason) {
		t.Errorf("start: %v, want %v", err, reason)
	}
	s, err := Start(t.Context(), Options{Data: t.TempDir(), Runtime: "process",
		Invoker: func(context.Context, []string, []string) (func() error, error) {
			return func() error { return reason }, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); !errors.Is(err, reason) {
		t.Errorf("wait: %v, want %v", err, reason)
	}
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("stop: %v, which was returned before", err)
	}
}

// TestCallsWaitForTheInvokerThatStarts: from the first moment on no call is
// refused, and /ping answers pong once an action can run.
func TestCallsWaitForTheInvokerThatStarts(t *testing.T) {
	f := &fakeInvoker{run: echo, t: t}
	hold := make(chan struct{})
	o := Options{Data: t.TempDir(), Runtime: "process", Version: "test",
		Invoker: func(ctx context.Context, environ, args []string) (func() error, error) {
			started := make(chan error, 1)
			var wait func() error
			go func() {
				<-hold
				var err error
				wait, err = f.start(ctx, environ, args)
				started <- err
			}()
			return func() error {
				if err := <-started; err != nil {
					return err
				}
				return wait()
			}, nil
		}}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, s) })
	d := at(t, s)
	d.anonymous().contains("GET", "/ping", "", 503, "starting")
	d.put("actions/hello", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	answered := make(chan answer, 1)
	go func() { answered <- d.do("POST", actions+"hello?blocking=true&result=true", `{"a":1}`) }()
	close(hold)
	if got := <-answered; got.status != 200 || got.body != `{"a":1}` {
		t.Errorf("a call that came early: %d %s", got.status, got.body)
	}
	d.anonymous().contains("GET", "/ping", "", 200, "")
}

// TestTwoOnOneHost: the invoker of another data directory has another name, and
// so other containers; that of the same one finds its own again.
func TestTwoOnOneHost(t *testing.T) {
	name := func(data string) string {
		var got []string
		f := &fakeInvoker{t: t}
		s, err := Start(t.Context(), Options{Data: data, Runtime: "process",
			Invoker: func(ctx context.Context, environ, args []string) (func() error, error) {
				got = args
				return f.start(ctx, environ, args)
			}})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if len(got) != 4 || got[2] != "--uniqueName" || got[3] == "" {
			t.Fatalf("the invoker was started with %q", got)
		}
		return got[3]
	}
	one, other := t.TempDir(), t.TempDir()
	a, b := name(one), name(other)
	if a == b || a != name(one) {
		t.Errorf("%s and %s", a, b)
	}
}
