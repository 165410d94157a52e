package config

// S3 is where controllers keep the code of actions beside the database, under
// the keys that OpenWhisk has for it.
type S3 struct {
	Enabled bool
	Bucket  string
	Prefix  string
	// Endpoint is empty for AWS.
	Endpoint  string
	PathStyle bool
	// Credentials is "default", "static" or "anon".
	Credentials                 string
	AccessKey, SecretKey, Token string
	Region                      string
	// CloudFront is the domain that the original would read through.
	CloudFront string
	// Certificate is a PEM file, empty for the system's authorities.
	Certificate string
}

func s3Keys(c *Config) []*Key {
	d := &c.S3
	const now, before = "whisk.s3.pekko-connectors.", "whisk.s3.alpakka."
	key := func(name, standard, doc string, v value) *Key {
		return &Key{Name: now + name, also: []string{before + name}, Default: standard, Doc: doc, value: v}
	}
	access := key("aws.credentials.access-key-id", "", "access key, with provider static", text(&d.AccessKey))
	secret := key("aws.credentials.secret-access-key", "", "secret of that key", exact(&d.SecretKey))
	token := key("aws.credentials.token", "", "session token that goes with that key, if any", exact(&d.Token))
	access.Secret, secret.Secret, token.Secret = true, true, true
	return []*Key{
		{Name: "whisk.s3.bucket", value: text(&d.Bucket),
			Doc: "bucket that controllers keep code in; needed with whisk.spi.AttachmentStoreProvider S3AttachmentStoreProvider"},
		{Name: "whisk.s3.prefix", value: text(&d.Prefix), Doc: "folder in the bucket"},
		{Name: "whisk.s3.cloud-front-config.domain-name", value: text(&d.CloudFront),
			Doc: "must be empty: code is read from the bucket itself"},
		key("endpoint-url", "", "http(s)://host:port of an S3 that is not AWS", text(&d.Endpoint)),
		key("path-style-access", "true", "name the bucket in the path of a request; false: in its host", boolean(&d.PathStyle)),
		key("aws.credentials.provider", "default", "static: the key below; anon: none; default: as AWS's programs do, from AWS_ACCESS_KEY_ID "+
			"and AWS_SECRET_ACCESS_KEY, ~/.aws/credentials or the machine's role", choice(&d.Credentials, "default", "static", "anon")),
		access, secret, token,
		key("aws.region.default-region", "", "region of the bucket; empty: the server is asked", text(&d.Region)),
		{Name: "whisk.gpu.s3.certificate", value: text(&d.Certificate),
			Doc: "PEM file of the authorities that sign the certificate of S3; empty means the system's"},
	}
}

func (d S3) check(demand func(ok bool, format string, args ...any)) {
	demand(d.Bucket != "", "code is kept in S3, which needs whisk.s3.bucket")
	demand(d.CloudFront == "", "whisk.s3.cloud-front-config is not served: code is read from the bucket itself; leave it away and give this invoker credentials that may read the bucket")
	demand(d.Credentials != "static" || d.AccessKey != "" && d.SecretKey != "",
		"whisk.s3.pekko-connectors.aws.credentials.provider is static, which needs access-key-id and secret-access-key beside it")
}
