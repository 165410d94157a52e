package doctor

import (
	"context"
	"encoding/pem"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"software.sslmate.com/src/go-pkcs12"
)

const day = 24 * time.Hour

// stored returns a key store with a certificate that is valid between two times relative
// to now.
func stored(t *testing.T, from, until time.Duration) *fstest.MapFile {
	t.Helper()
	key, certificate := peertest.Certificate(t, now.Add(from), now.Add(until))
	data, err := pkcs12.Modern.Encode(key, certificate, nil, "store-pass")
	check.NoError(t, err)
	return &fstest.MapFile{Data: data}
}

func authority(t *testing.T, until time.Duration) []byte {
	t.Helper()
	_, certificate := peertest.Certificate(t, now.Add(-90*day), now.Add(until))
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
}

func TestCertificateChecks(t *testing.T) {
	admin := func(file *fstest.MapFile) func(*fake) {
		return func(f *fake) {
			f.Config.Admin.Protocol = "https"
			f.Config.Admin.TLS = config.AdminTLS{KeystorePath: "/conf/own.p12", KeystorePassword: "store-pass"}
			if file != nil {
				f.files["conf/own.p12"] = file
			}
		}
	}
	kafka := func(keys, trust *fstest.MapFile) func(*fake) {
		return func(f *fake) {
			f.Config.Kafka.SecurityProtocol = "SSL"
			f.Config.Kafka.TLS = config.KafkaTLS{KeystoreLocation: "/conf/keys", KeystorePassword: "store-pass", TruststoreLocation: "/conf/trust", TruststorePassword: "store-pass"}
			f.files["conf/keys"], f.files["conf/trust"] = keys, trust
		}
	}
	bucket := func(data []byte) func(*fake) {
		return func(f *fake) {
			f.Bucket = func(context.Context) error { return nil }
			f.Config.S3.Enabled, f.Config.S3.Certificate = true, "/conf/ca.pem"
			f.files["conf/ca.pem"] = &fstest.MapFile{Data: data}
		}
	}
	good, expired := stored(t, -day, 90*day), stored(t, -90*day, -day)
	const name = "Settings/certificates"
	runTrials(t, []trial{
		{"valid", admin(good), name, OK, "valid: /conf/own.p12", ""},
		{"expired", admin(expired), name, Fail, "whisk.invoker.https.keystore-path: /conf/own.p12: the certificate of localhost expired on 2026-02-28 12:00:00 UTC", "renew"},
		{"not valid yet", admin(stored(t, day, 90*day)), name, Fail, "not valid before 2026-03-02", "renew"},
		{"expires soon", admin(stored(t, -day, 3*day)), name, Warn, "expires on 2026-03-04", "renew"},
		{"missing", admin(nil), name, Fail, "/conf/own.p12", "file"},
		{"no store", admin(&fstest.MapFile{Data: []byte("x")}), name, Fail, "PKCS12", "file"},
		{"Kafka's key", kafka(expired, good), name, Fail, "ssl-keystore-location: /conf/keys: the certificate of localhost expired", "renew"},
		{"Kafka's authority", kafka(good, expired), name, Fail, "ssl-truststore-location: /conf/trust: the certificate of localhost expired", "renew"},
		{"Kafka's", kafka(good, good), name, OK, "valid: /conf/keys, /conf/trust", ""},
		{"an authority", bucket(authority(t, -day)), name, Fail, "whisk.gpu.s3.certificate: /conf/ca.pem: the certificate of localhost expired", "renew"},
		{"one of two authorities", bucket(append(authority(t, -day), authority(t, 90*day)...)), name, OK, "/conf/ca.pem", ""},
		{"no authority", bucket([]byte("nothing")), name, Fail, "holds none", "certificate"},
	})
}

func TestLoginChecks(t *testing.T) {
	plain := func(protocol string) func(*fake) {
		return func(f *fake) {
			f.Config.Kafka.SecurityProtocol = protocol
			f.Config.Kafka.SASL = config.KafkaSASL{Mechanism: "PLAIN",
				JAAS: `org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";`}
		}
	}
	search := func(protocol string) func(*fake) {
		return func(f *fake) {
			f.Records = func(context.Context) error { return nil }
			f.Config.Records.Store = config.StoreElasticsearch
			f.Config.Elasticsearch.Protocol, f.Config.Elasticsearch.Password = protocol, "s3cret-9"
		}
	}
	const name = "Settings/logins"
	runTrials(t, []trial{
		{"", func(f *fake) { f.Config.CouchDB.Protocol, f.Config.CouchDB.Password = "http", "p" }, name, OK, "except CouchDB's (CONFIG_whisk_couchdb_protocol) and the admin port's", ""},
		{"nothing", func(f *fake) { f.Config.CouchDB.Protocol, f.Config.Admin.Protocol = "https", "https" }, name, OK, "no password is sent unencrypted", ""},
		{"SCRAM", func(f *fake) { logIn(f, "SASL_PLAINTEXT") }, name, OK, "no password", ""},
		{"PLAIN over TLS", plain("SASL_SSL"), name, OK, "no password", ""},
		{"PLAIN in the clear", plain("SASL_PLAINTEXT"), name, Warn, "Kafka's password is sent unencrypted", "CONFIG_whisk_kafka_common_securityProtocol=SASL_SSL"},
		{"Elasticsearch over TLS", search("https"), name, OK, "no password", ""},
		{"Elasticsearch in the clear", search("http"), name, Warn, "Elasticsearch's password", "https"},
	})
}
