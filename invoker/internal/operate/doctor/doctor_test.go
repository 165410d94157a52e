package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/docker"
)

func TestHealthyHost(t *testing.T) {
	f := healthy()
	f.cards = nil // the fake host has no shim library
	r := Examine(t.Context(), f.Machine, time.Minute)
	for _, x := range r {
		if x.Status != OK && x.Check != "shim" {
			t.Errorf("%+v", x)
		}
	}
	if len(r) < 20 {
		t.Errorf("only %d lines", len(r))
	}
}

// TestNothingConfigured: the groups of a deployment are skipped, with the reason.
func TestNothingConfigured(t *testing.T) {
	r := Examine(t.Context(), bare().Machine, time.Minute)
	if r.ExitCode() != 1 {
		t.Errorf("exit code %d: %+v", r.ExitCode(), r)
	}
	for _, group := range []string{"Settings", "Kafka", "CouchDB", "ZooKeeper"} {
		output := false
		for _, x := range r {
			output = output || x.Group == group && x.Status == Skip && strings.HasPrefix(x.Found, "not configured")
		}
		if !output {
			t.Errorf("%s has no finding that it is not configured", group)
		}
	}
}

func TestExitCodes(t *testing.T) {
	for _, tt := range []struct {
		found []Status
		want  int
	}{{nil, 0}, {[]Status{OK, OK}, 0}, {[]Status{OK, Skip}, 0}, {[]Status{Skip, Warn}, 1}, {[]Status{OK, Warn, OK}, 1}, {[]Status{Fail, Warn}, 2}} {
		var r Report
		for _, s := range tt.found {
			r = append(r, Result{Finding: Finding{Status: s}})
		}
		check.Equal(t, r.ExitCode(), tt.want, "%v", tt.found)
	}
}

// TestNothingHangs: questions without an answer are abandoned at the same time, and
// named.
func TestNothingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		f := healthy()
		byName(f)
		machine := reflect.ValueOf(f.Machine).Elem()
		for i := range machine.NumField() {
			if question := machine.Field(i); question.Kind() == reflect.Func {
				question.Set(reflect.MakeFunc(question.Type(), func([]reflect.Value) (none []reflect.Value) {
					<-release
					for out := range question.Type().Outs() {
						none = append(none, reflect.Zero(out))
					}
					return none
				}))
			}
		}
		f.files["lib/libgpuwhisk.so"] = text("")
		f.ProbeImages, f.ProbeLimit = []string{"i:1"}, 5*time.Second

		began := time.Now()
		r := Examine(t.Context(), f.Machine, 3*time.Second)
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		close(release)
		for _, question := range []string{
			"GPU/NVML", "GPU/toolkit", "Containers/engine", "Containers/probe", "Host/port",
			"Kafka/brokers", "CouchDB/server", "ZooKeeper/numbers",
		} {
			group, name, _ := strings.Cut(question, "/")
			x := r.only(t, group, name)
			check.Equal(t, x.Status, Fail, "%s", question)
			check.Contains(t, x.Found, "no answer", "%s", question)
		}
	})
}

func TestSecretsStayInside(t *testing.T) {
	f := healthy()
	f.Config.Kafka.TLS.KeystorePassword = "key-st0re"
	logIn(f, "SASL_PLAINTEXT")
	f.Couch = func(context.Context) (couchdb.Survey, error) {
		return couchdb.Survey{}, errors.New("http://whisk:some_passw0rd@db:5984: refused")
	}
	f.Broker = func(context.Context, string) (kafka.ClusterInfo, error) {
		return kafka.ClusterInfo{}, errors.New("store does not open with key-st0re, nor broker with jaas-s3cret")
	}
	r := Examine(t.Context(), f.Machine, time.Minute)
	var text, object bytes.Buffer
	check.NoError(t, errors.Join(r.Print(&text, true, 0), r.PrintJSON(&object)))
	for _, out := range []string{text.String(), object.String()} {
		check.Lacks(t, out, "some_passw0rd")
		check.Lacks(t, out, "key-st0re")
		check.Lacks(t, out, "jaas-s3cret")
		if strings.Count(out, "********") < 3 {
			t.Errorf("masks are missing in\n%s", out)
		}
	}
}

