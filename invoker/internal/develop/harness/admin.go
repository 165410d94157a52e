package harness

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// Admin is the administration page of an invoker.
type Admin struct{ URL, User, Password string }

// AdminOf returns an Admin with the user and the password of an environment, or with
// the defaults where the environment does not set them.
func AdminOf(environ []string) Admin {
	a := Admin{User: "invoker.user", Password: "invoker.pass"}
	for _, v := range environ {
		switch name, value, _ := strings.Cut(v, "="); name {
		case "CONFIG_whisk_invoker_username":
			a.User = value
		case "CONFIG_whisk_invoker_password":
			a.Password = value
		}
	}
	return a
}

// Do requests a path and returns the answer. It fails the test on an error.
func (a Admin) Do(t testing.TB, method, path string) []byte {
	t.Helper()
	status, text := a.Request(t, method, path)
	check.Equal(check.Must(t), status, http.StatusOK, "%s %s", method, path)
	return []byte(text)
}

// Request requests a path and returns the status and the answer.
func (a Admin) Request(t testing.TB, method, path string) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequest(method, a.URL+path, nil) // also at a test's end, when its context has ended
	check.NoError(t, err)
	req.SetBasicAuth(a.User, a.Password)
	res, err := http.DefaultClient.Do(req)
	check.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	check.NoError(t, err, "%s %s: %s", method, path, res.Status)
	return res.StatusCode, string(text)
}

// Get decodes the JSON answer of a path.
func (a Admin) Get(t testing.TB, path string, into any) {
	t.Helper()
	text := a.Do(t, http.MethodGet, path)
	check.NoError(t, json.Unmarshal(text, into), "%s: %.300s", path, text)
}

// Metric sums a metric over its labels, where part is among them; 0 if it has none.
func (a Admin) Metric(t testing.TB, name, part string) (sum float64) {
	t.Helper()
	for line := range strings.Lines(string(a.Do(t, http.MethodGet, "/metrics"))) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || !strings.ContainsAny(rest[:1], " {") || !strings.Contains(rest, part) {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, " "):]), 64)
		check.NoError(t, err)
		sum += v
	}
	return sum
}
