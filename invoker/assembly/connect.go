package assembly

import (
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/tlsstore"
)

// OpenKafka is the cluster that a configuration names, for all who talk to it.
func OpenKafka(k config.Kafka, clientID string, log *slog.Logger) (*kafka.Cluster, error) {
	tls, err := kafkaTLS(k)
	if err != nil {
		return nil, err
	}
	login, err := k.Login()
	if err != nil {
		return nil, err
	}
	return kafka.New(kafka.Options{Brokers: k.Hosts, TLS: tls, Login: (*kafka.Login)(login), ClientID: clientID, Log: log})
}

func kafkaTLS(k config.Kafka) (*tlsConfig, error) {
	if !k.Encrypted() {
		return nil, nil
	}
	t := k.TLS
	c, err := tlsstore.Client(
		tlsstore.File{Path: t.TruststoreLocation, Password: t.TruststorePassword},
		tlsstore.File{Path: t.KeystoreLocation, Password: t.KeystorePassword, KeyPassword: t.KeyPassword},
		t.EndpointIdentification != "")
	if err != nil {
		return nil, fmt.Errorf("open Kafka's key stores: %w", err)
	}
	return c, nil
}

func couchConfig(c *config.Config, log *slog.Logger) couchdb.Config {
	d := c.CouchDB
	return couchdb.Config{
		URL:      d.Protocol + "://" + net.JoinHostPort(d.Host, strconv.Itoa(d.Port)),
		Username: d.Username, Password: d.Password,
		Whisks: d.Entities, Subjects: d.Subjects, Activations: d.Activations,
		BlacklistInterval: c.Blacklist.PollInterval,
		CacheBytes:        int64(c.Actions.CacheBytes), CacheIdle: c.Actions.CacheTTL,
		Log: log,
	}
}
