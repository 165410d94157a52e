package config

import (
	"errors"
	"fmt"
	"strings"
)

// Login is who the invoker is to the brokers.
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

// Encrypted tells whether the connections to the brokers are those of TLS.
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
// What Java takes for granted and would rather be told is an error here: text
// whose quote is not closed. Errors tell places, not text, which may be secret.
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
