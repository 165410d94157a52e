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
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// childData is the variable with the data directory that makes this test program run as
// a standalone to be killed.
const childData = "GPUWHISK_TEST_STANDALONE_DATA"

// TestChild is not a test: it is the process that TestKilledAndStartedAgain kills. Its
// invoker accepts activations and never answers.
func TestChild(t *testing.T) {
	data := os.Getenv(childData)
	if data == "" {
		t.Skip("only run by TestKilledAndStartedAgain")
	}
	f := &fakeInvoker{t: t, run: func(*activation.Message) activation.Response { select {} }}
	s, err := Start(t.Context(), Options{Data: data, Runtime: "process", Invoker: f.start})
	check.NoError(t, err)
	check.NoError(t, s.WaitReady(t.Context()))
	fmt.Println("host", s.Info().APIHost, s.Info().Guest().AuthKey())
	<-t.Context().Done() // until it is killed, or the test's time is up
}

func TestKilledAndStartedAgain(t *testing.T) {
	data := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.timeout=5m")
	child.Env = append(os.Environ(), childData+"="+data)
	out, err := child.StdoutPipe()
	check.NoError(t, err)
	check.NoError(t, child.Start())
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
	got := d.do("POST", actions+"kept?blocking=false", `{"n":1}`)
	check.NoError(t, json.Unmarshal([]byte(got.body), &queued), "%d %s", got.status, got.body)
	check.That(check.Must(t), queued.ActivationID != "", "%d %s", got.status, got.body)
	check.NoError(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	ended = true

	s := begin(t, &fakeInvoker{run: echo}, func(o *Options) { o.Data = data })
	d = at(t, s)
	d.contains("GET", actions+"kept", "", 200, `"code":"kept"`)
	result := eventually(t, func() (string, error) {
		got := d.do("GET", "/api/v1/namespaces/_/activations/"+queued.ActivationID+"/result", "")
		if got.status != 200 {
			return "", fmt.Errorf("the queued activation: %d %s", got.status, got.body)
		}
		return got.body, nil
	})
	check.Contains(t, result, `"n":1`)
}

func TestStoppedAndStartedAgain(t *testing.T) {
	data := t.TempDir()
	s := begin(t, &fakeInvoker{run: echo}, func(o *Options) { o.Data = data })
	d := at(t, s)
	d.put("actions/a", `{"exec":{"kind":"nodejs:20","code":"x"}}`)
	got := d.do("POST", actions+"a?blocking=true", `{}`)
	id := got.header.Get("x-openwhisk-activation-id")
	stop(t, s)
	_, err := os.Stat(filepath.Join(data, "store.db"))
	check.NoError(t, err)

	s = begin(t, &fakeInvoker{run: echo}, func(o *Options) { o.Data = data })
	at(t, s).contains("GET", "/api/v1/namespaces/_/activations/"+id, "", 200, id)
}

func TestTwoOnOneDirectory(t *testing.T) {
	data := t.TempDir()
	begin(t, &fakeInvoker{}, func(o *Options) { o.Data = data })
	_, err := Start(t.Context(), Options{Data: data, Runtime: "process"})
	check.ErrorContains(t, err, "another process")
}

func TestStopWaitsForWhatRuns(t *testing.T) {
	started, release := make(chan struct{}), make(chan struct{})
	f := &fakeInvoker{run: func(*activation.Message) activation.Response {
		close(started)
		<-release
		return activation.Response{Result: json.RawMessage(`{"done":true}`)}
	}}
	s := begin(t, f, nil)
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
	got := <-result
	check.Equal(t, got.status, 200, "the call under way")
	check.Equal(t, got.body, `{"done":true}`, "the call under way")
	check.NoError(t, <-stopped)
}
