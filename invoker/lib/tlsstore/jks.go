package tlsstore

import (
	"bytes"
	"crypto/sha1"
	"crypto/subtle"
	"crypto/x509"
	"fmt"
	"unicode/utf16"

	"github.com/pavlo-v-chernykh/keystore-go/v4"
)

// decodeJKS reads Java's own format. As Java's trust managers do, it trusts
// the certificate entries and the first certificate of each key's chain.
func decodeJKS(data []byte, password, keyPassword string) (*Store, error) {
	if !intactJKS(data, password) {
		return nil, errPassword
	}
	ks := keystore.New(keystore.WithOrderedAliases(), keystore.WithCaseExactAliases())
	if err := ks.Load(bytes.NewReader(data), []byte(password)); err != nil {
		return nil, fmt.Errorf("read JKS: %w", err)
	}
	s := new(Store)
	for _, alias := range ks.Aliases() {
		var err error
		if ks.IsPrivateKeyEntry(alias) {
			err = s.addPrivateKey(ks, alias, keyPassword)
		} else {
			err = s.addTrusted(ks, alias)
		}
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", alias, err)
		}
	}
	return s, nil
}

// intactJKS checks the digest at the end of the file before anything else is
// believed: lengths in a damaged file could demand any amount of memory.
func intactJKS(data []byte, password string) bool {
	if len(data) < sha1.Size {
		return false
	}
	body, digest := data[:len(data)-sha1.Size], data[len(data)-sha1.Size:]
	h := sha1.New()
	for _, unit := range utf16.Encode([]rune(password)) {
		h.Write([]byte{byte(unit >> 8), byte(unit)})
	}
	h.Write([]byte("Mighty Aphrodite")) // the format's own salt
	h.Write(body)
	return subtle.ConstantTimeCompare(h.Sum(nil), digest) == 1
}

func (s *Store) addPrivateKey(ks keystore.KeyStore, alias, password string) error {
	entry, err := ks.GetPrivateKeyEntry(alias, []byte(password))
	if err != nil {
		return fmt.Errorf("open the key: %w", errPassword)
	}
	private, err := x509.ParsePKCS8PrivateKey(entry.PrivateKey)
	if err != nil {
		return fmt.Errorf("parse the key: %w", err)
	}
	chain := make([]*x509.Certificate, len(entry.CertificateChain))
	for i, c := range entry.CertificateChain {
		if chain[i], err = x509.ParseCertificate(c.Content); err != nil {
			return fmt.Errorf("parse its certificate: %w", err)
		}
	}
	c, err := key(private, chain)
	if err != nil {
		return err
	}
	s.Keys = append(s.Keys, c)
	s.Trusted = append(s.Trusted, c.Leaf)
	return nil
}

func (s *Store) addTrusted(ks keystore.KeyStore, alias string) error {
	entry, err := ks.GetTrustedCertificateEntry(alias)
	if err != nil {
		return fmt.Errorf("read the certificate: %w", err)
	}
	c, err := x509.ParseCertificate(entry.Certificate.Content)
	if err != nil {
		return fmt.Errorf("parse the certificate: %w", err)
	}
	s.Trusted = append(s.Trusted, c)
	return nil
}
