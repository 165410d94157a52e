package tlsstore

import (
	"crypto/x509"
	"fmt"
	"time"
)

// soon is how long before its end a certificate is worth a warning.
const soon = 14 * 24 * time.Hour

// Validity judges a certificate at a time. text says what is wrong, or will be within two
// weeks, and is empty if nothing is.
func Validity(c *x509.Certificate, now time.Time) (valid bool, text string) {
	name := c.Subject.CommonName
	if name == "" {
		name = c.Subject.String()
	}
	at := func(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }
	switch {
	case now.After(c.NotAfter):
		return false, fmt.Sprintf("the certificate of %s expired on %s", name, at(c.NotAfter))
	case now.Before(c.NotBefore):
		return false, fmt.Sprintf("the certificate of %s is not valid before %s", name, at(c.NotBefore))
	case now.Add(soon).After(c.NotAfter):
		return true, fmt.Sprintf("the certificate of %s expires on %s", name, at(c.NotAfter))
	}
	return true, ""
}
