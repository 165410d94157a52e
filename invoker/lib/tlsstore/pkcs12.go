package tlsstore

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"software.sslmate.com/src/go-pkcs12"
)

// decodePKCS12 reads a store with one private key, or a trust store as Java
// writes it. Beside a key it trusts the key's own certificate, as Java does,
// and every other certificate that is not merely a link in the key's chain: a
// public authority that signed our certificate must not vouch for our peers.
func decodePKCS12(data []byte, password string) (*Store, error) {
	if slow(data) {
		return nil, errPassword
	}
	private, leaf, others, err := pkcs12.DecodeChain(data, password)
	if err == nil {
		return keyStore(private, append([]*x509.Certificate{leaf}, others...))
	}
	if wrongPassword(err) {
		return nil, errPassword
	}
	trusted, trustErr := pkcs12.DecodeTrustStore(data, password)
	if trustErr == nil {
		return &Store{Trusted: trusted}, nil
	}
	if wrongPassword(trustErr) {
		return nil, errPassword
	}
	return nil, fmt.Errorf("read PKCS12: neither a key store (%w) nor a trust store (%w)", err, trustErr)
}

// slow reports whether the digest of a store has far more rounds than anyone
// configures, because a damaged number would cost minutes. The digest is checked
// first, so numbers that the digest covers need no check of their own.
func slow(data []byte) bool {
	const most = 1_000_000
	var store struct {
		Version int
		Content asn1.RawValue
		Digest  asn1.RawValue `asn1:"optional"`
	}
	if _, err := asn1.Unmarshal(data, &store); err != nil {
		return false // refused by the decoder
	}
	return anyAbove(store.Digest, most)
}

// anyAbove finds a large integer in a DER value.
func anyAbove(v asn1.RawValue, most int64) bool {
	if v.Class == asn1.ClassUniversal && v.Tag == asn1.TagInteger {
		n := new(big.Int).SetBytes(v.Bytes)
		return !n.IsInt64() || n.Int64() > most
	}
	for rest := v.Bytes; v.IsCompound && len(rest) > 0; {
		var part asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &part); err != nil {
			return false
		}
		if anyAbove(part, most) {
			return true
		}
	}
	return false
}

func wrongPassword(err error) bool {
	return errors.Is(err, pkcs12.ErrIncorrectPassword) || errors.Is(err, pkcs12.ErrDecryption)
}

func keyStore(private any, certs []*x509.Certificate) (*Store, error) {
	c, err := key(private, certs)
	if err != nil {
		return nil, err
	}
	links := chainOf(c.Leaf, certs)
	s := &Store{Trusted: []*x509.Certificate{c.Leaf}}
	c.Certificate = [][]byte{c.Leaf.Raw}
	for _, link := range links {
		c.Certificate = append(c.Certificate, link.Raw)
	}
	for _, one := range certs {
		if !one.Equal(c.Leaf) && (selfIssued(one) || !slices.ContainsFunc(links, one.Equal)) {
			s.Trusted = append(s.Trusted, one)
		}
	}
	s.Keys = []tls.Certificate{c}
	return s, nil
}

// chainOf follows the issuers of leaf as far as certs go.
func chainOf(leaf *x509.Certificate, certs []*x509.Certificate) (links []*x509.Certificate) {
	for at := leaf; !selfIssued(at); {
		i := slices.IndexFunc(certs, func(c *x509.Certificate) bool {
			return !c.Equal(at) && bytes.Equal(c.RawSubject, at.RawIssuer)
		})
		if i < 0 || slices.ContainsFunc(links, certs[i].Equal) {
			break
		}
		at = certs[i]
		links = append(links, at)
	}
	return links
}

func selfIssued(c *x509.Certificate) bool { return bytes.Equal(c.RawSubject, c.RawIssuer) }
