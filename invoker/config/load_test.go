package config

import (
	"bytes"
	"strings"
	"testing"
)

// full is the least environment with which the invoker starts.
func full(more ...string) []string {
	return append([]string{
		"KAFKA_HOSTS=kafka:9092", "RUNTIMES_MANIFEST={}", "WHISK_API_HOST_NAME=api",
		"CONFIG_whisk_couchdb_protocol=http", "CONFIG_whisk_couchdb_host=db", "CONFIG_whisk_couchdb_port=5984",
		"CONFIG_whisk_couchdb_username=u", "CONFIG_whisk_couchdb_password=very-secret-1", "CONFIG_whisk_couchdb_databases_WhiskAuth=subjects",
		"CONFIG_whisk_couchdb_databases_WhiskEntity=whisks", "CONFIG_whisk_couchdb_databases_WhiskActivation=activations",
	}, more...)
}

func TestLoadLeastEnvironment(t *testing.T) {
	c, err := Load(Input{Environ: full(), Args: []string{"--id", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	if *c.Identity.ID != 0 || c.Kafka.Hosts[0] != "kafka:9092" || c.CouchDB.Port != 5984 {
		t.Errorf("got %+v %+v %+v", c.Identity, c.Kafka, c.CouchDB)
	}
}

func TestPrintMasksSecrets(t *testing.T) {
	c, err := Load(Input{Environ: full(), Args: []string{"--id", "0"}})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Print(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Contains(got, "very-secret-1") || !strings.Contains(got, mask) {
		t.Errorf("secret shown or not masked:\n%s", got)
	}
}
