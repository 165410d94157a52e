package config

import (
	"errors"
	"fmt"
	"strings"
)

// Kafka is how the message bus is reached and which topics are used.
type Kafka struct {
	Hosts []string
	// TopicPrefix leads the names of all topics but the user events one,
	// which has UserEventPrefix.
	TopicPrefix       string
	UserEventPrefix   string
	ReplicationFactor int
	Partitions        int
	// TopicConfig is the configuration of the invoker's own topic as Kafka
	// names it (dots), max.message.bytes included. It is used at creation.
	TopicConfig      map[string]string
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
	TruststoreLocation     string
	TruststorePassword     string
	TruststoreType         string
	KeystoreLocation       string
	KeystorePassword       string
	KeystoreType           string
	KeyPassword            string
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
			Doc: "partitions of the invoker's topic when it has to be created; exactly one"},
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
			Doc: "store of trusted certificates, with SSL and SASL_SSL; with https above it may be left out: then the system's authorities are trusted"},
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

// Login is the invoker's identity at the brokers.
type Login struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Username  string
	Password  string
}

// The classes by which Java clients name what reads their options.
const (
	plainModule = "org.apache.kafka.common.security.plain.PlainLoginModule"
	scramModule = "org.apache.kafka.common.security.scram.ScramLoginModule"
)

const (
	mechanismKey = "whisk.kafka.common.sasl-mechanism"
	jaasKey      = "whisk.kafka.common.sasl-jaas-config"
)

// Encrypted reports whether the connections to the brokers are those of TLS.
func (k *Kafka) Encrypted() bool { return strings.HasSuffix(k.SecurityProtocol, "SSL") }

// Login is nil unless the security protocol is one with SASL. Its errors repeat
// nothing of what the key holds.
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
		// The other way round Java takes it, for PLAIN needs no class of Kafka.
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

// parseJAAS reads one entry of the JAAS format as Kafka's Java client reads it:
//
//	class required name="value" name='value' name=value;
//
// What Java silently accepts is an error here: text
// whose quote is not closed. Errors name positions, not text, which may be secret.
func parseJAAS(s string) (module string, options map[string]string, err error) {
	p := &jaasParser{rest: s, whole: len(s)}
	if module, err = p.text("the class of a login module"); err != nil {
		return "", nil, err
	}
	flag, err := p.text("required")
	if err != nil {
		return "", nil, err
	}
	switch strings.ToLower(flag) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return "", nil, fmt.Errorf("%q does not follow the class of the login module", "required")
	}
	options = map[string]string{}
	for {
		t, err := p.next()
		if err != nil {
			return "", nil, err
		}
		if t.kind == ';' {
			break
		}
		if t.kind != jaasText {
			return "", nil, t.instead("the name of an option, or a semicolon at the end")
		}
		if options[t.text], err = p.value(); err != nil {
			return "", nil, err
		}
	}
	t, err := p.next()
	if err == nil && t.kind != jaasEnd {
		err = t.instead("nothing more: it has one login module")
	}
	return module, options, err
}

// Kinds of tokens beside '=' and ';', which are their own.
const (
	jaasEnd  = 0
	jaasText = 'a' // a word, or what was in quotes
)

type jaasToken struct {
	kind byte
	text string
	at   int // the number of its first byte, from 1
}

func (t jaasToken) instead(want string) error {
	if t.kind == jaasEnd {
		return fmt.Errorf("it ends where there should be %s", want)
	}
	return fmt.Errorf("at character %d there should be %s", t.at, want)
}

type jaasParser struct {
	rest  string
	whole int
}

// text takes a token that is one.
func (p *jaasParser) text(what string) (string, error) {
	t, err := p.next()
	if err == nil && t.kind != jaasText {
		err = t.instead(what)
	}
	return t.text, err
}

// value takes what follows the name of an option.
func (p *jaasParser) value() (string, error) {
	t, err := p.next()
	if err == nil && t.kind != '=' {
		err = t.instead("= and a value; a name or value with other than letters, digits, dots and dashes must be in double quotes")
	}
	if err != nil {
		return "", err
	}
	return p.text("a value")
}

func (p *jaasParser) at() int { return p.whole - len(p.rest) + 1 }

func (p *jaasParser) next() (jaasToken, error) {
	if err := p.skip(); err != nil {
		return jaasToken{}, err
	}
	t := jaasToken{at: p.at()}
	if p.rest == "" {
		return t, nil
	}
	var err error
	switch c := p.rest[0]; {
	case c == '=' || c == ';':
		t.kind, p.rest = c, p.rest[1:]
	case c == '"' || c == '\'':
		t.kind = jaasText
		t.text, err = p.quoted()
	case wordStart(c):
		t.kind = jaasText
		n := 1
		for n < len(p.rest) && (wordStart(p.rest[n]) || strings.IndexByte("0123456789.-", p.rest[n]) >= 0) {
			n++
		}
		t.text, p.rest = p.rest[:n], p.rest[n:]
	default: // Java takes a number for no text, and a sign for a token of its own
		err = fmt.Errorf("character %d is not the beginning of a word: put the text in double quotes", t.at)
	}
	return t, err
}

func wordStart(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c == '$' || c >= 0x80
}

// skip passes over blanks and comments.
func (p *jaasParser) skip() error {
	for {
		p.rest = strings.TrimLeftFunc(p.rest, func(r rune) bool { return r <= ' ' })
		var end string
		switch {
		case strings.HasPrefix(p.rest, "//"):
			end = "\n"
		case strings.HasPrefix(p.rest, "/*"):
			end = "*/"
		default:
			return nil
		}
		_, after, closed := strings.Cut(p.rest[2:], end)
		if !closed && end == "*/" {
			return fmt.Errorf("the comment at character %d is not closed", p.at())
		}
		p.rest = after
	}
}

// quoted takes a text in quotes with the escapes of Java.
func (p *jaasParser) quoted() (string, error) {
	at, quote := p.at(), p.rest[0]
	p.rest = p.rest[1:]
	var b strings.Builder
	for p.rest != "" && p.rest[0] != '\n' && p.rest[0] != '\r' {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == quote:
			return b.String(), nil
		case c == '\\' && p.rest != "":
			p.escaped(&b)
		default:
			b.WriteByte(c)
		}
	}
	return "", fmt.Errorf("the quote at character %d is not closed on its line", at)
}

func (p *jaasParser) escaped(b *strings.Builder) {
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c < '0' || c > '7' {
		if i := strings.IndexByte("abfnrtv", c); i >= 0 {
			c = "\a\b\f\n\r\t\v"[i]
		}
		b.WriteByte(c)
		return
	}
	most := 2 // digits; three only up to 377
	if c <= '3' {
		most = 3
	}
	value := rune(c - '0')
	for n := 1; n < most && p.rest != "" && '0' <= p.rest[0] && p.rest[0] <= '7'; n++ {
		value = value*8 + rune(p.rest[0]-'0')
		p.rest = p.rest[1:]
	}
	b.WriteRune(value)
}
