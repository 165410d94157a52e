package kafka

import (
	"bufio"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math/big"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	wire "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
)

// capturedConfig is the configuration that the original's topic was seen with.
func capturedConfig(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile("../testdata/golden/topics/topic-configs.txt")
	check.NoError(t, err)
	config := map[string]string{}
	lines := bufio.NewScanner(strings.NewReader(string(data)))
	for mine := false; lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "Dynamic configs") {
			mine = strings.Contains(lines.Text(), "topic invoker0 ")
			continue
		}
		setting, _, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		if key, value, ok := strings.Cut(setting, "="); ok && mine {
			config[key] = value
		}
	}
	return config
}

// configured returns the settings that were set on a topic.
func (b *fixture) configured(topic string) map[string]string {
	b.t.Helper()
	all, err := b.admin().DescribeTopicConfigs(b.ctx(), topic)
	err = cmp.Or(err, all[0].Err)
	check.NoError(b.t, err, "describe topic %s", topic)
	config := map[string]string{}
	for _, c := range all[0].Configs {
		if c.Source == kmsg.ConfigSourceDynamicTopicConfig && c.Value != nil {
			config[c.Key] = *c.Value
		}
	}
	return config
}

func TestInvokerTopicIsMadeAsTheOriginals(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		name, c := freshName(), b.cluster()
		spec := InvokerTopic(name, 1, map[string]string{"retention.ms": "1000000"})
		for range 2 {
			b.must(c.EnsureTopic(b.ctx(), spec))
		}
		b.await("the topic to be known", func() bool { return b.knows(name) })
		want := capturedConfig(b.t)
		check.Equal(check.Must(b.t), len(want), 4, "the captured topic")
		want["retention.ms"] = "1000000"
		got := b.configured(name)
		for key, value := range want {
			check.Equal(b.t, got[key], value, "%s", key)
		}
		// An existing topic is not changed.
		b.must(c.EnsureTopic(b.ctx(), InvokerTopic(name, 3, nil)))
		check.Equal(b.t, b.configured(name)["retention.ms"], "1000000", "the topic that existed was changed: retention.ms")
	})
}

// Two invokers, or a broker that did not know the topic yet: another
// makes it between our look and our request.
func TestTopicMadeMeanwhileIsFine(t *testing.T) {
	b := newFakeFixture(t)
	name := freshName()
	b.fake.ControlKey(kmsg.CreateTopics.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
		return refuseTopic(req, kerr.TopicAlreadyExists.Code), nil, true
	})
	b.must(b.cluster().EnsureTopic(b.ctx(), InvokerTopic(name, 1, nil)))
	check.AtMost(t, b.log.count("interrupted"), 0, "log:\n%s", b.log)
}

func refuseTopic(req kmsg.Request, code int16) kmsg.Response {
	res := req.ResponseKind().(*kmsg.CreateTopicsResponse)
	for _, t := range req.(*kmsg.CreateTopicsRequest).Topics {
		rt := kmsg.NewCreateTopicsResponseTopic()
		rt.Topic, rt.ErrorCode, rt.ErrorMessage = t.Topic, code, kmsg.StringPtr("because")
		res.Topics = append(res.Topics, rt)
	}
	return res
}

func TestTopicIsTriedAgainAfterPassingTrouble(t *testing.T) {
	b := newFakeFixture(t)
	for _, code := range []int16{
		kerr.NotController.Code, kerr.RequestTimedOut.Code, kerr.ThrottlingQuotaExceeded.Code, kerr.InvalidReplicationFactor.Code,
	} {
		b.fake.ControlKey(kmsg.CreateTopics.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
			return refuseTopic(req, code), nil, true
		})
	}
	b.must(b.cluster().EnsureTopic(b.ctx(), InvokerTopic(freshName(), 1, nil)))
	check.Equal(t, b.log.count("WARN", "interrupted"), 1, "not one line per change of state:\n%s", b.log)
	check.Equal(t, b.log.count("resumed"), 1, "not one line per change of state:\n%s", b.log)
}

func TestTopicThatIsRefusedIsAnError(t *testing.T) {
	onEachBroker(t, func(b *fixture) {
		for _, c := range []struct {
			name string
			spec TopicSpec
			want wire.Error
		}{
			{"setting", InvokerTopic(freshName(), 1, map[string]string{"retention.ms": "soon"}), wire.InvalidConfiguration},
			{"name", InvokerTopic("no spaces", 1, nil), wire.InvalidTopic},
		} {
			if b.fake != nil { // which takes anything
				b.fake.ControlKey(kmsg.CreateTopics.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
					return refuseTopic(req, int16(c.want)), nil, true
				})
			}
			err := b.cluster().EnsureTopic(b.ctx(), c.spec)
			check.ErrorIs(b.t, err, c.want, "bad %s", c.name)
			check.ErrorContains(b.t, err, c.spec.Name, "bad %s", c.name)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for _, brokers := range [][]string{nil, {""}, {"host"}, {"host:1", "other"}} {
		_, err := New(Options{Brokers: brokers})
		check.That(t, err != nil, "brokers %q were taken", brokers)
	}
}

// A cluster of which only one of the given brokers lives is found.
func TestDeadBrokersArePassedOver(t *testing.T) {
	b := newFakeFixture(t)
	topic := b.topic()
	b.addrs = append([]string{net.JoinHostPort("127.0.0.1", "1")}, b.addrs...)
	b.put(topic, message(0))
	f, p := b.feed(topic), b.producer()
	b.next(f, 0).Done()
	b.must(b.fate(p, topic, "x"))
	b.must(f.Close(b.ctx()))
	check.AtMost(t, b.log.count("interrupted"), 0, "log:\n%s", b.log)
}

func TestTLS(t *testing.T) {
	certificate, roots := selfSigned(t)
	fake := startFake(t, kfake.TLS(&tls.Config{
		Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots,
	}), kfake.SeedTopics(1, "in"))
	b := &fixture{t: t, addrs: fake.ListenAddrs(), fake: fake, log: &logbook{}}
	ctx := b.ctx()
	open := func(config *tls.Config) *Cluster {
		c, err := New(Options{Brokers: b.addrs, TLS: config, Log: b.log.logger()})
		b.must(err)
		return c
	}
	good := open(&tls.Config{RootCAs: roots, Certificates: []tls.Certificate{certificate}})
	b.must(good.EnsureTopic(ctx, InvokerTopic("out", 1, nil)))
	p := good.NewProducer(ProducerConfig{})
	b.must(p.Send(ctx, "in", []byte(message(4)), nil))
	f := good.NewFeed(FeedConfig{Topic: "in"})
	d, err := f.Next(ctx)
	check.NoError(t, err)
	check.Equal(t, number(d), 4)
	check.NoError(t, errors.Join(p.Close(ctx), f.Close(ctx)))
	// A broker that the trust store does not know is nothing to wait for.
	var unknown *tls.CertificateVerificationError
	stranger := open(&tls.Config{RootCAs: x509.NewCertPool(), Certificates: []tls.Certificate{certificate}})
	err = stranger.EnsureTopic(ctx, InvokerTopic("x", 1, nil))
	check.That(t, errors.As(err, &unknown), "an unknown certificate: %v", err)
}

func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	check.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, roots
}
