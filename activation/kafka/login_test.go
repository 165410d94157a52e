package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

var mechanisms = []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}

// guarded returns a real broker's listener that asks for a login, and a valid login. A login
// by SCRAM-SHA-256 lasts two seconds.
func guarded(t *testing.T, mechanism string) (*fixture, Login) {
	t.Helper()
	plain := realBroker(t)
	addr := peertest.Variable(t, "GPUWHISK_TEST_KAFKA_SASL", "kafka.sh")
	user, password, _ := strings.Cut(os.Getenv("GPUWHISK_TEST_KAFKA_LOGIN"), ":")
	b := newFixture(t, nil, plain) // the peer needs no login
	b.addrs = []string{addr}
	return b, Login{mechanism, user, password}
}

func guardedFake(t *testing.T, mechanism string) (*fixture, Login) {
	t.Helper()
	l := Login{mechanism, "whisk, a=b", "of a test"}
	fake := startFake(t, kfake.EnableSASL(), kfake.Superuser(mechanism, l.Username, l.Password))
	b := &fixture{t: t, addrs: fake.ListenAddrs(), fake: fake, log: &logbook{}}
	b.peer = b.client(kgo.SASL(peerLogin(l)))
	return b, l
}

// peerLogin is a login of the tests' own client.
func peerLogin(l Login) sasl.Mechanism {
	switch l.Mechanism {
	case "SCRAM-SHA-256":
		return scram.Auth{User: l.Username, Pass: l.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: l.Username, Pass: l.Password}.AsSha512Mechanism()
	}
	return plain.Auth{User: l.Username, Pass: l.Password}.AsMechanism()
}

// clusterAs returns the code under test with a login.
func (b *fixture) clusterAs(l Login) *Cluster {
	b.t.Helper()
	c, err := New(Options{Brokers: b.addrs, Login: &l, Log: b.log.logger()})
	b.must(err)
	return c
}

// Every kind of connection works after a login: creating topics, sending, pinging, reading and
// surveying.
func TestEverythingLogsIn(t *testing.T) {
	for _, mechanism := range mechanisms {
		for where, open := range map[string]func(*testing.T, string) (*fixture, Login){"kfake": guardedFake, "kafka": guarded} {
			t.Run(where+"/"+mechanism, func(t *testing.T) {
				t.Parallel()
				b, l := open(t, mechanism)
				b.useAll(b.clusterAs(l))
			})
		}
	}
}

func (b *fixture) useAll(c *Cluster) {
	b.t.Helper()
	ctx := b.ctx()
	topic, health := freshName(), freshName()
	for _, name := range []string{topic, health} {
		b.must(c.EnsureTopic(ctx, TopicSpec{Name: name}))
		b.await("the broker to know topic "+name, func() bool { return b.knows(name) })
	}
	survey, err := c.Describe(ctx)
	check.NoError(b.t, err)
	check.Equal(check.Must(b.t), survey.Topics[topic], 1, "survey %+v", survey)

	p := c.NewPinger(PingerConfig{Topic: health, Instance: invoker0(), Every: 10 * time.Millisecond})
	defer p.Close()
	b.await("two pings", func() bool { return b.end(health) >= 2 })

	producer := c.NewProducer(ProducerConfig{})
	defer producer.Close(ctx)
	b.must(b.fate(producer, topic, message(0)))

	f := c.NewFeed(FeedConfig{Topic: topic, CommitEvery: 5 * time.Millisecond})
	b.next(f, 0).Done()
	b.must(f.Close(ctx))
	b.position(topic, 1)
}

// An expired login is renewed: the broker closes the connection, and no ping fails.
func TestLoginIsRenewed(t *testing.T) {
	t.Parallel()
	b, l := guarded(t, "SCRAM-SHA-256")
	health := b.topic()
	p := b.clusterAs(l).NewPinger(PingerConfig{Topic: health, Instance: invoker0(), Every: 100 * time.Millisecond})
	defer p.Close()
	// A machine that stands still as a login ends may lose two connections: then it counts anew.
	cuts, sent, since := -1, uint64(0), time.Now()
	b.await("pings for longer than three logins last, without a failure", func() bool {
		if n := b.log.count("EOF") + b.log.count("reset"); n != cuts {
			cuts, sent, since = n, p.Status().Sent, time.Now()
		}
		const lasts = 2 * time.Second
		return p.Status().Sent >= sent+60 && time.Since(since) > 3*lasts
	})
}

