package standalone

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// childData names the data directory when this test program runs as a
// standalone to be killed.
const childData = "GPUWHISK_TEST_STANDALONE_DATA"

// TestChild is no test: it is the process that TestKilledAndStartedAgain
// kills. Its invoker takes activations and never answers.
func TestChild(t *testing.T) {
	data := os.Getenv(childData)
	if data == "" {
		t.Skip("only run by TestKilledAndStartedAgain")
	}
	f := &fakeInvoker{t: t, run: func(*activation.Message) activation.Response { select {} }}
	s, err := Start(t.Context(), Options{Data: data, Runtime: "process", Invoker: f.start})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	fmt.Println("host", s.Info().APIHost, s.Info().Guest().AuthKey())
	<-t.Context().Done() // until the kill, or the test's time is up
}

func TestKilledAndStartedAgain(t *testing.T) {
	data := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=5m")
	child.Env = append(os.Environ(), childData+"="+data)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	defer func() {
		if !ended {
			_ = child.Process.Kill()
			_ = child.Wait()
		}
	}()
	host := ""
	for lines := bufio.NewScanner(out); host == "" && lines.Scan(); {
		host, _ = strings.CutPrefix(lines.Text(), "host ")
		if !strings.HasPrefix(host, "http") {
			host = ""
		}
	}
	if host == "" {
		t.Fatal("the child did not come up")
	}
	host, key, _ := strings.Cut(host, " ")
	d := apiClient{t, host, key}
	d.put("actions/kept", `{"exec":{"kind":"nodejs:20","code":"kept"}}`)
	var queued struct{ ActivationID string }
	if got := d.do("POST", actions+"kept?blocking=false", `{"n":1}`); json.Unmarshal([]byte(got.body), &queued) != nil || queued.ActivationID == "" {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	ended = true

	s := begin(t, &fakeInvoker{run: echo}, func(o *Options) { o.Data = data })
	d = at(t, s)
	d.contains("GET", actions+"kept", "", 200, `"code":"kept"`)
	eventually(t, func() (string, error) {
		got := d.do("GET", "/api/v1/namespaces/_/activations/"+queued.ActivationID+"/result", "")
		if got.status != 200 || !strings.Contains(got.body, `"n":1`) {
			return "", fmt.Errorf("what was queued: %d %s", got.status, got.body)
		}
		return got.body, nil
	})
}

func TestStoppedAndStartedAgain(t *testing.T) {
	data := t.TempDir()
	f := &fakeInvoker{t: t, run: echo}
	ctx := t.Context()
	s, err := Start(ctx, Options{Data: data, Runtime: "process", Invoker: f.start})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(ctx); err != nil {
		t.Fatal(err)
	}
	d := at(t, s)
	d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	got := d.do("POST", actions+"a?blocking=true", `{}`)
	id := got.header.Get("x-openwhisk-activation-id")
	stop(t, s)
	if _, err := os.Stat(filepath.Join(data, "store.db")); err != nil {
		t.Fatal(err)
	}

	s = begin(t, &fakeInvoker{run: echo}, func(o *Options) { o.Data = data })
	if got := at(t, s).do("GET", "/api/v1/namespaces/_/activations/"+id, ""); got.status != 200 {
		t.Errorf("record after a restart: %d %s", got.status, got.body)
	}
}

func TestTwoOnOneDirectory(t *testing.T) {
	data := t.TempDir()
	begin(t, &fakeInvoker{}, func(o *Options) { o.Data = data })
	_, err := Start(t.Context(), Options{Data: data, Runtime: "process"})
	if err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second one on the same data: %v", err)
	}
}

func TestStopWaitsForWhatRuns(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	f := &fakeInvoker{run: func(*activation.Message) activation.Response {
		close(started)
		<-release
		return activation.Response{Result: json.RawMessage(`{"done":true}`)}
	}, t: t}
	s, err := Start(t.Context(), Options{Data: t.TempDir(), Runtime: "process", Invoker: f.start})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	d := at(t, s)
	d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	result := make(chan answer, 1)
	go func() { result <- d.do("POST", actions+"a?blocking=true&result=true", `{}`) }()
	<-started
	stopped := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		stopped <- s.Stop(ctx)
	}()
	close(release)
	if got := <-result; got.status != 200 || got.body != `{"done":true}` {
		t.Errorf("the call under way: %d %s", got.status, got.body)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
