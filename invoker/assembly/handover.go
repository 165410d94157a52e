package assembly

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/invoker/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/handover"
)

// Handover is an invoker as a deployment's other parts have it, by its settings. The
// caller sets its number.
func Handover(c *config.Config, log *slog.Logger) (handover.Invoker, error) {
	cluster, err := OpenKafka(c.Kafka, "gpuwhisk-handover", log)
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
	i.Scheduled = &handover.Scheduled{Etcd: etcdConfig(c.Scheduler, log), Host: host, Document: func(ctx context.Context, id string) (json.RawMessage, error) {
		return couchdb.Document(ctx, couchConfig(c, log), id)
	}}
	return i, nil
}

func etcdConfig(c config.Scheduler, log *slog.Logger) etcd.Config {
	return etcd.Config{
		Hosts: c.Etcd.Hosts, Username: c.Etcd.Username, Password: c.Etcd.Password, TTL: time.Duration(c.Etcd.LeaseTimeout) * time.Second,
		Cluster: activation.Cluster(c.Cluster), RetryInterval: c.Etcd.RetryInterval, Log: log,
	}
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
