package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// callsAPI is an action that uses the API by the address and the key that it is given: it
// answers with the statuses of three requests, its own, one without a key and one whose
// host is a name.
const callsAPI = `
import base64, os, urllib.error, urllib.request

def status(key, host=None):
    request = urllib.request.Request(os.environ["__OW_API_HOST"] + "/api/v1/namespaces")
    request.add_header("Authorization", "Basic " + base64.b64encode(key.encode()).decode())
    if host:
        request.add_header("Host", host)
    try:
        return urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code

def main(args):
    key = os.environ["__OW_API_KEY"]
    return {"own": status(key), "stranger": status("a:b"), "name": status(key, "evil.example")}
`

// TestActionsCallTheAPI: the address that actions are given leads to the API, from within
// containers, too, which do not reach the loopback interface.
func TestActionsCallTheAPI(t *testing.T) {
	withEachEngine(t, func(t *testing.T, w parts) {
		if w.containerd != "" {
			t.Skip("standalone serves its API to Docker's networks alone")
		}
		p := start(t, w, setup{})
		p.insert(&whisk.Action{Name: "caller", Exec: python(callsAPI), Annotations: whisk.KeyValueArr{{Key: "provide-api-key", Value: true}}})
		p.call("caller", nil).want(t, 0, `{"name":403,"own":200,"stranger":401}`)
	})
}

// connects is an action that asks for the invoker's admin port at the gateway.
const connects = `
import os, urllib.parse, urllib.request

def main(args):
    host = urllib.parse.urlsplit(os.environ["__OW_API_HOST"]).hostname
    try:
        return {"got": urllib.request.urlopen("http://%s:%s/ping" % (host, args["port"]), timeout=60).status}
    except OSError as error:
        return {"got": type(error).__name__}
`

// TestActionsDoNotReachTheAdminPort, which listens on all addresses: connections from
// action containers are closed before anything is read.
func TestActionsDoNotReachTheAdminPort(t *testing.T) {
	t.Parallel()
	p := start(t, dockerParts(t), setup{child: true})
	at, err := url.Parse(p.admin.URL)
	check.NoError(t, err)
	p.insert(&whisk.Action{Name: "connects", Exec: python(connects)})
	o := p.call("connects", map[string]any{"port": at.Port()})
	o.want(t, 0, "")
	check.That(t, strings.Contains(o.text(), "Reset") || strings.Contains(o.text(), "Disconnected"), "%s", o.text())
	resp, err := http.Get(p.admin.URL + "/ping")
	check.NoError(t, err)
	resp.Body.Close()
	check.Equal(t, resp.StatusCode, http.StatusOK)
}
