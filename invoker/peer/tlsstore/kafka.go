package tlsstore

import (
	"crypto/tls"
	"fmt"

	"github.com/gpuwhisk/gpuwhisk/invoker/config"
)

// Kafka is the TLS configuration of connections to the brokers, or nil where they
// are plain text.
func Kafka(k config.Kafka) (*tls.Config, error) {
	if !k.Encrypted() {
		return nil, nil
	}
	t := k.TLS
	c, err := Client(
		File{Path: t.TruststoreLocation, Password: t.TruststorePassword},
		File{Path: t.KeystoreLocation, Password: t.KeystorePassword, KeyPassword: t.KeyPassword},
		t.EndpointIdentification != "")
	if err != nil {
		return nil, fmt.Errorf("open Kafka's key stores: %w", err)
	}
	return c, nil
}
