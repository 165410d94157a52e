package replay

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shortBacklog is how many activations wait in the short form;
// GPUWHISK_BACKLOG sets another number.
const shortBacklog = 2000

// TestSpilledOutliveTheTopic: a backlog whose messages have all expired from
// Kafka when its invoker is killed is served by the next one, each activation
// once and with one record; what ran is said to have been interrupted.
func TestSpilledOutliveTheTopic(t *testing.T) {
	t.Parallel()
	w, n := newFixture(t), number(t, "GPUWHISK_BACKLOG", shortBacklog)
	w.outlivesTheTopic(n, time.Duration(20_000+10*n)*time.Millisecond, w.expire)
}

// TestSpilledOutliveApacheKafkasTopic: the same where Apache Kafka has the topic.
func TestSpilledOutliveApacheKafkasTopic(t *testing.T) {
	t.Parallel()
	if os.Getenv("GPUWHISK_TEST_KAFKA") == "" {
		t.Skip("no Apache Kafka here (.ci/peers/kafka.sh start)")
	}
	w := emptyFixture(t)
	_, w.kafka = newApacheBus(t)
	w.startStore()
	w.deploy()
	w.outlivesTheTopic(shortBacklog/4, 25*time.Second, w.expire)
}

// TestSpilledOutliveApacheKafkasRetention: the same where the broker deletes the
// messages by itself, because they are older than the topic keeps them.
func TestSpilledOutliveApacheKafkasRetention(t *testing.T) {
	if os.Getenv("GPUWHISK_LONG") == "" {
		t.Skip("it waits for a retention time: make long, or GPUWHISK_LONG=1")
	}
	w := emptyFixture(t)
	_, w.kafka = newApacheBus(t, "log.retention.check.interval.ms=500", "log.initial.task.delay.ms=500")
	w.startStore()
	w.deploy()
	w.extra = append(w.extra, "CONFIG_whisk_kafka_topics_invoker_segmentMs=2000")
	w.outlivesTheTopic(shortBacklog/4, 20*time.Second, w.awaitExpired)
}

// outlivesTheTopic has n activations wait for a GPU, whose messages the topic
// keeps for a while; forget returns when it has none of them any more.
func (w *fixture) outlivesTheTopic(n int, keeps time.Duration, forget func(topic string)) {
	t := w.t
	t.Helper()
	w.once = true
	w.extra = append(w.extra,
		"CONFIG_whisk_gpu_simulated_devices=1", "CONFIG_whisk_gpu_shim_library=none", "CONFIG_whisk_timeLimit_max=1 hour",
		// What runs and what is near its turn is spilled when it is half as old.
		"CONFIG_whisk_kafka_topics_invoker_retentionMs="+strconv.FormatInt(keeps.Milliseconds(), 10),
	)
	c := newCrowd(w)
	c.wantGPU()
	c.gate.begun = make(chan string, n+100)
	first := w.spawn()
	c.invoke(n)
	c.gate.await(2) // the default D
	running := 2
	first.await(t, "everything is parked", func(s spillStatus) bool {
		return s.State.Journal.Spilled == n && s.Work.Backlog.Spilled > n-20
	})
	first.kill()
	forget("invoker0")
	c.gate.open()
	second := w.spawn()
	w.freed(c.ids)
	second.await(t, "nothing is parked", func(s spillStatus) bool { return s.State.Journal.Spilled == 0 && s.Work.InFlight == 0 })
	second.terminate()
	interrupted := 0
	for i, id := range c.ids {
		var rec struct {
			Response struct {
				Result struct {
					N     int
					Error string
				}
			}
		}
		if err := json.Unmarshal(w.record(id), &rec); err != nil {
			t.Fatalf("activation %d: %v", i+1, err)
		}
		switch r := rec.Response.Result; {
		case r.N == i+1:
		case strings.HasPrefix(r.Error, "The invoker ended while the action ran."):
			interrupted++
		default:
			t.Errorf("activation %d: record %s", i+1, w.record(id))
		}
	}
	if runs := int(c.gate.runs.Load()); interrupted != running || runs != n {
		t.Errorf("%d runs, %d interrupted; want %d and %d", runs, interrupted, n, running)
	}
	for id, times := range w.freed(c.ids) {
		if times != 1 {
			t.Errorf("activation %s freed its slot %d times", id, times)
		}
	}
	if got, end := w.recording.committed(), w.recording.end("invoker0"); got != end {
		t.Errorf("the position is %d of %d", got, end)
	}
	w.noStrays()
}

