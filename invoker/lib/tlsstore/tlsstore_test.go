package tlsstore

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

const pass = "openwhisk"

// party is a key with its certificate.
type party struct {
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

// newParty is signed by ca, or by itself when ca is nil.
func newParty(t testing.TB, name string, ca *party) party {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.NoError(t, err)
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	template := &x509.Certificate{SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: strings.HasSuffix(name, "ca"), BasicConstraintsValid: true, DNSNames: []string{name}}
	signer, signed := k, template
	if ca != nil {
		signer, signed = ca.key, ca.cert
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signed, k.Public(), signer)
	check.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	check.NoError(t, err)
	return party{k, cert}
}

func chainBytes(certs ...*x509.Certificate) []keystore.Certificate {
	var out []keystore.Certificate
	for _, c := range certs {
		out = append(out, keystore.Certificate{Type: "X509", Content: c.Raw})
	}
	return out
}

// jks makes a store with an optional key and its chain, and trusted
// certificates.
func jks(t testing.TB, keyPass string, k crypto.Signer, chain, trusted []*x509.Certificate) []byte {
	t.Helper()
	ks := keystore.New()
	if k != nil {
		der, err := x509.MarshalPKCS8PrivateKey(k)
		check.NoError(t, err)
		err = ks.SetPrivateKeyEntry("mine", keystore.PrivateKeyEntry{CreationTime: time.Unix(0, 0), PrivateKey: der, CertificateChain: chainBytes(chain...)}, []byte(keyPass))
		check.NoError(t, err)
	}
	for _, c := range trusted {
		check.NoError(t, ks.SetTrustedCertificateEntry(c.Subject.CommonName, keystore.TrustedCertificateEntry{CreationTime: time.Unix(0, 0), Certificate: chainBytes(c)[0]}))
	}
	var b bytes.Buffer
	check.NoError(t, ks.Store(&b, []byte(pass)))
	return b.Bytes()
}

func p12(t testing.TB, k any, leaf *x509.Certificate, others ...*x509.Certificate) []byte {
	t.Helper()
	data, err := pkcs12.Modern.Encode(k, leaf, others, pass)
	check.NoError(t, err)
	return data
}

func p12Trust(t testing.TB, certs ...*x509.Certificate) []byte {
	t.Helper()
	data, err := pkcs12.Modern.EncodeTrustStore(certs, pass)
	check.NoError(t, err)
	return data
}

func names(certs []*x509.Certificate) string {
	var out []string
	for _, c := range certs {
		out = append(out, c.Subject.CommonName)
	}
	return strings.Join(out, " ")
}

func TestDecode(t *testing.T) {
	root := newParty(t, "root ca", nil)
	middle := newParty(t, "middle ca", &root)
	leaf := newParty(t, "leaf", &middle)
	friend := newParty(t, "friend", nil)
	chain := []*x509.Certificate{leaf.cert, middle.cert, root.cert}
	for _, tt := range []struct {
		name    string
		data    []byte
		keyPass string
		trusted string
		chain   int // certificates sent with the key, 0 when there is none
	}{
		{"JKS with a key: its leaf and the imported are trusted", jks(t, pass, leaf.key, chain, []*x509.Certificate{friend.cert}), "", "friend leaf", 3},
		{"JKS whose key has another password", jks(t, "otherpass", leaf.key, chain, nil), "otherpass", "leaf", 3},
		{"JKS trust store", jks(t, pass, nil, nil, []*x509.Certificate{root.cert, friend.cert}), "", "friend root ca", 0},
		{"PKCS12 of one self-signed", p12(t, friend.key, friend.cert), "", "friend", 1},
		{"PKCS12 with a chain: the links are not trusted, the root is", p12(t, leaf.key, leaf.cert, middle.cert, root.cert), "", "leaf root ca", 3},
		{"PKCS12 with a chain that has no root", p12(t, leaf.key, leaf.cert, middle.cert), "", "leaf", 2},
		{"PKCS12 with an imported certificate", p12(t, leaf.key, leaf.cert, friend.cert, middle.cert), "", "leaf friend", 2},
		{"PKCS12 trust store", p12Trust(t, root.cert, friend.cert), "", "root ca friend", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Decode(tt.data, pass, tt.keyPass)
			check.NoError(t, err)
			if got := names(s.Trusted); got != tt.trusted {
				t.Errorf("trusts %q, want %q", got, tt.trusted)
			}
			sent := 0
			for _, k := range s.Keys {
				sent += len(k.Certificate)
			}
			if sent != tt.chain {
				t.Errorf("sends %d certificates, want %d", sent, tt.chain)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	one, other := newParty(t, "one", nil), newParty(t, "other", nil)
	good := jks(t, pass, one.key, []*x509.Certificate{one.cert}, nil)
	bad := bytes.Clone(good)
	bad[len(bad)/2] ^= 1
	for _, tt := range []struct {
		name     string
		data     []byte
		password string
		want     string
	}{
		{"JKS, wrong password", good, "nonsense", errPassword.Error()},
		{"JKS, wrong key password", jks(t, "otherpass", one.key, []*x509.Certificate{one.cert}, nil), pass, "open the key"},
		{"JKS, damaged", bad, pass, errPassword.Error()},
		{"JKS, cut", good[:30], pass, errPassword.Error()},
		{"JKS, magic only", good[:4], pass, errPassword.Error()},
		{"JKS, foreign certificate", jks(t, pass, one.key, []*x509.Certificate{other.cert}, nil), pass, "no certificate belongs"},
		{"PKCS12, wrong password", p12(t, one.key, one.cert), "nonsense", errPassword.Error()},
		{"PKCS12 trust store, wrong password", p12Trust(t, one.cert), "nonsense", errPassword.Error()},
		{"PKCS12, foreign certificate", p12(t, one.key, other.cert), pass, "no certificate belongs"},
		{"PKCS12, cut", p12(t, one.key, one.cert)[:40], pass, "neither a key store"},
		{"nothing", nil, pass, "neither a key store"},
		{"PEM", []byte("-----BEGIN CERTIFICATE-----"), pass, "PEM is not served"},
		{"JCEKS", []byte{0xce, 0xce, 0xce, 0xce, 0}, pass, "JCEKS is not served"},
	} {
		_, err := Decode(tt.data, tt.password, "")
		check.ErrorContains(check.Must(t), err, tt.want, "%s", tt.name)
		check.Lacks(t, err.Error(), tt.password, "%s", tt.name)
	}
}

func file(t testing.TB, data []byte) File {
	t.Helper()
	at := filepath.Join(t.TempDir(), "store")
	check.NoError(t, os.WriteFile(at, data, 0o600))
	return File{Path: at, Password: pass}
}

// shake runs one handshake and returns the error of each side.
func shake(t *testing.T, client, server *tls.Config) (clientErr, serverErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check.NoError(t, err)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer conn.Close()
		s := tls.Server(conn, server)
		if err = s.Handshake(); err == nil {
			_, err = s.Write([]byte("x"))
		}
		done <- err
	}()
	c, err := net.Dial("tcp", l.Addr().String())
	check.NoError(t, err)
	defer c.Close()
	tc := tls.Client(c, client)
	if clientErr = tc.Handshake(); clientErr == nil {
		_, clientErr = tc.Read(make([]byte, 1))
	}
	c.Close()
	return clientErr, <-done
}

func named(c *tls.Config, name string) *tls.Config {
	c = c.Clone()
	c.ServerName = name
	return c
}

func TestClientToKafka(t *testing.T) {
	ca := newParty(t, "ca", nil)
	broker, client, stranger := newParty(t, "broker", &ca), newParty(t, "client", &ca), newParty(t, "stranger", nil)
	trust := file(t, jks(t, pass, nil, nil, []*x509.Certificate{ca.cert}))
	keys := file(t, jks(t, pass, client.key, []*x509.Certificate{client.cert}, []*x509.Certificate{ca.cert}))
	server, err := Server(file(t, jks(t, pass, broker.key, []*x509.Certificate{broker.cert}, []*x509.Certificate{ca.cert})), true)
	check.NoError(t, err)
	fake, err := Server(file(t, p12(t, stranger.key, stranger.cert)), false)
	check.NoError(t, err)
	open, checked, anonymous := must(t, trust, keys, false), must(t, trust, keys, true), must(t, trust, File{}, false)
	for _, tt := range []struct {
		name       string
		client     *tls.Config
		server     *tls.Config
		wantClient bool
	}{
		{"any host name", named(open, "10.0.0.7"), server, true},
		{"host name checked and right", named(checked, "broker"), server, true},
		{"host name checked and wrong", named(checked, "elsewhere"), server, false},
		{"no client certificate", named(anonymous, "broker"), server, false},
		{"a server that is not trusted", named(open, "stranger"), fake, false},
	} {
		clientErr, serverErr := shake(t, tt.client, tt.server)
		check.Equal(t, clientErr == nil, tt.wantClient, "%s: client %v, server %v", tt.name, clientErr, serverErr)
	}
}

func must(t *testing.T, trust, keys File, verify bool) *tls.Config {
	t.Helper()
	c, err := Client(trust, keys, verify)
	check.NoError(t, err)
	return c
}

// As Ansible probes the invoker: the client shows the server's own
// certificate. A certificate of the same authority is not enough when that is
// only a link in the chain.
func TestServerWithClientAuth(t *testing.T) {
	root := newParty(t, "root ca", nil)
	public := newParty(t, "public ca", &root)
	me, neighbour := newParty(t, "me", &public), newParty(t, "neighbour", &public)
	own := file(t, p12(t, me.key, me.cert, public.cert))
	server, err := Server(own, true)
	check.NoError(t, err)
	trust := file(t, p12Trust(t, root.cert))
	c, s := shake(t, insistent(named(must(t, trust, own, true), "me")), server)
	check.ErrorIs(t, c, nil, "client with its own certificate")
	check.ErrorIs(t, s, nil, "server of its own certificate")
	other := file(t, p12(t, neighbour.key, neighbour.cert, public.cert))
	_, s = shake(t, insistent(named(must(t, trust, other, true), "me")), server)
	check.That(t, s != nil, "a neighbour of the same authority was let in")
}

// insistent sends its certificate whatever authorities the server lists, as
// curl does and Go's client does not.
func insistent(c *tls.Config) *tls.Config {
	own := &c.Certificates[0]
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own, nil }
	return c
}

func TestSettingsRefuse(t *testing.T) {
	one := newParty(t, "one", nil)
	keyless := file(t, p12Trust(t, one.cert))
	missing := File{Path: filepath.Join(t.TempDir(), "none"), Password: pass}
	_, err := Server(keyless, false)
	check.ErrorContains(t, err, "no private key", "server")
	_, err = Client(keyless, keyless, false)
	check.ErrorContains(t, err, "no private key", "client")
	_, err = Client(file(t, jks(t, pass, nil, nil, nil)), File{}, false)
	check.ErrorContains(t, err, "no trusted certificate")
	_, err = Client(missing, File{}, false)
	check.ErrorIs(t, err, os.ErrNotExist, "client")
	_, err = Server(missing, false)
	check.ErrorIs(t, err, os.ErrNotExist, "server")
}

// The authorities of the system vouch only for servers whose name is checked.
func TestTrustOfTheSystem(t *testing.T) {
	c, err := Client(File{}, File{}, true)
	check.NoError(t, err)
	check.Equal(t, c.RootCAs, nil)
	check.That(t, !c.InsecureSkipVerify)
	if _, err := Client(File{}, File{}, false); err == nil {
		t.Error("any server with any certificate would be trusted")
	}
}

func FuzzDecode(f *testing.F) {
	one := newParty(f, "one", nil)
	f.Add(jks(f, pass, one.key, []*x509.Certificate{one.cert}, []*x509.Certificate{one.cert}))
	f.Add(p12(f, one.key, one.cert))
	f.Add(p12Trust(f, one.cert))
	f.Add([]byte{0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(data, pass, "")
		if (s == nil) == (err == nil) {
			t.Fatalf("store %v, error %v", s, err)
		}
		if s != nil {
			s.pool()
		}
	})
}
