package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	wire "github.com/segmentio/kafka-go"
	wiresasl "github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Login is how the invoker authenticates to the brokers.
type Login struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Username  string
	Password  string
}

// String leaves the password out.
func (l Login) String() string { return fmt.Sprintf("%q by %s", l.Username, l.Mechanism) }

// login is a Login that can be carried out, by any number of connections and by
// both clients: that of franz-go, and by its own methods that of kafka-go.
type login struct {
	sasl.Mechanism
	name string
}

func newLogin(l Login) (*login, error) {
	if l.Username == "" || l.Password == "" {
		return nil, fmt.Errorf("kafka: login %v needs a user and a password", l)
	}
	prepared := &login{name: l.String()}
	switch l.Mechanism {
	case "PLAIN":
		prepared.Mechanism = plain.Auth{User: l.Username, Pass: l.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		prepared.Mechanism = bounded{scram.Auth{User: l.Username, Pass: l.Password}.AsSha256Mechanism()}
	case "SCRAM-SHA-512":
		prepared.Mechanism = bounded{scram.Auth{User: l.Username, Pass: l.Password}.AsSha512Mechanism()}
	default:
		return nil, fmt.Errorf("kafka: login %v: the mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512", l)
	}
	return prepared, nil
}

// String leaves the password out.
func (l *login) String() string { return l.name }

// Start begins a login of kafka-go's.
func (l *login) Start(ctx context.Context) (wiresasl.StateMachine, []byte, error) {
	session, first, err := l.Authenticate(ctx, "") // of these mechanisms none asks for the host
	return loginSession{session}, first, err
}

type loginSession struct{ sasl.Session }

// Next answers the broker's challenge.
func (s loginSession) Next(_ context.Context, challenge []byte) (done bool, answer []byte, err error) {
	return s.Challenge(challenge)
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

// Challenge answers the broker's challenge.
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
