package config

// Kafka is how the message bus is reached and which topics are used.
type Kafka struct {
	// Hosts are the bootstrap servers, host:port each.
	Hosts []string
	// TopicPrefix leads the names of all topics but the user events one,
	// which has UserEventPrefix.
	TopicPrefix     string
	UserEventPrefix string
	// ReplicationFactor is given to topics that the invoker creates.
	ReplicationFactor int
	// Partitions of the invoker's own topic when it has to be created.
	Partitions int
	// TopicConfig is the configuration of the invoker's own topic as Kafka
	// names it (dots), max.message.bytes included. It is used at creation.
	TopicConfig map[string]string
	// SecurityProtocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.
	SecurityProtocol string
	// TLS matters only with SSL and SASL_SSL.
	TLS KafkaTLS
	// SASL matters only with SASL_PLAINTEXT and SASL_SSL. Login reads it.
	SASL KafkaSASL
}

// KafkaSASL is the login at the brokers as the keys have it.
type KafkaSASL struct {
	Mechanism string
	JAAS      string
}

// KafkaTLS names the stores of a TLS connection to the brokers.
type KafkaTLS struct {
	TruststoreLocation string
	TruststorePassword string
	TruststoreType     string
	KeystoreLocation   string
	KeystorePassword   string
	KeystoreType       string
	KeyPassword        string
	// EndpointIdentification is empty (host names are not checked) or
	// "https".
	EndpointIdentification string
}

func kafkaKeys(c *Config) []*Key {
	k := &c.Kafka
	return []*Key{
		{Name: "kafka.hosts", Env: "KAFKA_HOSTS", legacy: true, required: true, value: commaList(&k.Hosts),
			Doc: "Kafka bootstrap servers host:port[,host:port...]"},
		{Name: "whisk.kafka.topics.prefix", value: text(&k.TopicPrefix),
			Doc: "prefix of all topic names"},
		{Name: "whisk.kafka.topics.user-event.prefix", value: text(&k.UserEventPrefix),
			Doc: "prefix of the user events topic"},
		{Name: "whisk.kafka.replication-factor", Default: "1", value: integer(&k.ReplicationFactor, 1, 32767),
			Doc: "replication factor of the invoker's topic when it has to be created"},
		{Name: "whisk.kafka.topics.invoker.partitions", Default: "1", value: integer(&k.Partitions, 1, 1),
			Doc: "partitions of the invoker's topic when it has to be created; the order of work needs exactly one"},
		{Name: "whisk.kafka.topics.invoker.*", value: properties(&k.TopicConfig),
			defaults: map[string]string{"segment.bytes": "536870912", "retention.bytes": "1073741824", "retention.ms": "172800000"},
			Doc:      "configuration of the invoker's topic when it has to be created; dashes become dots"},
		{Name: "whisk.kafka.common.security-protocol", Default: "PLAINTEXT", value: choice(&k.SecurityProtocol, "PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
			Doc: "transport to the brokers, those with SASL after a login"},
		{Name: mechanismKey, value: choice(&k.SASL.Mechanism, "", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
			Doc: "how the login is done; must be given with SASL_PLAINTEXT and SASL_SSL"},
		{Name: jaasKey, Secret: true, value: exact(&k.SASL.JAAS),
			Doc: `user and password of the login as Java clients write them: CLASS required username="..." password="...";`},
		{Name: "whisk.kafka.common.ssl-endpoint-identification-algorithm", value: choice(&k.TLS.EndpointIdentification, "", "https"),
			Doc: "empty: host names in broker certificates are not checked; https: they are"},
		{Name: "whisk.kafka.common.ssl-truststore-location", value: text(&k.TLS.TruststoreLocation),
			Doc: "store of trusted certificates, used with SSL and SASL_SSL; with host names checked (https) it may be left out: then the authorities of the system are trusted"},
		{Name: "whisk.kafka.common.ssl-truststore-password", Secret: true, value: exact(&k.TLS.TruststorePassword),
			Doc: "password of the trust store"},
		{Name: "whisk.kafka.common.ssl-truststore-type", Default: "JKS", value: choice(&k.TLS.TruststoreType, "JKS", "PKCS12"),
			Doc: "declared format of the trust store; the real one is recognised from its first bytes"},
		{Name: "whisk.kafka.common.ssl-keystore-location", value: text(&k.TLS.KeystoreLocation),
			Doc: "store of the client's key, used with SSL and SASL_SSL"},
		{Name: "whisk.kafka.common.ssl-keystore-password", Secret: true, value: exact(&k.TLS.KeystorePassword),
			Doc: "password of the key store"},
		{Name: "whisk.kafka.common.ssl-keystore-type", Default: "JKS", value: choice(&k.TLS.KeystoreType, "JKS", "PKCS12"),
			Doc: "declared format of the key store; the real one is recognised from its first bytes"},
		{Name: "whisk.kafka.common.ssl-key-password", Secret: true, value: exact(&k.TLS.KeyPassword),
			Doc: "password of the key inside the key store; empty means that of the store"},
	}
}
