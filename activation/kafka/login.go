package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Login is how the brokers are told who the invoker is.
type Login struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Username  string
	Password  string
}

// String leaves the password out.
func (l Login) String() string { return fmt.Sprintf("%q by %s", l.Username, l.Mechanism) }

// login is a Login that can be carried out, by any number of links.
type login struct {
	mechanism sasl.Mechanism
	who       string
}

func newLogin(l Login) (*login, error) {
	if l.Username == "" || l.Password == "" {
		return nil, fmt.Errorf("kafka: login %v needs a user and a password", l)
	}
	prepared := &login{who: l.String()}
	switch l.Mechanism {
	case "PLAIN":
		prepared.mechanism = plain.Auth{User: l.Username, Pass: l.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		prepared.mechanism = bounded{scram.Auth{User: l.Username, Pass: l.Password}.AsSha256Mechanism()}
	case "SCRAM-SHA-512":
		prepared.mechanism = bounded{scram.Auth{User: l.Username, Pass: l.Password}.AsSha512Mechanism()}
	default:
		return nil, fmt.Errorf("kafka: login %v: the mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512", l)
	}
	return prepared, nil
}

// maxRounds is how often a broker may have a password hashed. Kafka's own bound
// for what it stores is 16,384; each million takes about a second of a processor.
const maxRounds = 1_000_000

// bounded is SCRAM with a broker that may not ask for any amount of computing.
type bounded struct{ sasl.Mechanism }

// Authenticate begins a login.
func (m bounded) Authenticate(ctx context.Context, host string) (sasl.Session, []byte, error) {
	session, first, err := m.Mechanism.Authenticate(ctx, host)
	return boundedSession{session}, first, err
}

type boundedSession struct{ sasl.Session }

// Challenge answers what the broker says.
func (s boundedSession) Challenge(text []byte) (done bool, answer []byte, err error) {
	for word := range bytes.SplitSeq(text, []byte{','}) {
		if rounds, ok := bytes.CutPrefix(word, []byte("i=")); ok {
			n, err := strconv.Atoi(string(rounds))
			if n > maxRounds || errors.Is(err, strconv.ErrRange) {
				return false, nil, fmt.Errorf("%w: the broker wants the password hashed %.20s times, %d is the most there is", errHostileLogin, rounds, maxRounds)
			}
		}
	}
	return s.Session.Challenge(text)
}

var errHostileLogin = errors.New("login refused")

// logIn tells the broker who we are. A broker that lets a login expire is told
// again on the same link.
func (l *link) logIn(ctx context.Context) error {
	lifetime, err := l.authenticate(ctx)
	if err != nil {
		return fmt.Errorf("log in to broker %s as %s: %w%s", l.addr, l.login.who, err, advice(err))
	}
	l.renew = time.Time{}
	if lifetime > 0 {
		l.renew = time.Now().Add(lifetime / 10 * 8)
	}
	return nil
}

func (l *link) authenticate(ctx context.Context) (lifetime time.Duration, err error) {
	mechanism := l.login.mechanism
	answer, err := l.exchange(&saslhandshake.Request{Mechanism: mechanism.Name()}, dialTimeout)
	if err != nil {
		return 0, err
	}
	hello := answer.(*saslhandshake.Response)
	if err := codeError(hello.ErrorCode); err != nil {
		if len(hello.Mechanisms) > 0 {
			return 0, fmt.Errorf("%w: it has %s", err, strings.Join(hello.Mechanisms, ", "))
		}
		return 0, err
	}
	session, message, err := mechanism.Authenticate(ctx, l.addr)
	if err != nil {
		return 0, err
	}
	for done := false; !done; {
		answer, err := l.exchange(&saslauthenticate.Request{AuthBytes: message}, dialTimeout)
		if err != nil {
			return 0, err
		}
		res := answer.(*saslauthenticate.Response)
		if err := codeError(res.ErrorCode); err != nil {
			if res.ErrorMessage != "" {
				return 0, fmt.Errorf("%w: %s", err, res.ErrorMessage)
			}
			return 0, err
		}
		if done, message, err = session.Challenge(res.AuthBytes); err != nil {
			return 0, err
		}
		lifetime = time.Duration(res.SessionLifetimeMs) * time.Millisecond
	}
	return lifetime, nil
}

// advice names the setting behind a refusal.
func advice(err error) string {
	switch {
	case errors.Is(err, kerr.SaslAuthenticationFailed), code(err) == wire.SASLAuthenticationFailed:
		return " (check username and password in whisk.kafka.common.sasl-jaas-config)"
	case errors.Is(err, kerr.UnsupportedSaslMechanism), code(err) == wire.UnsupportedSASLMechanism:
		return " (check whisk.kafka.common.sasl-mechanism)"
	case errors.Is(err, kerr.IllegalSaslState), code(err) == wire.IllegalSASLState:
		return " (this listener knows no login: check KAFKA_HOSTS and whisk.kafka.common.security-protocol)"
	}
	return ""
}
