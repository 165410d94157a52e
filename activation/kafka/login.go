package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	wire "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// Login says how the invoker authenticates to the brokers.
type Login struct {
	Mechanism string // PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512
	Username  string
	Password  string
}

// String leaves the password out.
func (l Login) String() string { return fmt.Sprintf("%q by %s", l.Username, l.Mechanism) }

// login is a prepared Login, which any number of connections may use.
type login struct {
	sasl.Mechanism
	name string
}

func newLogin(l Login) (*login, error) {
	if l.Username == "" || l.Password == "" {
		return nil, fmt.Errorf("kafka: login %v needs a user and a password", l)
	}
	var mechanism sasl.Mechanism
	var err error
	switch l.Mechanism {
	case "PLAIN":
		mechanism = plain.Mechanism{Username: l.Username, Password: l.Password}
	case "SCRAM-SHA-256":
		mechanism, err = scram.Mechanism(scram.SHA256, l.Username, l.Password)
	case "SCRAM-SHA-512":
		mechanism, err = scram.Mechanism(scram.SHA512, l.Username, l.Password)
	default:
		err = errors.New("the mechanisms are PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512")
	}
	if err != nil {
		return nil, fmt.Errorf("kafka: login %v: %w", l, err)
	}
	return &login{mechanism, l.String()}, nil
}

// String leaves the password out.
func (l *login) String() string { return l.name }

// Start begins a login.
func (l *login) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	session, first, err := l.Mechanism.Start(ctx)
	return bounded{session}, first, err
}

// maxRounds limits the number of hash rounds that a broker may ask for. Kafka's own limit for
// stored passwords is 16,384. A million rounds take about a second of processor time.
const maxRounds = 1_000_000

// bounded is a login that limits the computing that a broker may ask for.
type bounded struct{ sasl.StateMachine }

// Next answers the broker's challenge.
func (s bounded) Next(ctx context.Context, challenge []byte) (done bool, answer []byte, err error) {
	for word := range bytes.SplitSeq(challenge, []byte{','}) {
		if rounds, ok := bytes.CutPrefix(word, []byte("i=")); ok {
			n, err := strconv.Atoi(string(rounds))
			if n > maxRounds || errors.Is(err, strconv.ErrRange) {
				return false, nil, fmt.Errorf("%w: the broker wants the password hashed %.20s times, %d is the most there is", errHostileLogin, rounds, maxRounds)
			}
		}
	}
	return s.StateMachine.Next(ctx, challenge)
}

var errHostileLogin = errors.New("login refused")

// advice returns the name of the setting to check after a refusal.
func advice(err error) string {
	switch code(err) {
	case wire.SASLAuthenticationFailed:
		return " (check username and password in whisk.kafka.common.sasl-jaas-config)"
	case wire.UnsupportedSASLMechanism:
		return " (check whisk.kafka.common.sasl-mechanism)"
	case wire.IllegalSASLState:
		return " (this listener knows no login: check KAFKA_HOSTS and whisk.kafka.common.security-protocol)"
	}
	return ""
}
