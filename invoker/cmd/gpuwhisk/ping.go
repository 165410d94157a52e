package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/peer/tlsstore"
)

// pingCmd checks whether the invoker of this host takes work: the health
// check of the image.
type pingCmd struct {
	ID      string        `name:"id" placeholder:"N" help:"As for gpuwhisk invoker."`
	Timeout time.Duration `default:"4s" help:"Longest time to wait."`
	EnvFile string        `name:"env-file" placeholder:"PATH" help:"${env_file}"`
}

// Help is the longer text of gpuwhisk ping --help.
func (pingCmd) Help() string {
	return `Asks /ping on PORT of this host, over https with the invoker's own key store where the
environment has that. Exit status 1, and what the invoker waits for, when it takes no work.`
}

// Run sends one request.
func (c pingCmd) Run() error {
	cfg, err := hostConfig(c.EnvFile, c.ID)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.Timeout)
	defer cancel()
	return ping(ctx, cfg.Admin)
}

func ping(ctx context.Context, a config.Admin) error {
	client := &http.Client{}
	if a.Protocol == "https" {
		own, err := tlsstore.Server(tlsstore.File{Path: a.TLS.KeystorePath, Password: a.TLS.KeystorePassword}, false)
		if err != nil {
			return fmt.Errorf("open the key store: %w", err)
		}
		// It connects to itself on the loopback, whatever its names.
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{Certificates: own.Certificates, InsecureSkipVerify: true}}
	}
	url := a.Protocol + "://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port)) + "/ping"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask the invoker: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1000))
	if err != nil {
		return fmt.Errorf("ask the invoker: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("the invoker takes no work: %s", strings.TrimSpace(string(text)))
	}
	fmt.Println(strings.TrimSpace(string(text)))
	return nil
}
