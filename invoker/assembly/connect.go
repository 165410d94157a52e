package assembly

import (
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
	tls, err := tlsstore.Kafka(k)
	if err != nil {
		return nil, err
	}
	login, err := k.Login()
	if err != nil {
		return nil, err
	}
	return kafka.New(kafka.Options{Brokers: k.Hosts, TLS: tls, Login: (*kafka.Login)(login), ClientID: clientID, Log: log})
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
