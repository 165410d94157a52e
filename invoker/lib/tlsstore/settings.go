package tlsstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Client returns the settings of a connection to a server whose certificate is signed
// by an authority in trust. keys holds our own certificate and may be empty. verifyHost
// also compares the host name with the certificate; OpenWhisk does not verify it for
// Kafka. Without trust the system's authorities are used. That needs verifyHost,
// because they sign certificates of any host.
func Client(trust, keys File, verifyHost bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	switch t, err := load(trust); {
	case trust.Path == "" && verifyHost:
	case err != nil:
		return nil, err
	case len(t.Trusted) == 0:
		return nil, fmt.Errorf("key store %s: holds no trusted certificate", trust.Path)
	default:
		c.RootCAs = t.pool()
	}
	if !verifyHost {
		anyHost(c)
	}
	if keys.Path == "" {
		return c, nil
	}
	k, err := withKey(keys)
	if err != nil {
		return nil, err
	}
	c.Certificates = k.Keys
	return c, nil
}

// Server makes the settings of an HTTPS endpoint whose store is both key and
// trust store. clientAuth demands a certificate that the store vouches for.
func Server(store File, clientAuth bool) (*tls.Config, error) {
	s, err := withKey(store)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: s.Keys}
	if clientAuth {
		c.ClientAuth = tls.RequireAndVerifyClientCert
		c.ClientCAs = s.pool()
	}
	return c, nil
}

// withKey loads a store that must have a key.
func withKey(f File) (*Store, error) {
	s, err := load(f)
	if err == nil && len(s.Keys) == 0 {
		err = fmt.Errorf("key store %s: holds no private key", f.Path)
	}
	return s, err
}

// anyHost verifies the chain of the server but not its name. Go can only turn
// both off together, so the chain is verified here.
func anyHost(c *tls.Config) {
	roots := c.RootCAs
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("verify server: no certificate")
		}
		links := x509.NewCertPool()
		for _, link := range state.PeerCertificates[1:] {
			links.AddCert(link)
		}
		_, err := state.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: links})
		if err != nil {
			return fmt.Errorf("verify server: %w", err)
		}
		return nil
	}
}