// freed waits until all activations have freed their slots, and reports how often
// each did. It looks at each record once: there are many.
func (w *fixture) freed(ids []string) map[string]int {
	w.t.Helper()
	times, seen := map[string]int{}, 0
	w.recording.waitFor(waitLimit+time.Duration(len(ids))*100*time.Millisecond, "the completions", func(records []captured) bool {
		for ; seen < len(records); seen++ {
			if r := records[seen]; r.isAck() && r.shape() != "result" {
				times[r.activationID()]++
			}
		}
		for _, id := range ids {
			if times[id] == 0 {
				return false
			}
		}
		return true
	})
	return times
}

// wantGPU has caller ask for a GPU.
func (c *crowd) wantGPU() {
	c.w.t.Helper()
	doc := strings.Replace(caller, `"annotations":[`, `"annotations":[{"key":"gpu","value":true},`, 1)
	doc = strings.Replace(doc, `"timeout":300000`, `"timeout":3600000`, 1) // parking very many takes minutes
	rev, err := c.w.db.Put(c.w.t.Context(), names.Whisks, "guest/caller", []byte(strings.Replace(doc, `{`, `{"_rev":"`+c.rev+`",`, 1)))
	if err != nil {
		c.w.t.Fatal(err)
	}
	c.rev = rev
}

// expire deletes all records of a topic, as its retention does.
func (w *fixture) expire(topic string) {
	w.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.kafka))
	if err != nil {
		w.t.Fatal(err)
	}
	defer client.Close()
	end := w.recording.end(topic)
	req := kmsg.NewPtrDeleteRecordsRequest()
	of := kmsg.NewDeleteRecordsRequestTopic()
	of.Topic = topic
	all := kmsg.NewDeleteRecordsRequestTopicPartition()
	all.Offset = end
	of.Partitions = append(of.Partitions, all)
	req.Topics, req.TimeoutMillis = append(req.Topics, of), 30_000
	answer, err := req.RequestWith(w.t.Context(), client)
	if err != nil {
		w.t.Fatal(err)
	}
	if p := answer.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LowWatermark != end {
		w.t.Fatalf("delete the records of %s: %+v", topic, p)
	}
}

// awaitExpired waits until a topic has no record any more.
func (w *fixture) awaitExpired(topic string) {
	w.t.Helper()
	end := w.recording.end(topic)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(waitLimit); w.recording.edge(topic, -2) < end; {
		select {
		case <-tick.C:
		case <-late:
			w.t.Fatalf("%s begins at %d and ends at %d", topic, w.recording.edge(topic, -2), end)
		}
	}
}

// spillStatus is what tests read of /status.
type spillStatus struct {
	State struct {
		Journal struct {
			Spilled        int `json:"parked"`
			Unacknowledged int `json:"owed"`
		}
	}
	Work struct {
		InFlight int
		Backlog  struct {
			InMemory int
			Spilled  int `json:"parked"`
		}
	}
}

// await asks an invoker for its status until it is as wanted.
func (p *process) await(t *testing.T, what string, want func(spillStatus) bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	_, port, _ := net.SplitHostPort(p.admin)
	var s spillStatus
	for late := time.Now().Add(waitLimit + time.Duration(number(t, "GPUWHISK_BACKLOG", shortBacklog))*10*time.Millisecond); time.Now().Before(late); <-tick.C {
		resp, err := http.Get("http://invoker.user:invoker.pass@127.0.0.1:" + port + "/status")
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", err, resp)
		}
		s = spillStatus{}
		err = json.NewDecoder(resp.Body).Decode(&s)
		_ = resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if want(s) {
			return
		}
	}
	t.Fatalf("waited for %s: %+v", what, s)
}
