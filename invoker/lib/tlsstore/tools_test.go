package tlsstore

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

func do(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// Stores as a Java deployment makes them: one of each format, each with a key
// and the other side's certificate.
func TestStoresOfKeytool(t *testing.T) {
	keytool := peertest.Tool(t, "keytool")
	dir := t.TempDir()
	run := func(format string, args ...string) {
		t.Helper()
		do(t, dir, keytool, append(args, "-storetype", format, "-storepass", pass, "-noprompt")...)
	}
	run("JKS", "-genkeypair", "-alias", "Me", "-keystore", "broker", "-keyalg", "RSA", "-dname", "CN=broker", "-keypass", pass)
	run("JKS", "-exportcert", "-alias", "Me", "-keystore", "broker", "-file", "broker.crt")
	run("PKCS12", "-genkeypair", "-alias", "client", "-keystore", "client", "-keyalg", "EC", "-dname", "CN=client")
	run("PKCS12", "-exportcert", "-alias", "client", "-keystore", "client", "-file", "client.crt")
	run("PKCS12", "-importcert", "-alias", "broker", "-keystore", "client", "-file", "broker.crt")
	run("JKS", "-importcert", "-alias", "client", "-keystore", "broker", "-file", "client.crt")
	in := func(name string) File { return File{Path: filepath.Join(dir, name), Password: pass} }
	server, err := Server(in("broker"), true)
	check.NoError(t, err)
	client, err := Client(in("client"), in("client"), false)
	check.NoError(t, err)
	c, s := shake(t, client, server)
	check.ErrorIs(t, c, nil, "client")
	check.ErrorIs(t, s, nil, "server")
}

// The invoker's HTTPS store as OpenWhisk's deployment makes it with openssl.
func TestStoreOfOpenSSL(t *testing.T) {
	openssl := peertest.Tool(t, "openssl")
	dir := t.TempDir()
	run := func(args ...string) { t.Helper(); do(t, dir, openssl, args...) }
	run("genrsa", "-out", "key.pem", "2048")
	run("req", "-new", "-key", "key.pem", "-nodes", "-subj", "/C=US/O=OpenWhisk/CN=invoker", "-out", "request")
	run("x509", "-req", "-in", "request", "-signkey", "key.pem", "-out", "cert.pem", "-days", "2")
	run("pkcs12", "-export", "-name", "invoker", "-passout", "pass:"+pass, "-in", "cert.pem", "-inkey", "key.pem", "-out", "store.p12")
	store := File{Path: filepath.Join(dir, "store.p12"), Password: pass}
	server, err := Server(store, true)
	check.NoError(t, err)
	client, err := Client(store, store, false)
	check.NoError(t, err)
	c, s := shake(t, client, server)
	check.ErrorIs(t, c, nil, "client with the server's own certificate")
	check.ErrorIs(t, s, nil, "server of its own certificate")
}
