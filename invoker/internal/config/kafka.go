package config

import (
	"errors"
	"fmt"
	"strings"
)

// Kafka configures the connection to the message bus and the topics.
type Kafka struct {
	Hosts []string `key:"kafka.hosts,required,plain" env:"KAFKA_HOSTS" doc:"Kafka brokers host:port[,host:port...]"`
	// TopicPrefix precedes the names of all topics except the user events topic, which
	// uses UserEventPrefix.
	TopicPrefix       string `key:"whisk.kafka.topics.prefix" doc:"prefix of all topic names"`
	UserEventPrefix   string `key:"whisk.kafka.topics.user-event.prefix" doc:"prefix of the user events topic"`
	ReplicationFactor int    `key:"whisk.kafka.replication-factor" default:"1" range:"1..32767" doc:"replication factor and partitions with which the invoker creates its topic; the topic has exactly one partition"`
	Partitions        int    `key:"whisk.kafka.topics.invoker.partitions" default:"1" range:"1..1"`
	// TopicConfig is the configuration of the invoker's own topic by Kafka's names (with
	// dots), max.message.bytes included. It is used when the topic is created.
	TopicConfig      map[string]string `key:"whisk.kafka.topics.invoker.*" default:"segment.bytes=536870912,retention.bytes=1073741824,retention.ms=172800000" doc:"settings with which the invoker creates its topic; dashes become dots"`
	SecurityProtocol string            `key:"whisk.kafka.common.security-protocol" default:"PLAINTEXT" enum:"PLAINTEXT,SSL,SASL_PLAINTEXT,SASL_SSL" doc:"transport to the brokers, with or without TLS and a login"`
	// TLS is used only with SSL and SASL_SSL.
	TLS KafkaTLS
	// SASL is used only with SASL_PLAINTEXT and SASL_SSL. Login parses it.
	SASL KafkaSASL
}

// KafkaSASL is the login at the brokers, as written in the keys.
type KafkaSASL struct {
	Mechanism string `key:"whisk.kafka.common.sasl-mechanism" enum:",PLAIN,SCRAM-SHA-256,SCRAM-SHA-512" doc:"how the login is done; needed with SASL_PLAINTEXT and SASL_SSL"`
	JAAS      string `key:"whisk.kafka.common.sasl-jaas-config,secret" doc:"user and password as Java clients write them: CLASS required username=\"...\" password=\"...\";"`
}

// KafkaTLS names the stores of a TLS connection to the brokers.
type KafkaTLS struct {
	TruststoreLocation     string `key:"whisk.kafka.common.ssl-truststore-location" doc:"store of trusted certificates, for SSL and SASL_SSL; empty, where host names are checked: the system's authorities. The file's own format overrides type"`
	TruststorePassword     string `key:"whisk.kafka.common.ssl-truststore-password,secret"`
	TruststoreType         string `key:"whisk.kafka.common.ssl-truststore-type" default:"JKS" enum:"JKS,PKCS12"`
	KeystoreLocation       string `key:"whisk.kafka.common.ssl-keystore-location" doc:"store of the client's key, if brokers ask for a certificate. The file's own format overrides type"`
	KeystorePassword       string `key:"whisk.kafka.common.ssl-keystore-password,secret"`
	KeystoreType           string `key:"whisk.kafka.common.ssl-keystore-type" default:"JKS" enum:"JKS,PKCS12"`
	KeyPassword            string `key:"whisk.kafka.common.ssl-key-password,secret" doc:"password of the key in the key store; empty means the store's password"`
	EndpointIdentification string `key:"whisk.kafka.common.ssl-endpoint-identification-algorithm" enum:",https" doc:"https: host names in broker certificates are checked"`
}

// Login is the invoker's identity at the brokers.
type Login struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Username  string
	Password  string
}

// The class names of login modules in Java clients.
const (
	plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
)

const (
	mechanismKey = "whisk.kafka.common.sasl-mechanism"
	jaasKey      = "whisk.kafka.common.sasl-jaas-config"
)

// Encrypted reports whether the connections to the brokers use TLS.
func (k *Kafka) Encrypted() bool { return strings.HasSuffix(k.SecurityProtocol, "SSL") }

// Login parses the invoker's login. It returns nil if the security protocol has no SASL.
// Its errors never repeat the JAAS configuration.
func (k *Kafka) Login() (*Login, error) {
	if !strings.HasPrefix(k.SecurityProtocol, "SASL_") {
		return nil, nil
	}
	switch {
	case k.SASL.Mechanism == "":
		return nil, fmt.Errorf("whisk.kafka.common.security-protocol is %s, which needs %s: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 (GSSAPI, which Java takes without it, is not supported)",
			k.SecurityProtocol, mechanismKey)
	case k.SASL.JAAS == "":
		return nil, fmt.Errorf(`whisk.kafka.common.security-protocol is %s, which needs %s: %s required username="..." password="...";`,
			k.SecurityProtocol, jaasKey, moduleOf(k.SASL.Mechanism))
	}
	l, err := k.login()
	if err != nil {
		return nil, fmt.Errorf(`%s: %w; it should read: %s required username="..." password="...";`, jaasKey, err, moduleOf(k.SASL.Mechanism))
	}
	return l, nil
}

func moduleOf(mechanism string) string {
	if mechanism == "PLAIN" {
		return plainModule
	}
	return scramModule
}

func (k *Kafka) login() (*Login, error) {
	module, options, err := parseJAAS(k.SASL.JAAS)
	switch {
	case err != nil:
		return nil, err
	case module != plainModule && module != scramModule:
		return nil, fmt.Errorf("its login module is neither %s nor %s", plainModule, scramModule)
	case module == plainModule && k.SASL.Mechanism != "PLAIN":
		// In Java, ScramLoginModule also works for PLAIN, because PLAIN needs no class
		// of Kafka.
		return nil, fmt.Errorf("%s does not serve %s %s", module, mechanismKey, k.SASL.Mechanism)
	case options["username"] == "":
		return nil, errors.New("it has no username")
	case options["password"] == "":
		return nil, errors.New("it has no password")
	case strings.EqualFold(options["tokenauth"], "true"):
		return nil, errors.New("tokenauth is not supported: give a user and a password, not a delegation token")
	}
	return &Login{Mechanism: k.SASL.Mechanism, Username: options["username"], Password: options["password"]}, nil
}
