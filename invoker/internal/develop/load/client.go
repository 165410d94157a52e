package load

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/retry"
)

// Client is an OpenWhisk behind its REST interface.
type Client struct {
	base, user, key string
	parameters      []byte
	http            *http.Client
}

// Access is the address of an OpenWhisk and the identity of its caller.
type Access struct {
	APIHost    string // http://HOST:PORT; https without a scheme, as wsk has it
	Auth       string // UUID:KEY
	Insecure   bool   // takes any certificate
	Parameters []byte // of each call, a JSON object; empty: none
	InFlight   int    // calls under way at most
}

// NewClient checks the form of the access. The first call connects.
func NewClient(a Access) (*Client, error) {
	if !strings.Contains(a.APIHost, "://") {
		a.APIHost = "https://" + a.APIHost
	}
	u, err := url.Parse(strings.TrimSuffix(a.APIHost, "/"))
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("--apihost: want http://HOST:PORT or https://HOST")
	}
	user, key, ok := strings.Cut(a.Auth, ":")
	if !ok || user == "" || key == "" {
		return nil, errors.New("--auth: want UUID:KEY, as wsk property get --auth shows it")
	}
	if len(a.Parameters) == 0 {
		a.Parameters = []byte("{}")
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(a.Parameters, &object); err != nil || object == nil {
		return nil, errors.New("--param-file: want one JSON object")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = a.InFlight+fetchers, a.InFlight+fetchers
	transport.ForceAttemptHTTP2 = false // one connection for each call, as wsk and others make them
	transport.TLSClientConfig = &tls.Config{InsecureSkipVerify: a.Insecure, MinVersion: tls.VersionTLS12}
	return &Client{u.String() + "/api/v1/namespaces/", user, key, a.Parameters, &http.Client{Transport: transport}}, nil
}

// Close gives idle connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// path is that of an action: NAME, PACKAGE/NAME, or either behind /NAMESPACE/.
func path(action string) (string, error) {
	parts := strings.Split("_/"+action, "/")
	if strings.HasPrefix(action, "/") {
		parts = parts[2:]
	}
	missing := func(part string) bool { return part == "" || part == "." || part == ".." }
	if len(parts) < 2 || len(parts) > 3 || slices.ContainsFunc(parts, missing) {
		return "", fmt.Errorf("action %q: want NAME, PACKAGE/NAME or /NAMESPACE/[PACKAGE/]NAME", action)
	}
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return parts[0] + "/actions/" + strings.Join(parts[1:], "/"), nil
}

// Check asks for the actions, so that a wrong name is one error and not a
// thousand failed calls.
func (c *Client) Check(ctx context.Context, actions []string) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(fetchers)
	for _, a := range actions {
		all.Go(func() error {
			p, err := path(a)
			if err != nil {
				return err
			}
			bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
			defer cancel()
			status, body, err := c.do(bounded, http.MethodGet, p+"?code=false", nil)
			switch {
			case err != nil:
				kind, detail := broken(err)
				return fmt.Errorf("ask for action %s: %s: %s", a, kind, detail)
			case status == http.StatusUnauthorized:
				return fmt.Errorf("ask for action %s: --auth is refused: %s", a, errorText(body))
			case status == http.StatusNotFound:
				return fmt.Errorf("action %s: %s", a, errorText(body))
			}
			return nil // a caller who may not read an action may still be allowed to call it
		})
	}
	return all.Wait()
}

// record holds the fields of an activation record that are read. A finished activation
// has a response.
type record struct {
	ID       string `json:"activationId"`
	Response *struct {
		Status  string `json:"status"`
		Success bool   `json:"success"`
	} `json:"response"`
	Annotations activation.Annotations `json:"annotations"`
}

// Invoke calls an action. When OpenWhisk stops waiting, which it does after 60
// seconds, the record is asked for until it is there.
func (c *Client) Invoke(ctx context.Context, action string) Answer {
	p, err := path(action)
	if err != nil {
		return Answer{Failure: "no such action", Detail: err.Error()}
	}
	status, body, err := c.do(ctx, http.MethodPost, p+"?blocking=true", c.parameters)
	if err != nil {
		kind, detail := broken(err)
		return Answer{Failure: kind, Detail: detail}
	}
	var a record
	if err := json.Unmarshal(body, &a); err != nil || a.ID == "" {
		return Answer{Failure: fmt.Sprint(status, " ", http.StatusText(status)), Detail: errorText(body)}
	}
	for status == http.StatusAccepted || a.Response == nil {
		if !retry.Sleep(ctx, time.Second) {
			return Answer{ID: a.ID, Failure: failureSlow}
		}
		if later, ok := c.record(ctx, a.ID); ok && later.Response != nil {
			a, status = later, http.StatusOK
		}
	}
	run, _ := a.Annotations.GPURun() // only GPU runs have their start in the answer
	answer := Answer{ID: a.ID, Start: run.Start, Ran: true}
	if !a.Response.Success {
		answer.Failure, answer.Detail = cmp.Or(a.Response.Status, "failed"), "activation "+a.ID
	}
	return answer
}

// Start returns how an activation started, from its record.
func (c *Client) Start(ctx context.Context, id string) string {
	if a, ok := c.record(ctx, id); ok {
		return a.Annotations.Start()
	}
	return ""
}

func (c *Client) record(ctx context.Context, id string) (record, bool) {
	var a record
	status, body, err := c.do(ctx, http.MethodGet, "_/activations/"+url.PathEscape(id), nil)
	if err != nil || status != http.StatusOK || json.Unmarshal(body, &a) != nil {
		return a, false
	}
	return a, a.ID == id
}

// maxAnswer is above the largest record: a result and its logs.
const maxAnswer = 32 << 20

func (c *Client) do(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.SetBasicAuth(c.user, c.key)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	return res.StatusCode, b, err
}

// errorText returns OpenWhisk's error text on one line.
func errorText(body []byte) string {
	var e struct{ Error any }
	text := strings.TrimSpace(string(body))
	if json.Unmarshal(body, &e) == nil && e.Error != nil {
		text = fmt.Sprint(e.Error)
	}
	return fit(strings.Join(strings.Fields(text), " "), 200)
}

// failureSlow is that of a call whose end was not seen.
const failureSlow = "no answer within --wait"

// broken gives the kind of a request that got no answer, and the network's
// text, without the address that all errors have in common.
func broken(err error) (kind, detail string) {
	if u := (*url.Error)(nil); errors.As(err, &u) {
		err = u.Err
	}
	kind = "connection broken"
	var name *net.DNSError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return failureSlow, ""
	case errors.Is(err, context.Canceled):
		return failureInterrupted, ""
	case errors.Is(err, syscall.ECONNREFUSED):
		kind = "connection refused"
	case errors.As(err, &name):
		kind = "host not found"
	case errors.As(err, &certificate):
		kind = "certificate not trusted (--insecure takes it)"
	}
	return kind, err.Error()
}
