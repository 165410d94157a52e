package standalone

import (
	"bytes"
	"cmp"
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
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// TestTheInvokerTakesItsEnvironment: the code that reads an operator's environment
// accepts standalone's.
func TestTheInvokerTakesItsEnvironment(t *testing.T) {
	s := &Standalone{
		opts: Options{Data: "/data", GPUs: 2, GPUMemory: 16 * activation.GB, MemoryMax: 2 * activation.GB, Policy: "fcfs", Tokens: 3, Memory: "4096m", Extra: []string{"CONFIG_whisk_gpu_prefetch=false"}},
		info: Info{
			APIHost: "http://127.0.0.1:3233", Kafka: "127.0.0.1:9092", Runtime: "process",
			Database: couchdb.Config{URL: "http://127.0.0.1:5984", User: "u", Password: "p w", Names: couchdb.Names{Whisks: "w", Activations: "a", Subjects: "s"}},
		},
	}
	env, err := s.environment(string(defaultManifest(plainImage)))
	check.NoError(t, err)
	c, err := config.Load(config.Input{Environ: env, Args: []string{"--id", "0", "--uniqueName", "standalone"}})
	check.NoError(t, err)
	check.Equal(t, c.GPU.SimulatedDevices, 2)
	check.Equal(t, c.GPU.Policy, "fcfs")
	check.Equal(t, c.GPU.Tokens.Max, 3)
	check.That(t, !c.GPU.Prefetch)
	check.Equal(t, c.CouchDB.Password, "p w")
	check.Equal(t, c.CouchDB.Activations, "a")
	check.Equal(t, c.Runtimes.Kind, "process")
	check.Equal(t, len(c.Kafka.Hosts), 1)
	check.Equal(t, c.Pool.UserMemory, 4096<<20)
	check.Equal(t, c.GPU.SimulatedMemory, 16<<30)
	check.Equal(t, c.Limits.MemoryMax, 2<<30)
}

// TestOwnSettingsAreKeys: the keys that standalone reserves are keys of the invoker.
func TestOwnSettingsAreKeys(t *testing.T) {
	own, err := new(Standalone).invokerSettings("")
	check.NoError(t, err)
	var names []string
	for _, v := range own {
		names = append(names, v.variable+"=1")
		_, err := CheckSettings(config.Input{Environ: []string{v.variable + "=1"}})
		check.That(check.Must(t), err != nil, "%s", v.variable)
		check.Contains(t, err.Error(), cmp.Or(v.flag, "chooses the value itself"), "%s", v.variable)
	}
	_, given, _ := config.Given(config.Input{Environ: names})
	check.Equal(t, len(given), len(own))
	below := map[string]string{"whisk.kafka.common.": "sasl-mechanism", "whisk.etcd.": "hosts"}
	for _, r := range reserved {
		_, err := CheckSettings(config.Input{Settings: []string{r.name + below[r.name] + "=x"}})
		check.ErrorContains(t, err, r.why)
	}
}

func TestCouchDBAddress(t *testing.T) {
	c, err := parseCouchDB("https://admin:se%40cret@db:6984")
	check.NoError(t, err)
	check.Equal(t, c.URL, "https://db:6984")
	check.Equal(t, c.User, "admin")
	check.Equal(t, c.Password, "se@cret")
	for _, bad := range []string{"", "db:5984", "http://db:5984", "ftp://a:secret@db", "http://a:secret@db:port"} {
		_, err := parseCouchDB(bad)
		check.That(check.Must(t), err != nil, "%q", bad)
		check.Lacks(t, err.Error(), "secret")
	}
}

// TestStartNamesTheFlag: the error about a wrong value names the flag.
func TestStartNamesTheFlag(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	check.NoError(t, os.WriteFile(file, nil, 0o600))
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
		check.That(check.Must(t), err != nil, "%s", c.want)
		check.That(t, strings.HasPrefix(err.Error(), c.want), "%q: %v", c.want, err)
		check.Lacks(t, err.Error(), "secret")
		check.Lacks(t, err.Error(), "\n")
	}
}

