package doctor

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/tlsstore"
)

// Ping requests /ping from the admin port of this host, over https with the invoker's
// key store if that is configured. An invoker answers "pong", or a status other than 200
// with the reason why it is not ready.
func Ping(ctx context.Context, a config.Admin) (status int, text string, err error) {
	client := &http.Client{}
	if a.Protocol == "https" {
		own, err := tlsstore.Server(tlsstore.File{Path: a.TLS.KeystorePath, Password: a.TLS.KeystorePassword}, false)
		if err != nil {
			return 0, "", fmt.Errorf("open the key store: %w", err)
		}
		// The invoker connects to itself on the loopback, so the certificate's names do
		// not matter.
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{Certificates: own.Certificates, InsecureSkipVerify: true}}
	}
	url := a.Protocol + "://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port)) + "/ping"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, "", fmt.Errorf("ask the invoker: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, 1000))
	if err != nil {
		return 0, "", fmt.Errorf("ask the invoker: %w", err)
	}
	return res.StatusCode, strings.TrimSpace(string(body)), nil
}

// isInvoker reports whether this is the answer of an invoker to /ping.
func isInvoker(_ int, text string, err error) bool {
	return err == nil && (text == "pong" || strings.HasPrefix(text, "not ready: ") || strings.HasPrefix(text, "cannot work: "))
}
