//go:build ansible

package tests

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// TestRole: the steps of OpenWhisk's own role deploy our image if only its name is
// changed, over http and over https with client certificates. An action runs, and docker
// stop finishes a running action.
func TestRole(t *testing.T) {
	w := newFixture(t)
	w.vars["docker_image_prefix"], w.vars["docker_image_tag"] = "gpuwhisk", os.Getenv(ownTag)
	w.save()

	t.Log(w.must("deploy.yml", "--limit", "host0"))
	w.usable()
	w.stopDrains()
	docker(t, "rm", "-f", "invoker0")
	if !short {
		w.numbered()
	}

	w.secure()
	w.must("deploy.yml", "--limit", "host0")
	_, err := http.Get(fmt.Sprintf("https://127.0.0.1:%d/ping", w.port))
	check.That(t, err != nil, "a client without a certificate is refused")
	w.usable()
	if !short {
		w.stopDrains()
	}
}

// numbered starts the invoker as OpenWhisk's chart does, without --id, so ZooKeeper
// assigns the number. The container does not share the host's process ids either.
func (w *fixture) numbered() {
	w.t.Helper()
	zookeeper := peer(w.t, "zookeeper", "GPUWHISK_ZOOKEEPER_DIR="+filepath.Join(w.dir, "zookeeper"), "GPUWHISK_ZOOKEEPER_HOST="+w.gateway)["GPUWHISK_TEST_ZOOKEEPER"]
	w.vars["test_args"], w.vars["test_pid_mode"] = "--uniqueName node-of-a-cluster", ""
	w.vars["test_env"].(map[string]string)["ZOOKEEPER_HOSTS"] = zookeeper
	w.save()
	w.must("deploy.yml", "--limit", "host0")
	w.usable()
	log := w.logs()
	check.That(w.t, strings.Contains(log, "invoker0/node-of-a-cluster"), "%s\nthe number is that of ZooKeeper", log)
	check.Equal(w.t, docker(w.t, "inspect", "--format", "{{.HostConfig.PidMode}}", "invoker0"), "", "the namespace of process ids")
	docker(w.t, "rm", "-f", "invoker0")
	delete(w.vars, "test_args")
	delete(w.vars, "test_pid_mode")
}

// usable checks that an action runs.
func (w *fixture) usable() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	if w.scheduling == nil { // otherwise activations wait at the scheduler
		if err := w.admin.WaitReady(ctx); err != nil {
			w.t.Fatalf("no invoker becomes healthy: %v\n%s", err, w.logs())
		}
	}
	w.create("hello", `function main(p) { console.log('said'); return {by: 'gpuwhisk', greeting: 'hello ' + p.name} }`)
	late := time.After(waitLimit)
	for docker(w.t, "inspect", "--format", "{{.State.Health.Status}}", "invoker0") != "healthy" {
		select {
		case <-late:
			w.t.Fatalf("the image's health check: %s", docker(w.t, "inspect", "--format", "{{json .State.Health}}", "invoker0"))
		case <-time.After(200 * time.Millisecond):
		}
	}
	if w.scheduling == nil {
		w.greets("role", w.logs)
		return
	}
	_, by, err := w.scheduling.invoke("hello")
	check.NoError(w.t, err, "%s\ninvoke", w.logs())
	check.Equal(check.Must(w.t), by, "gpuwhisk", "%s\nwhat ran it", w.logs())
}

// greets calls hello with a name and checks the answer. On a failure it prints logs.
func (w *fixture) greets(name string, logs func() string) {
	w.t.Helper()
	status, text, err := w.call("POST", "actions/hello?blocking=true", `{"name":"`+name+`"}`)
	switch {
	case err != nil:
		w.t.Fatalf("invoke: %v\n%s", err, logs())
	case status != 200:
		w.t.Fatalf("invoke: status %d: %s\n%s", status, text, logs())
	case !strings.Contains(string(text), "hello "+name):
		w.t.Fatalf("invoke: it answers %s\n%s", text, logs())
	}
	w.t.Logf("hello: %s", text)
}

// create deploys an action of Node.js.
func (w *fixture) create(name, code string) {
	w.t.Helper()
	body, _ := json.Marshal(map[string]any{"exec": map[string]any{"kind": "nodejs:20", "code": code}, "limits": map[string]any{"memory": 128}})
	w.put(name, body)
}

// put deploys an action, or replaces it.
func (w *fixture) put(name string, body []byte) {
	w.t.Helper()
	status, text, err := w.call("PUT", "actions/"+name+"?overwrite=true", string(body))
	check.NoError(w.t, err, "create action %s", name)
	check.Equal(check.Must(w.t), status, 200, "create action %s: %s: status", name, text)
}

// stopDrains stops the invoker while an action runs, and checks that the action is
// finished.
func (w *fixture) stopDrains() {
	w.t.Helper()
	answer := w.startSlow()
	docker(w.t, "stop", "--time", "60", "invoker0")
	check.Contains(w.t, <-answer, `"late":true`, "%s\nactivations that ran when the invoker was stopped", w.logs())
	// Idle containers stay for the next process, and an operator finds them by their
	// label.
	left := docker(w.t, "ps", "-aq", "--filter", "name=^/wsk00_")
	check.That(w.t, left != "", "containers are left")
	check.Equal(w.t, docker(w.t, "ps", "-aq", "--filter", "label=org.gpuwhisk.invoker=wsk00"), left, "containers that are left, by their label,")
}

// printed reports whether an action's container has printed a text.
func (w *fixture) printed(text string) bool {
	w.t.Helper()
	for id := range strings.FieldsSeq(docker(w.t, "ps", "-q", "--filter", "name=^/wsk00_")) {
		if strings.Contains(docker(w.t, "logs", id), text) {
			return true
		}
	}
	return false
}

// secure creates the key store and the certificates that OpenWhisk's role copies, and
// the settings for https.
func (w *fixture) secure() {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.NoError(w.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "invoker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check.NoError(w.t, err)
	cert, _ := x509.ParseCertificate(der)
	store, err := pkcs12.Modern.Encode(key, cert, nil, "openwhisk")
	check.NoError(w.t, err)
	keyDER, _ := x509.MarshalPKCS8PrivateKey(key)
	var paths []string
	for name, data := range map[string][]byte{
		"invoker-openwhisk-keystore.p12":    store,
		"invoker-openwhisk-server-cert.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"invoker-openwhisk-server-key.pem":  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}),
	} {
		path := filepath.Join(w.dir, name)
		check.NoError(w.t, os.WriteFile(path, data, 0o600))
		paths = append(paths, path)
	}
	w.vars["test_keys"] = paths
	maps.Copy(w.vars["invoker"].(map[string]any), map[string]any{
		"protocol": "https", "ssl": map[string]any{"cert": "invoker-openwhisk-server-cert.pem", "key": "invoker-openwhisk-server-key.pem"},
	})
	maps.Copy(w.vars["test_env"].(map[string]string), map[string]string{
		"CONFIG_whisk_invoker_protocol": "https", "CONFIG_whisk_invoker_https_clientAuth": "true",
		"CONFIG_whisk_invoker_https_keystorePath": "/conf/invoker-openwhisk-keystore.p12", "CONFIG_whisk_invoker_https_keystorePassword": "openwhisk",
		"CONFIG_whisk_invoker_https_keystoreFlavor": "PKCS12",
	})
	w.save()
	http.DefaultTransport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true} // a client without a certificate
}