// engineWith returns the address of a fake Docker Engine that has these images.
func engineWith(t *testing.T, images ...string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "d.sock")
	ln, err := net.Listen("unix", socket)
	check.NoError(t, err)
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
	check.NoError(t, err)
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
		check.NoError(t, err, "%q at %s", c.wanted, c.host)
		check.Equal(t, runtime, c.runtime, "%q at %s", c.wanted, c.host)
		check.Contains(t, why, c.why, "%q at %s", c.wanted, c.host)
	}
	for _, c := range []struct{ wanted, host, want string }{
		{"docker", none, "Docker does not answer"}, {"docker", some, "make images builds it"}, {"podman", none, "--runtime podman: want"},
	} {
		_, _, err := chooseRuntime(t.Context(), c.wanted, c.host, m)
		check.ErrorContains(t, err, c.want)
	}
}

// TestPythonForGPUs: python:3-gpu is the image with the CUDA libraries if Docker has it.
func TestPythonForGPUs(t *testing.T) {
	check.That(t, hasImage(t.Context(), engineWith(t, "gpuwhisk/action-python3-gpu:latest"), gpuImage))
	check.That(t, !hasImage(t.Context(), engineWith(t), gpuImage))
	check.That(t, !hasImage(t.Context(), "unix://"+filepath.Join(t.TempDir(), "none.sock"), gpuImage))
	m, err := activation.ParseManifest(defaultManifest(gpuImage), activation.ManifestOptions{})
	check.NoError(t, err)
	for kind, want := range map[string]string{"python:3-gpu": "gpuwhisk/action-python3-gpu:latest", "python:3": "gpuwhisk/action-python3:latest"} {
		r, ok := m.Runtime(kind)
		check.That(t, ok, "%s", kind)
		check.Equal(t, m.ManagedReference(r.Image), want, "%s", kind)
	}
}

func TestBanner(t *testing.T) {
	s := begin(t, &fakeInvoker{}, func(o *Options) { o.GPUs, o.GPUMemory = 2, 8*activation.GB })
	var b bytes.Buffer
	s.Banner(&b)
	for _, want := range []string{"2 simulated, 8 GB each", "wsk property set --apihost " + s.Info().APIHost + " --auth " + s.Info().Guest().AuthKey(), s.Info().Data, "(embedded)"} {
		check.Contains(t, b.String(), want)
	}
	check.AtLeast(t, len(s.Info().Database.Password), 32)
	check.Lacks(t, b.String(), s.Info().Database.Password)
}

func TestAnInvokerThatCannotStart(t *testing.T) {
	reason := errors.New("no such device")
	_, err := Start(t.Context(), Options{Data: t.TempDir(), Runtime: "process",
		Invoker: func(context.Context, []string, []string) (func() error, error) { return nil, reason }})
	check.ErrorIs(t, err, reason)
	s, err := Start(t.Context(), Options{Data: t.TempDir(), Runtime: "process",
		Invoker: func(context.Context, []string, []string) (func() error, error) {
			return func() error { return reason }, nil
		}})
	check.NoError(t, err)
	check.ErrorIs(t, s.WaitReady(t.Context()), reason)
	check.NoError(t, s.Stop(t.Context()), "the earlier result")
}

// TestCallsWaitForTheInvokerThatStarts: no call is refused while the invoker starts, and
// /ping answers pong as soon as an action can run.
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
	check.NoError(t, err)
	t.Cleanup(func() { stop(t, s) })
	d := at(t, s)
	d.anonymous().contains("GET", "/ping", "", 503, "starting")
	d.put("actions/hello", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	answered := make(chan answer, 1)
	go func() { answered <- d.do("POST", actions+"hello?blocking=true&result=true", `{"a":1}`) }()
	close(hold)
	got := <-answered
	check.Equal(t, got.status, 200, "a call that came early")
	check.Equal(t, got.body, `{"a":1}`, "a call that came early")
	d.anonymous().contains("GET", "/ping", "", 200, "")
}

// TestTwoOnOneHost: the invokers of different data directories have different names, and
// therefore different containers. The invoker of the same directory finds its own
// containers again.
func TestTwoOnOneHost(t *testing.T) {
	name := func(data string) string {
		var got []string
		f := &fakeInvoker{t: t}
		s, err := Start(t.Context(), Options{Data: data, Runtime: "process",
			Invoker: func(ctx context.Context, environ, args []string) (func() error, error) {
				got = args
				return f.start(ctx, environ, args)
			}})
		check.NoError(t, err)
		if err := s.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		check.Equal(check.Must(t), len(got), 4, "%q", got)
		check.Equal(t, got[2], "--uniqueName")
		check.That(t, got[3] != "")
		return got[3]
	}
	one, other := t.TempDir(), t.TempDir()
	first := name(one)
	check.That(t, name(other) != first, "%s", first)
	check.Equal(t, name(one), first)
}