func report() Report {
	return Report{
		{"GPU", "driver", Finding{OK, "NVIDIA driver 1", ""}},
		{"GPU", "MIG", Finding{Warn, "pending\x1b[31m\nreset", "nvidia-smi -r"}},
		{"Kafka", "brokers", Finding{Fail, "away", "start <it>"}},
	}
}

func TestPrint(t *testing.T) {
	var out bytes.Buffer
	check.NoError(t, report().Print(&out, false, 0))
	want := `GPU
  ok    driver           NVIDIA driver 1
  warn  MIG              pending [31m reset. Fix: nvidia-smi -r

Kafka
  fail  brokers          away. Fix: start <it>

Something will fail: 1 ok, 1 warn, 1 fail.
`
	check.Equal(t, out.String(), want)
	out.Reset()
	check.NoError(t, report().Print(&out, true, 0))
	check.Contains(t, out.String(), "\x1b[31mfail\x1b[0m", "in colour")
}

func TestPrintJSON(t *testing.T) {
	var out bytes.Buffer
	check.NoError(t, report().PrintJSON(&out))
	var got struct {
		Status string
		Checks []struct{ Group, Check, Status, Found, Fix string }
	}
	check.NoError(t, json.Unmarshal(out.Bytes(), &got))
	check.Equal(t, got.Status, "fail")
	check.Equal(check.Must(t), len(got.Checks), 3)
	check.Equal(t, got.Checks[0].Status, "ok")
	check.Equal(t, got.Checks[2].Fix, "start <it>")
	check.Contains(t, out.String(), "start <it>", "signs as they are")
	out.Reset()
	check.NoError(t, (Report{}).PrintJSON(&out))
	check.Contains(t, out.String(), `"checks": []`, "empty report")
}

// TestSecretThatBeginsWithAnother: a secret that begins with another secret is masked
// completely.
func TestSecretThatBeginsWithAnother(t *testing.T) {
	c := config.Default()
	c.Admin.Password, c.CouchDB.Password = "openwhisk", "openwhisk-at-couch"
	r := (&Machine{Config: c}).masked(Report{{Finding: Finding{Found: "no login with openwhisk-at-couch"}}})
	check.Equal(t, r[0].Found, "no login with ********")
}

func TestOneLine(t *testing.T) {
	if got := oneLine(strings.Repeat("ä", 5000)); len([]rune(got)) > 700 {
		t.Errorf("%d characters", len([]rune(got)))
	}
	check.Equal(t, oneLine(" a\t\nb\x00c "), "a b c")
}

// TestLinesEndAtTheWidth: lines are broken between words and indented to their text.
func TestLinesEndAtTheWidth(t *testing.T) {
	r := Report{{"Kafka", "topics", Finding{Warn, strings.Repeat("word ", 40), "do this"}}}
	var out strings.Builder
	check.NoError(t, r.Print(&out, false, 70))
	lines := strings.Split(out.String(), "\n")
	for i, line := range lines {
		if len(line) > 70 {
			t.Errorf("line %d has %d columns: %q", i, len(line), line)
		}
	}
	if !strings.HasPrefix(lines[2], strings.Repeat(" ", margin)+"word") {
		t.Errorf("second line %q", lines[2])
	}
}

// TestLogOptionsHoldSecrets: of a log driver's options only the limits are shown.
func TestLogOptionsHoldSecrets(t *testing.T) {
	splunk := docker.LogSettings{Driver: "splunk", Options: map[string]string{"splunk-token": "secret", "max-size": "1m"}}
	check.Equal(t, describeLogs(splunk, true), "Docker's default, splunk, max-size 1m")
}
