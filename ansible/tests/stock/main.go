// Command stock is a stand-in for OpenWhisk's own invoker where that is not available.
// It uses the same protocol with controllers and operators, and ends in the same way. It
// pings each second. It consumes messages as a member of its topic's group, and commits
// them before they run. After a while it answers with a result, a completion and a
// record. It serves /ping, /enable and /disable. On SIGTERM it ends at once, without a
// ping to the controllers or leaving the group, and loses its running activations.
//
// It runs no containers and handles no failures: it is only for tests.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/lib/tlsstore"
)

// runTime is the duration of each activation.
const runTime = 300 * time.Millisecond

type stock struct {
	self    activation.Instance
	client  *kgo.Client
	enabled atomic.Bool

	switched   func()       // reports a change of enabled
	containers atomic.Int64 // the number that schedulers rely on
}

func main() {
	id := flag.Int("id", 0, "")
	name := flag.String("uniqueName", "", "")
	flag.Parse()
	s := &stock{self: activation.Instance{ID: *id, UniqueName: *name, UserMemory: 2 << 30}}
	s.switched = func() {
		if !s.enabled.Load() {
			s.send("health", activation.Ping{Instance: s.self}.Encode())
		}
	}
	s.enabled.Store(true)
	if os.Getenv("STOCK_BROKEN") != "" {
		log.Fatal("this stand-in must not start (STOCK_BROKEN)")
	}
	var err error
	s.client, err = kgo.NewClient(kgo.SeedBrokers(os.Getenv("KAFKA_HOSTS")), kgo.ConsumerGroup(s.self.Topic()),
		kgo.ConsumeTopics(s.self.Topic()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
		kgo.Balancers(kgo.RangeBalancer()), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.SessionTimeout(10*time.Second), kgo.UnknownTopicRetries(20))
	if err != nil {
		log.Fatal(err)
	}
	s.makeTopic()
	go s.serve()
	take := func(value []byte) { s.run(value) }
	if os.Getenv("CONFIG_whisk_etcd_hosts") != "" {
		take = s.schedule()
	} else {
		go s.ping()
	}
	for {
		fetches := s.client.PollFetches(context.Background())
		fetches.EachError(func(topic string, _ int32, err error) { log.Print(topic, ": ", err) })
		records := fetches.Records()
		if err := s.client.CommitRecords(context.Background(), records...); err != nil {
			log.Print("commit: ", err)
		}
		for _, r := range records {
			go take(r.Value)
		}
	}
}

// makeTopic creates the invoker's topic, which only the invoker does.
func (s *stock) makeTopic() {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = s.self.Topic(), 1, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, topic), 30_000
	res, err := req.RequestWith(context.Background(), s.client)
	if err != nil {
		log.Fatal(err)
	}
	if err := kerr.ErrorForCode(res.Topics[0].ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		log.Fatal(err)
	}
}

func (s *stock) send(topic string, value []byte) {
	if err := s.client.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: value}).FirstErr(); err != nil {
		log.Print(topic, ": ", err)
	}
}

func (s *stock) ping() {
	for {
		if s.enabled.Load() {
			s.send("health", activation.Ping{Instance: s.self, Enabled: true}.Encode())
		}
		time.Sleep(time.Second)
	}
}

func (s *stock) run(value []byte) {
	m, err := activation.DecodeMessage(value)
	if err != nil {
		log.Print(err)
		return
	}
	began := time.Now()
	time.Sleep(runTime)
	log.Print("ran ", m.ActivationID)
	r := &activation.Record{
		Namespace: m.User.Namespace.Name, Name: m.Action.Name, Subject: m.User.Subject, Version: "0.0.1",
		ActivationID: m.ActivationID, Start: began.UnixMilli(), End: time.Now().UnixMilli(),
		Response: activation.Response{Result: json.RawMessage(`{"by":"stock"}`)},
	}
	for err := store(r); err != nil; err = store(r) { // a server may close the connection at that moment
		log.Print("store: ", err)
		time.Sleep(100 * time.Millisecond)
	}
	topic := "completed" + m.Controller
	if m.Blocking {
		s.send(topic, activation.NewResult(m.TransID, r).Encode())
	}
	s.send(topic, activation.NewCompletion(m.TransID, m.ActivationID, false, s.self).Encode())
}

// store writes a record as one document.
func store(r *activation.Record) error {
	return write(http.MethodPost, databaseKey("databases_WhiskActivation"), r.Document(time.Now().UnixMilli()))
}

func databaseKey(key string) string { return os.Getenv("CONFIG_whisk_couchdb_" + key) }

// write sends a document to a path of the database. An existing document counts as
// success, because an earlier try created it.
func write(method, path string, document []byte) error {
	at := fmt.Sprintf("%s://%s:%s/%s", databaseKey("protocol"), databaseKey("host"), databaseKey("port"), path)
	req, err := http.NewRequest(method, at, bytes.NewReader(document))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.SetBasicAuth(databaseKey("username"), databaseKey("password"))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 && res.StatusCode != http.StatusConflict {
		return fmt.Errorf("the database answers %s", res.Status)
	}
	return nil
}

func (s *stock) serve() {
	guarded := func(w http.ResponseWriter, r *http.Request) bool {
		user, password, _ := r.BasicAuth()
		if user == os.Getenv("CONFIG_whisk_invoker_username") && password == os.Getenv("CONFIG_whisk_invoker_password") {
			return true
		}
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	http.HandleFunc("GET /ping", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "pong") })
	http.HandleFunc("POST /enable", func(w http.ResponseWriter, r *http.Request) {
		if guarded(w, r) {
			s.enabled.Store(true)
			s.switched()
			fmt.Fprintf(w, "%s is now enabled.", s.self)
		}
	})
	http.HandleFunc("POST /disable", func(w http.ResponseWriter, r *http.Request) {
		if guarded(w, r) {
			s.enabled.Store(false)
			s.switched()
			fmt.Fprintf(w, "%s is now disabled.", s.self)
		}
	})
	http.HandleFunc("GET /pool/count", func(w http.ResponseWriter, r *http.Request) {
		if guarded(w, r) {
			fmt.Fprint(w, s.containers.Load())
		}
	})
	if os.Getenv("CONFIG_whisk_invoker_protocol") != "https" {
		log.Fatal(http.ListenAndServe(":8080", nil))
	}
	server := &http.Server{Addr: ":8080", TLSConfig: settings()}
	log.Fatal(server.ListenAndServeTLS("", ""))
}

// settings returns the settings of https: a key store, and whether to request a
// certificate.
func settings() *tls.Config {
	get := func(key string) string { return os.Getenv("CONFIG_whisk_invoker_https_" + key) }
	c, err := tlsstore.Server(tlsstore.File{Path: get("keystorePath"), Password: get("keystorePassword")}, get("clientAuth") == "true")
	if err != nil {
		log.Fatal(err)
	}
	return c
}
