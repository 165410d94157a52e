package clients

import (
	"context"
	"log/slog"

	"github.com/gpuwhisk/gpuwhisk/activation/couchbase"
	"github.com/gpuwhisk/gpuwhisk/activation/elasticsearch"
	"github.com/gpuwhisk/gpuwhisk/activation/records"
	"github.com/gpuwhisk/gpuwhisk/activation/s3"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// Store takes records that do not go to CouchDB.
type Store interface {
	// PutDocument queues the document of a record.
	PutDocument(ctx context.Context, doc records.Document) error
	// Probe checks that records can be written, and writes none.
	Probe(ctx context.Context) error
	Flush(ctx context.Context) error
	Health() records.Health
	Close() error
}

// Bucket opens the bucket that code is kept in; nil where all code is in the
// database.
func Bucket(c *config.Config) (*s3.Store, error) {
	d := c.S3
	if !d.Enabled {
		return nil, nil
	}
	return s3.Open(s3.Config{
		Bucket: d.Bucket, Prefix: d.Prefix, Endpoint: d.Endpoint, Region: d.Region, PathStyle: d.PathStyle,
		Anonymous: d.Credentials == "anon",
		AccessKey: d.AccessKey, SecretKey: d.SecretKey, Token: d.Token, Certificate: d.Certificate,
	})
}

// Records opens the configured store of records. It returns nil if records go to
// CouchDB or are not stored. It does not wait for the store's server.
func Records(c *config.Config, way records.Config, log *slog.Logger) (Store, error) {
	if !c.RecordsOutsideCouchDB() {
		return nil, nil
	}
	if c.Records.Store == config.StoreElasticsearch {
		d := c.Elasticsearch
		return opened(elasticsearch.Open(elasticsearch.Config{
			Protocol: d.Protocol, Hosts: d.Hosts, Username: d.Username, Password: d.Password,
			Index: d.Index, KeepAlive: d.KeepAlive, Certificate: d.Certificate,
			Records: way, Log: log,
		}))
	}
	d := c.Couchbase
	return opened(couchbase.Open(couchbase.Config{
		Connection: d.Connection, Username: d.Username, Password: d.Password,
		Bucket: d.Bucket, Scope: d.Scope, Collection: d.Collection, Certificate: d.Certificate,
		Records: way, Log: log,
	}))
}

func opened[S Store](s S, err error) (Store, error) {
	if err != nil {
		return nil, err // a typed nil would be a Store
	}
	return s, nil
}
