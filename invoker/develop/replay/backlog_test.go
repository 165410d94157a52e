package replay

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/check"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/harness"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/peertest"
)

// shortBacklog is how many activations wait in the short form;
// GPUWHISK_BACKLOG sets another number.
const shortBacklog = 2000

// TestSpilledOutliveTheTopic: a backlog whose messages have all expired from
// Kafka when its invoker is killed is served by the next one, each activation
// once and with one record; the record of what ran reports an interruption.
func TestSpilledOutliveTheTopic(t *testing.T) {
	t.Parallel()
	w, n := newFixture(t), harness.Number(t, "GPUWHISK_BACKLOG", shortBacklog)
	w.outlivesTheTopic(n, time.Duration(20_000+10*n)*time.Millisecond, w.expire)
}

// TestSpilledOutliveApacheKafkasTopic: the same where Apache Kafka has the topic.
func TestSpilledOutliveApacheKafkasTopic(t *testing.T) {
	t.Parallel()
	if os.Getenv("GPUWHISK_TEST_KAFKA") == "" {
		t.Skip("no Apache Kafka here (.ci/peers/kafka.sh start)")
	}
	w := apacheFixture(t)
	w.outlivesTheTopic(shortBacklog/4, 25*time.Second, w.expire)
}

// TestSpilledOutliveApacheKafkasRetention: the same where the broker deletes the
// messages by itself, because they are older than the topic keeps them.
func TestSpilledOutliveApacheKafkasRetention(t *testing.T) {
	if os.Getenv("GPUWHISK_LONG") == "" {
		t.Skip("it waits for a retention time: make long, or GPUWHISK_LONG=1")
	}
	w := apacheFixture(t, "log.retention.check.interval.ms=500", "log.initial.task.delay.ms=500")
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
	waits := caller
	waits.Annotations = map[string]any{"provide-api-key": false, "gpu": true}
	waits.Timeout = time.Hour // spilling very many takes minutes
	w.load(waits)
	first := w.spawn()
	w.call(n)
	const running = 2 // the default D
	w.gate.await(running)
	limit := peertest.WaitLimit + time.Duration(n)*10*time.Millisecond
	first.Admin.AwaitWithin(t, limit, "everything is spilled", func(s harness.Status) bool {
		return s.State.Journal.Spilled == n && s.Work.Backlog.Spilled > n-20
	})
	first.Kill()
	forget("invoker0")
	w.gate.open()
	second := w.spawn()
	w.awaitSlot(w.ids...)
	second.Admin.AwaitWithin(t, limit, "nothing is spilled", func(s harness.Status) bool {
		return s.State.Journal.Spilled == 0 && s.Work.InFlight == 0
	})
	second.Terminate(t)
	interrupted := 0
	for i, id := range w.ids {
		a, err := w.answer(id)
		check.NoError(t, err, "activation %d", i+1)
		switch r := a.Result; {
		case r.N == i+1:
		case strings.HasPrefix(r.Error, "The invoker ended while the action ran."):
			interrupted++
		default:
			t.Errorf("activation %d: record %s", i+1, w.record(id))
		}
	}
	check.Equal(t, interrupted, running)
	w.ranOnce()
	w.recording.ToTheEnd()
	for _, id := range w.ids {
		check.Equal(t, w.recording.Completed(id), 1, "times that activation %s freed its slot", id)
	}
	w.nothingLeft()
}

// expire deletes all records of a topic, as its retention does.
func (w *fixture) expire(topic string) {
	w.t.Helper()
	end := w.recording.End(topic)
	check.NoError(w.t, w.recording.Delete(topic, end))
	check.Equal(check.Must(w.t), w.recording.First(topic), end, "beginning of %s after its records were deleted", topic)
}

// awaitExpired waits until a topic has no record any more.
func (w *fixture) awaitExpired(topic string) {
	w.t.Helper()
	end := w.recording.End(topic)
	peertest.Until(w.t, "the records of "+topic+" expire", func() string {
		if first := w.recording.First(topic); first < end {
			return fmt.Sprintf("it begins at %d and ends at %d", first, end)
		}
		return ""
	})
}