// A login that the broker refuses ends the wait for a topic: it stays wrong.
// There is no password in the error and in the log.
func TestLoginRefused(t *testing.T) {
	for _, mechanism := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			b, l := guarded(t, mechanism)
			l.Password = "very-secret"
			c := b.clusterAs(l)
			refusal := c.EnsureTopic(b.ctx(), TopicSpec{Name: freshName()})
			check.ErrorIs(check.Must(t), refusal, wire.SASLAuthenticationFailed)
			for _, want := range []string{b.addrs[0], `"whisk"`, mechanism, "whisk.kafka.common.sasl-jaas-config"} {
				check.ErrorContains(t, refusal, want)
			}
			p := c.NewPinger(PingerConfig{Topic: freshName(), Instance: invoker0()})
			defer p.Close()
			b.await("the pinger to say why", func() bool { return strings.Contains(p.Status().Interrupted, "sasl-jaas-config") })
			check.Lacks(t, fmt.Sprint(refusal, b.log, p.Status(), l), "very-secret", "the password")
		})
	}
}

// A listener without any login, and one without ours, are distinguished from a wrong
// password.
func TestLoginNotKnown(t *testing.T) {
	l := Login{"PLAIN", "whisk", "of a test"}
	real := newFixture(t, nil, realBroker(t))
	err := real.clusterAs(l).EnsureTopic(real.ctx(), TopicSpec{Name: freshName()})
	check.ErrorIs(t, err, wire.IllegalSASLState)
	check.ErrorContains(t, err, "security-protocol")

	fake := newFakeFixture(t)
	fake.fake.ControlKey(int16(kmsg.SASLHandshake), func(r kmsg.Request) (kmsg.Response, error, bool) {
		res := r.ResponseKind().(*kmsg.SASLHandshakeResponse)
		res.ErrorCode, res.SupportedMechanisms = 33, []string{"GSSAPI", "OAUTHBEARER"}
		return res, nil, true
	})
	err = fake.clusterAs(l).EnsureTopic(fake.ctx(), TopicSpec{Name: freshName()})
	check.ErrorIs(t, err, wire.UnsupportedSASLMechanism)
	check.ErrorContains(t, err, "sasl-mechanism")
}

func TestLoginNeedsItsParts(t *testing.T) {
	for _, l := range []Login{{"PLAIN", "", "very-secret"}, {"PLAIN", "a", ""}, {"GSSAPI", "a", "very-secret"}, {"", "a", "very-secret"}} {
		_, err := New(Options{Brokers: []string{"a:1"}, Login: &l})
		check.That(check.Must(t), err != nil, "%v: %v", l, err)
		check.Lacks(t, err.Error(), "very-secret", "%v", l)
	}
}

// TestHostileLoginIsRefused: a broker cannot have us compute for hours.
func TestHostileLoginIsRefused(t *testing.T) {
	for _, mechanism := range mechanisms[1:] {
		prepared, err := newLogin(Login{mechanism, "whisk", "of a test"})
		check.NoError(t, err)
		for rounds, refused := range map[string]bool{"4096": false, "1000001": true, "2147483647": true, "99999999999999999999999": true} {
			session, first, err := prepared.Start(t.Context())
			check.NoError(t, err)
			_, nonce, _ := strings.Cut(string(first), "r=")
			_, _, err = session.Next(t.Context(), []byte("r="+nonce+"more,s=c2FsdA==,i="+rounds))
			check.Equal(t, refused, errors.Is(err, errHostileLogin), "%s, %s rounds", mechanism, rounds)
			if !refused && err != nil {
				t.Errorf("%s, %s rounds: %v", mechanism, rounds, err)
			}
		}
	}
	// A session without this bound would compute for seconds.
	_, _, err := bounded{idleSession{}}.Next(t.Context(), []byte("r=more,s=c2FsdA==,i=1000000"))
	check.NoError(t, err, "as many rounds as there may be")
}

// idleSession computes nothing.
type idleSession struct{}

func (idleSession) Next(context.Context, []byte) (bool, []byte, error) { return false, nil, nil }
