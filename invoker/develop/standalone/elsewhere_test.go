package standalone

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/apache/openwhisk-client-go/whisk"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// elsewhere returns a database with a user: the configured one, or a pouchdb-server that
// it starts for this test.
func elsewhere(t *testing.T) *url.URL {
	t.Helper()
	if u, err := url.Parse(os.Getenv("GPUWHISK_TEST_COUCHDB")); err == nil && u.User != nil {
		return u
	}
	u, err := url.Parse(peertest.StartPouchDB(t, 17000, "admin", "secret"))
	check.NoError(t, err)
	u.User = url.UserPassword("admin", "secret")
	return u
}

// TestDatabaseElsewhere runs on an external database: the databases, design documents in
// JavaScript and subjects that standalone deploys there must work like the embedded
// store.
func TestDatabaseElsewhere(t *testing.T) {
	u := elsewhere(t)
	prefix := fmt.Sprintf("standalone_%d_", os.Getpid())
	t.Cleanup(func() {
		for _, name := range []string{"whisks", "activations", "subjects"} {
			target := *u
			target.Path = "/" + prefix + name
			req, err := http.NewRequest(http.MethodDelete, target.String(), nil)
			if err != nil {
				t.Error(err)
				continue
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				continue
			}
			res.Body.Close()
		}
	})
	f := &fakeInvoker{run: echo}
	s := begin(t, f, func(o *Options) { o.CouchDB, o.DBPrefix = u.String(), prefix })
	d := at(t, s)
	c := client(t, s)

	d.put("packages/pkg", `{"parameters":[{"key":"pp","value":1}]}`)
	d.put("packages/bound", `{"binding":{"namespace":"_","name":"pkg"}}`)
	d.put("actions/pkg/act", `{"exec":{"kind":"nodejs:20","code":"`+strings.Repeat("x", 20_000)+`"}}`)
	d.put("actions/pkg/act?overwrite=true", `{"publish":true}`)
	d.put("actions/plain", `{"exec":{"kind":"nodejs:20","code":"short"}}`)
	var a struct{ Exec struct{ Code string } }
	got := d.do("GET", actions+"pkg/act", "")
	check.NoError(t, json.Unmarshal([]byte(got.body), &a), "%.200s", got.body)
	check.Equal(t, len(a.Exec.Code), 20_000)
	d.equals("POST", actions+"bound/act?blocking=true&result=true", `{"c":2}`, 200, `{"pp":1,"c":2}`)
	for path, want := range map[string]int{"actions": 2, "packages": 2, "triggers": 0, "rules": 0} {
		d.equals("GET", "/api/v1/namespaces/_/"+path+"?count=true", "", 200, fmt.Sprintf(`{"%s":%d}`, path, want))
		var list []json.RawMessage
		got := d.do("GET", "/api/v1/namespaces/_/"+path, "")
		check.NoError(t, json.Unmarshal([]byte(got.body), &list), "%s: %s", path, got.body)
		check.Equal(t, len(list), want, "%s: %s", path, got.body)
	}
	check.Equal(t, len(must[[]whisk.Action](t)(c.Actions.List("bound", &whisk.ActionListOptions{Limit: 5}))), 1)
	for _, name := range []string{"", "bound/act"} {
		list := eventually(t, func() ([]whisk.Activation, error) {
			l, _, err := c.Activations.List(&whisk.ActivationListOptions{Limit: 5, Name: name, Since: 1})
			if err == nil && len(l) != 1 {
				err = fmt.Errorf("%d activations by the name %q, want one", len(l), name)
			}
			return l, err
		})
		check.Equal(t, list[0].Name, "act", "by the name %q", name)
		check.That(t, list[0].End != 0, "by the name %q: %+v", name, list[0])
	}
	wrong := d
	wrong.auth = "no:body"
	wrong.contains("GET", actions, "", 401, "")
	d.contains("DELETE", actions+"plain", "", 200, "")
}
