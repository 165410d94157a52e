package config

// Admin is the invoker's own HTTP door.
type Admin struct {
	// Port is where ping, metrics, status and enable/disable are served.
	Port int
	// Protocol is "http" or "https".
	Protocol string
	// Username and Password guard everything but ping and metrics.
	Username string
	Password string
	// TLS names the key store; it matters only with https.
	TLS AdminTLS
	// TransactionHeader carries a transaction id in and out.
	TransactionHeader string
	// Status serves /status.
	Status bool
}

// AdminTLS names the store that is both the key and the trust store.
type AdminTLS struct {
	KeystorePath     string
	KeystorePassword string
	// KeystoreFlavor is "PKCS12" or "JKS".
	KeystoreFlavor string
	// ClientAuth demands a client certificate that the store trusts.
	ClientAuth bool
}

func adminKeys(c *Config) []*Key {
	a := &c.Admin
	return []*Key{
		{Name: "port", Env: "PORT", legacy: true, Default: "8080", value: integer(&a.Port, 0, 65535),
			Doc: "port of the invoker's HTTP endpoints (ping, metrics, status, enable, disable)"},
		{Name: "whisk.invoker.protocol", Default: "http", value: choice(&a.Protocol, "http", "https"),
			Doc: "whether the HTTP endpoints speak TLS"},
		{Name: "whisk.invoker.username", Default: "invoker.user", value: text(&a.Username),
			Doc: "user of the guarded endpoints"},
		{Name: "whisk.invoker.password", Default: "invoker.pass", Secret: true, value: exact(&a.Password),
			Doc: "password of the guarded endpoints"},
		{Name: "whisk.invoker.https.keystore-path", value: text(&a.TLS.KeystorePath),
			Doc: "key store that holds the server's key and the certificates it trusts; needed with https"},
		{Name: "whisk.invoker.https.keystore-password", Secret: true, value: exact(&a.TLS.KeystorePassword),
			Doc: "password of that key store"},
		{Name: "whisk.invoker.https.keystore-flavor", Default: "PKCS12", value: choice(&a.TLS.KeystoreFlavor, "PKCS12", "JKS"),
			Doc: "declared format of that key store; the real one is recognised from its first bytes"},
		{Name: "whisk.invoker.https.client-auth", Default: "false", value: boolean(&a.TLS.ClientAuth),
			Doc: "demand a client certificate that the key store trusts"},
		{Name: "whisk.transactions.header", Default: "X-Request-ID", value: text(&a.TransactionHeader),
			Doc: "HTTP header that carries the transaction id"},
		{Name: "whisk.gpu.status.enabled", Default: "true", value: boolean(&a.Status),
			Doc: "serve /status (health with reasons, flows, containers, last errors)"},
	}
}
