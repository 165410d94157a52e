package doctor

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/tlsstore"
)

// certificateFile is a file with certificates that the settings name.
type certificateFile struct {
	key, path string
	store     *tlsstore.File // for JKS or PKCS12; nil for PEM
	// own means that the invoker presents these certificates to peers, so all must be
	// valid. Of the authorities in a trust store, a single valid one suffices.
	own bool
}

// certificateFiles lists the files that are in use.
func certificateFiles(c *config.Config) (all []certificateFile) {
	add := func(used bool, f certificateFile) {
		if used && f.path != "" {
			all = append(all, f)
		}
	}
	admin, kafka := c.Admin.TLS, c.Kafka.TLS
	add(c.Admin.Protocol == "https", certificateFile{"whisk.invoker.https.keystore-path", admin.KeystorePath, &tlsstore.File{Password: admin.KeystorePassword}, true})
	add(c.Kafka.Encrypted(), certificateFile{"whisk.kafka.common.ssl-keystore-location", kafka.KeystoreLocation,
		&tlsstore.File{Password: kafka.KeystorePassword, KeyPassword: kafka.KeyPassword}, true})
	add(c.Kafka.Encrypted(), certificateFile{"whisk.kafka.common.ssl-truststore-location", kafka.TruststoreLocation, &tlsstore.File{Password: kafka.TruststorePassword}, false})
	add(c.RecordsOutsideCouchDB() && c.Records.Store == config.StoreCouchbase, certificateFile{"whisk.gpu.couchbase.certificate", c.Couchbase.Certificate, nil, false})
	add(c.RecordsOutsideCouchDB() && c.Records.Store == config.StoreElasticsearch, certificateFile{"whisk.gpu.elasticsearch.certificate", c.Elasticsearch.Certificate, nil, false})
	add(c.S3.Enabled, certificateFile{"whisk.gpu.s3.certificate", c.S3.Certificate, nil, false})
	return all
}

// checkCertificates: the invoker starts with an expired certificate, but then peers and
// probes refuse it.
func checkCertificates(s *snapshot) []Finding {
	files := certificateFiles(s.Config)
	if len(files) == 0 {
		return nil
	}
	all := ofEach(files, func(f certificateFile) []Finding {
		certificates, err := s.certificates(f)
		if err != nil {
			return fail("check the file and its password", "%s: %s: %v", f.key, f.path, err)
		}
		return s.judgeCertificates(f, certificates)
	})
	return merged(all, ", ", "valid: ", "")
}

func (s *snapshot) judgeCertificates(f certificateFile, certificates []*x509.Certificate) []Finding {
	var invalid, ending []string
	for _, c := range certificates {
		switch valid, text := tlsstore.Validity(c, s.Now); {
		case !valid:
			invalid = append(invalid, text)
		case text != "":
			ending = append(ending, text)
		}
	}
	const fix = "renew the certificate and restart the invoker"
	switch {
	case len(certificates) == 0:
		return fail("put a certificate into it", "%s: %s holds none", f.key, f.path)
	case len(invalid) == len(certificates) || f.own && len(invalid) > 0:
		return fail(fix, "%s: %s: %s", f.key, f.path, invalid[0])
	case len(ending) > 0 && (f.own || len(ending)+len(invalid) == len(certificates)):
		return warn(fix, "%s: %s: %s", f.key, f.path, ending[0])
	}
	return ok("%s", f.path)
}

// certificates reads the own certificates of a file, or the authorities in it.
func (s *snapshot) certificates(f certificateFile) (all []*x509.Certificate, err error) {
	data, err := fs.ReadFile(s.Files, inRoot(f.path))
	if err != nil {
		return nil, err
	}
	if f.store == nil {
		return parsePEM(data)
	}
	store, err := tlsstore.Decode(data, f.store.Password, f.store.KeyPassword)
	if err != nil {
		return nil, err
	}
	if !f.own {
		return store.Trusted, nil
	}
	for _, key := range store.Keys {
		all = append(all, key.Leaf)
	}
	return all, nil
}

// parsePEM parses the certificates of a PEM file.
func parsePEM(data []byte) (all []*x509.Certificate, err error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(all)+1, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// checkLogins names the passwords that travel unencrypted. OpenWhisk's role sends those
// of CouchDB and the admin port so by default.
func checkLogins(s *snapshot) []Finding {
	c := s.Config
	var (
		usual []string
		all   []Finding
	)
	exposed := func(is bool, what, key, value string) {
		if is {
			all = append(all, warn("set "+key+"="+value, "%s's password is sent unencrypted, so it can be read on the network", what)...)
		}
	}
	login, err := c.Kafka.Login()
	exposed(err == nil && login != nil && login.Mechanism == "PLAIN" && !c.Kafka.Encrypted(), "Kafka", "CONFIG_whisk_kafka_common_securityProtocol", "SASL_SSL")
	exposed(s.recordsElsewhere() && c.Records.Store == config.StoreElasticsearch && c.Elasticsearch.Protocol == "http" && c.Elasticsearch.Password != "",
		"Elasticsearch", "CONFIG_whisk_activationStore_elasticsearch_protocol", "https")
	if c.CouchDB.Protocol == "http" && c.CouchDB.Password != "" {
		usual = append(usual, "CouchDB's (CONFIG_whisk_couchdb_protocol)")
	}
	if c.Admin.Protocol == "http" && !c.Admin.LocalOnly() {
		usual = append(usual, "the admin port's (CONFIG_whisk_invoker_protocol)")
	}
	if len(all) > 0 {
		return all
	}
	if len(usual) == 0 {
		return ok("no password is sent unencrypted")
	}
	return ok("no password is sent unencrypted, except %s, as by default in OpenWhisk", strings.Join(usual, " and "))
}
