package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// remote is a running invoker, reached at its admin port or at the REST port of gpuwhisk
// standalone.
type remote struct {
	Host     string `placeholder:"URL" env:"GPUWHISK_HOST" help:"Admin address of the invoker, http://HOST:PORT; by default a standalone (wsk's API host, 3233) and an invoker (8080) on this machine are tried."`
	User     string `env:"CONFIG_whisk_invoker_username" default:"invoker.user" help:"User of the admin port."`
	Password string `env:"CONFIG_whisk_invoker_password" default:"invoker.pass" help:"Password of the admin port; better given as CONFIG_whisk_invoker_password."`
}

// usual lists the default addresses of a standalone and of an invoker on this machine.
var usual = []string{"http://127.0.0.1:3233", "http://127.0.0.1:8080"}

// ownAPI returns the address of the REST API that wsk uses, if it is on this machine,
// because it may be a standalone on another port.
func ownAPI(w whisk) []string {
	at, err := url.Parse(w.APIHost)
	if err != nil || at.Scheme != "http" {
		return nil
	}
	if ip := net.ParseIP(at.Hostname()); at.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil
	}
	return []string{"http://" + at.Host}
}

// errUnknown means that the invoker does not know the requested item.
var errUnknown = errors.New("not known")

// get reads a path below /console/.
func (r remote) get(ctx context.Context, path string, into any) error {
	return r.ask(ctx, http.MethodGet, "console/"+path, into)
}

// ask sends a request to the admin port and decodes the answer.
func (r remote) ask(ctx context.Context, method, path string, into any) error {
	hosts := append(ownAPI(whisk{APIHost: os.Getenv("APIHOST")}.orOwn()), usual...)
	if r.Host != "" {
		hosts = []string{strings.TrimSuffix(r.Host, "/")}
		if !strings.Contains(r.Host, "://") {
			hosts[0] = "http://" + hosts[0]
		}
	}
	var tried []error
	for _, host := range hosts {
		b, err := fetch(ctx, method, host+"/"+path, r.User, r.Password)
		if err == nil {
			if err := json.Unmarshal(b, into); err != nil {
				return fmt.Errorf("%s does not answer like a GPU Whisk invoker: %w", host, err)
			}
			return nil
		}
		if errors.Is(err, errUnknown) {
			return err
		}
		tried = append(tried, err)
	}
	if r.Host == "" {
		return fmt.Errorf("no invoker answers on this machine (use --host for another): %w", errors.Join(tried...))
	}
	return errors.Join(tried...)
}

// fetch sends one HTTP request and returns the body of the answer.
func fetch(ctx context.Context, method, at, user, password string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(user, password)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", at, err)
	case res.StatusCode == http.StatusOK:
		return b, nil
	}
	var refusal struct{ Error string }
	_ = json.Unmarshal(b, &refusal) // only JSON answers contain a reason
	if res.StatusCode == http.StatusNotFound && refusal.Error != "" {
		return nil, fmt.Errorf("%w: %s", errUnknown, refusal.Error)
	}
	if res.StatusCode == http.StatusUnauthorized {
		refusal.Error = "the admin port refuses --user and --password (CONFIG_whisk_invoker_username, CONFIG_whisk_invoker_password)"
	}
	return nil, fmt.Errorf("%s: %s %s", at, res.Status, refusal.Error)
}

// whisk holds the address and the key of the OpenWhisk that has the activation records,
// as for wsk.
type whisk struct {
	APIHost string `name:"apihost" placeholder:"URL" env:"APIHOST" help:"Address of OpenWhisk's REST API; default: from WSK_CONFIG_FILE or ~/.wskprops."`
	Auth    string `placeholder:"UUID:KEY" env:"AUTH" help:"Key for the API; better given as AUTH; default: from WSK_CONFIG_FILE or ~/.wskprops."`
}

// orOwn fills empty fields from the settings of the user's wsk: the file in
// WSK_CONFIG_FILE, or else ~/.wskprops.
func (w whisk) orOwn() whisk {
	props := os.Getenv("WSK_CONFIG_FILE")
	if home, err := os.UserHomeDir(); err == nil && props == "" {
		props = filepath.Join(home, ".wskprops")
	}
	text, _ := os.ReadFile(props) // a missing file adds nothing
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "APIHOST":
			w.APIHost = cmp.Or(w.APIHost, value)
		case "AUTH":
			w.Auth = cmp.Or(w.Auth, value)
		}
	}
	return w
}

// record fetches the record of an activation.
func (w whisk) record(ctx context.Context, id string) ([]byte, error) {
	if w.APIHost == "" || w.Auth == "" {
		return nil, errors.New("no OpenWhisk to read the record from: give --apihost and --auth, or use wsk property set")
	}
	host := strings.TrimSuffix(w.APIHost, "/")
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	user, key, _ := strings.Cut(w.Auth, ":")
	return fetch(ctx, http.MethodGet, host+"/api/v1/namespaces/_/activations/"+id, user, key)
}
