package assembly

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/peer/clients"
)

// Handover is an invoker as a deployment's other parts have it, by its settings. The
// caller sets its number.
func Handover(c *config.Config, log *slog.Logger) (handover.Invoker, error) {
	cluster, err := clients.Kafka(c.Kafka, "gpuwhisk-handover", log)
	if err != nil {
		return handover.Invoker{}, err
	}
	i := handover.Invoker{Cluster: cluster, Prefix: c.Kafka.TopicPrefix}
	if !c.Scheduler.Enabled {
		return i, nil
	}
	host, err := ownAddress(c.Kafka.Hosts[0])
	if err != nil {
		return i, err
	}
	i.Scheduled = &handover.Scheduled{Etcd: clients.Etcd(c.Scheduler, log), Host: host, Document: func(ctx context.Context, id string) (json.RawMessage, error) {
		return couchdb.Document(ctx, clients.CouchDB(c, log), id)
	}}
	return i, nil
}

// ownAddress is the one by which this machine reaches a peer: others on it, and most
// of its network, reach this process there. Nothing is sent.
func ownAddress(peer string) (string, error) {
	conn, err := net.Dial("udp", peer)
	if err != nil {
		return "", fmt.Errorf("find the own address towards %s: %w", peer, err)
	}
	defer conn.Close()
	return conn.LocalAddr().(*net.UDPAddr).IP.String(), nil
}
