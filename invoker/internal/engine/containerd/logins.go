package containerd

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	clog "github.com/containerd/log"
)

// criPlugins are the names of the plugin that pulls images for a kubelet: of containerd 2,
// and of containerd 1 with its two versions of the configuration.
var criPlugins = []string{"io.containerd.cri.v1.images", "io.containerd.grpc.v1.cri", "cri"}

// nodeLogin is the login for a registry or a mirror in containerd's configuration.
type nodeLogin struct {
	Username      string `toml:"username"`
	Password      string `toml:"password"`
	Auth          string `toml:"auth"` // base64 of name and password with a colon between
	IdentityToken string `toml:"identitytoken"`
}

// nodeLogins has the logins of containerd's configuration by host.
type nodeLogins map[string]nodeLogin

// readNodeLogins reads containerd's configuration and the files that it imports. A file that
// is missing has no logins.
func readNodeLogins(ctx context.Context, path string) (nodeLogins, error) {
	// The library logs advice to the owner of the file.
	ctx = clog.WithLogger(ctx, newClientLog(slog.New(slog.DiscardHandler)))
	var all config.Config
	err := config.LoadConfig(ctx, path, &all)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read containerd's configuration: %w", err)
	}
	logins := nodeLogins{}
	for _, name := range criPlugins {
		var plugin struct {
			Registry struct {
				Configs map[string]struct {
					Auth nodeLogin `toml:"auth"`
				} `toml:"configs"`
			} `toml:"registry"`
		}
		if _, err := all.Decode(ctx, name, &plugin); err != nil {
			return nil, fmt.Errorf("read the registries of plugin %s in containerd's configuration: %w", name, err)
		}
		for host, registry := range plugin.Registry.Configs {
			if registry.Auth != (nodeLogin{}) {
				logins[host] = registry.Auth
			}
		}
	}
	return logins, nil
}

// of returns name and password for a host, or no name and an identity token. Both are empty
// if there is no login.
func (l nodeLogins) of(host string) (name, secret string, err error) {
	login := l[host]
	switch {
	case login.Username != "":
		return login.Username, login.Password, nil
	case login.IdentityToken != "":
		return "", login.IdentityToken, nil
	}
	text, err := base64.StdEncoding.DecodeString(login.Auth)
	if err != nil {
		return "", "", fmt.Errorf("decode the login for registry %s in containerd's configuration: %w", host, err)
	}
	name, secret, _ = strings.Cut(string(text), ":")
	return name, secret, nil
}
