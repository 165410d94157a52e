package containerd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// writeConfig writes a configuration of containerd and returns its path.
func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	check.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// TestNodeLogins: logins are read from every form of containerd's configuration.
func TestNodeLogins(t *testing.T) {
	imported := writeConfig(t, `version = 2
[plugins."io.containerd.grpc.v1.cri".registry.configs."imported.example".auth]
  username = "user"
  password = "pass"
`)
	for name, text := range map[string]string{
		"containerd 2": `version = 3
imports = ["` + imported + `"]
[plugins."io.containerd.cri.v1.images".registry]
  config_path = "/etc/containerd/certs.d"
[plugins."io.containerd.cri.v1.images".registry.configs."plain.example:5000".auth]
  username = "user"
  password = "pa:ss"
`,
		"containerd 1": `version = 2
imports = ["` + imported + `"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "pause"
[plugins."io.containerd.grpc.v1.cri".registry.configs."plain.example:5000".auth]
  auth = "dXNlcjpwYTpzcw=="
[plugins."io.containerd.grpc.v1.cri".registry.configs."plain.example:5000".tls]
  ca_file = "/ca"
`,
	} {
		logins, err := readNodeLogins(t.Context(), writeConfig(t, text))
		check.NoError(t, err, name)
		for host, want := range map[string][2]string{
			"plain.example:5000": {"user", "pa:ss"}, "imported.example": {"user", "pass"}, "other.example": {},
		} {
			user, secret, err := logins.of(host)
			check.NoError(t, err, name)
			check.Equal(t, [2]string{user, secret}, want, "%s: %s", name, host)
		}
	}
}

// TestNodeLoginForms: an identity token has no name, and a login that cannot be decoded is an
// error that names the host alone.
func TestNodeLoginForms(t *testing.T) {
	logins := nodeLogins{"token": {IdentityToken: "it"}, "bad": {Auth: "not base64"}}
	user, secret, err := logins.of("token")
	check.NoError(t, err)
	check.Equal(t, user+"|"+secret, "|it")
	_, _, err = logins.of("bad")
	check.ErrorContains(t, err, "registry bad")
	check.Lacks(t, err.Error(), "not base64")
}

// TestNoNodeLogins: a configuration that is missing has no logins, and one that cannot be
// read is an error.
func TestNoNodeLogins(t *testing.T) {
	logins, err := readNodeLogins(t.Context(), filepath.Join(t.TempDir(), "config.toml"))
	check.NoError(t, err)
	check.Equal(t, len(logins), 0)
	_, err = readNodeLogins(t.Context(), writeConfig(t, "version = \n"))
	check.ErrorContains(t, err, "read containerd's configuration")
}
