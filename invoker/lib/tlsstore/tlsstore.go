// Package tlsstore reads the key and trust stores (JKS and PKCS12) of a Java deployment
// of OpenWhisk and turns them into TLS settings, for the connection to Kafka and for
// the invoker's own HTTPS endpoint. It opens only the named files and starts no
// goroutines.
package tlsstore

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// File names a store.
type File struct {
	Path     string
	Password string
	// KeyPassword opens the key inside a JKS store; empty means Password.
	KeyPassword string
}

// Store is the content of a file.
type Store struct {
	// Keys are the private keys with their chains, leaf first.
	Keys []tls.Certificate
	// Trusted are the certificates that peers may be, or be signed by.
	Trusted []*x509.Certificate
}

// errPassword means that a store does not open with its password, or is
// damaged, which looks the same.
var errPassword = errors.New("wrong password, or a damaged file")

// load reads a store. The first bytes show the format: files named .jks
// have been PKCS12 since Java 9.
func load(f File) (*Store, error) {
	data, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, fmt.Errorf("read key store: %w", err)
	}
	s, err := Decode(data, f.Password, f.KeyPassword)
	if err != nil {
		return nil, fmt.Errorf("read key store %s: %w", f.Path, err)
	}
	return s, nil
}

// Decode reads the content of a store.
func Decode(data []byte, password, keyPassword string) (*Store, error) {
	if keyPassword == "" {
		keyPassword = password
	}
	switch {
	case bytes.HasPrefix(data, []byte{0xfe, 0xed, 0xfe, 0xed}):
		return decodeJKS(data, password, keyPassword)
	case bytes.HasPrefix(data, []byte{0xce, 0xce, 0xce, 0xce}):
		return nil, errors.New("JCEKS is not served; convert it with keytool -importkeystore -deststoretype PKCS12")
	case bytes.HasPrefix(data, []byte("-----BEGIN")):
		return nil, errors.New("PEM is not served; make a PKCS12 store with openssl pkcs12 -export")
	}
	return decodePKCS12(data, password)
}

// pool has the trusted certificates.
func (s *Store) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range s.Trusted {
		pool.AddCert(c)
	}
	return pool
}

// key makes a TLS certificate of a private key and its chain, whose order may
// be any but must contain the key's own certificate.
func key(private any, chain []*x509.Certificate) (tls.Certificate, error) {
	signer, ok := private.(crypto.Signer)
	if !ok {
		return tls.Certificate{}, fmt.Errorf("private key of type %T cannot sign", private)
	}
	public, ok := signer.Public().(interface{ Equal(crypto.PublicKey) bool })
	if !ok {
		return tls.Certificate{}, fmt.Errorf("private key of type %T cannot be compared", private)
	}
	c := tls.Certificate{PrivateKey: private}
	var rest [][]byte
	for _, one := range chain {
		if c.Leaf == nil && public.Equal(one.PublicKey) {
			c.Leaf = one
			c.Certificate = append(c.Certificate, one.Raw)
		} else {
			rest = append(rest, one.Raw)
		}
	}
	if c.Leaf == nil {
		return tls.Certificate{}, errors.New("no certificate belongs to the private key")
	}
	c.Certificate = append(c.Certificate, rest...)
	return c, nil
}
