package assembly

import (
	"context"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/admin"
	"github.com/gpuwhisk/gpuwhisk/invoker/devices"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// door makes the admin handler. Until the invoker accepts work /ping says what
// it is waiting for, with a status that readiness probes take as "not yet".
func (a *assembly) door() http.Handler {
	o := admin.Options{
		Instance: a.instance.String(), Username: a.c.Admin.Username, Password: a.c.Admin.Password,
		Header: a.c.Admin.TransactionHeader, Pings: pings{a}, Fallbacks: fallbackDoor{a}, Answered: a.steps.Answered,
	}
	if a.c.Metrics.Served() {
		// What is looked up when it is asked for is apart from what is counted:
		// the console reads the counters once a second.
		live := prometheus.NewRegistry()
		live.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), gauges{a})
		o.Metrics = promhttp.HandlerFor(a.named(prometheus.Gatherers{a.metrics, a.functions, live}), promhttp.HandlerOpts{})
	}
	if a.c.Admin.Status {
		o.Status = func(ctx context.Context) (any, error) { return a.status(ctx) }
		o.Console = a.console()
	}
	open := admin.New(o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ping" && !a.ready.Load() {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "not ready: "+a.waiting(), http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/ping" {
			if why := a.cannot(); why != "" {
				w.Header().Set("Retry-After", "5")
				http.Error(w, "cannot work: "+why, http.StatusServiceUnavailable)
				return
			}
		}
		open.ServeHTTP(w, r)
	})
}

// cannot is why no work can be done though the invoker is ready; empty: it can.
func (a *assembly) cannot() string {
	if why, _ := a.unable.Load().(string); why != "" {
		return "container engine: " + why
	}
	if why := a.kafkaAway(); why != "" {
		return "Kafka: " + why
	}
	return ""
}

// named adds the names of OpenWhisk's invoker where they are asked for.
func (a *assembly) named(metrics prometheus.Gatherer) prometheus.Gatherer {
	if !a.c.Metrics.Names() {
		return metrics
	}
	return a.kamon(metrics)
}

func (a *assembly) waiting() string {
	if s, _ := a.stage.Load().(string); s != "" {
		return s
	}
	return "stopping"
}

// pings lets the door switch the pinger.
type pings struct{ a *assembly }

func (p pings) Enabled() bool {
	k := p.a.pinger.Load()
	return k != nil && k.Status().Enabled
}

func (p pings) Enable() bool { return p.set(true) }

// Disable sends the goodbye in any case, as the original does.
func (p pings) Disable() bool { return p.set(false) }

func (p pings) set(on bool) bool {
	k := p.a.pinger.Load()
	if k == nil {
		return false
	}
	p.a.retired.Store(!on)
	was := k.Status().Enabled
	if on && p.a.silenced.keep() {
		p.a.Log.Info("pings are enabled when the container engine is back")
		return was != on
	}
	ctx, cancel := context.WithTimeout(context.Background(), disableTime)
	defer cancel()
	change := k.Disable
	if on {
		change = k.Enable
	}
	if err := change(ctx); err != nil {
		p.a.Log.Warn("switch pings", "enabled", on, "error", err)
	}
	return was != on
}

// status is everything that tells how the invoker is and why.
type status struct {
	Instance string         `json:"instance"`
	Healthy  bool           `json:"healthy"`
	Reasons  []string       `json:"reasons"`
	Uptime   string         `json:"uptime"`
	Kafka    kafkaStatus    `json:"kafka"`
	CouchDB  couchdb.Health `json:"couchdb"`
	// Records is there where they do not go to CouchDB.
	Records  *recordsStatus  `json:"records,omitempty"`
	State    stateStatus     `json:"state"`
	LogFiles *logFilesStatus `json:"logFiles,omitempty"`
	// Bucket is what is wrong with code in S3.
	Bucket string          `json:"bucket,omitempty"`
	Work   *invoker.Status `json:"work,omitempty"`
	// Fallbacks are the actions whose GPU memory is only counted, because their
	// libraries do not bear that it is moved.
	Fallbacks []devices.Fallback `json:"fallbacks,omitempty"`
}

type kafkaStatus struct {
	Pings kafka.PingStatus    `json:"pings"`
	Feed  kafka.FeedStats     `json:"feed"`
	Share *kafka.ShareStats   `json:"share,omitempty"` // of the forward topic, where this invoker takes from it
	Lag   int64               `json:"lag"`
	Sends kafka.ProducerStats `json:"sends"`
}

func (a *assembly) status(ctx context.Context) (status, error) {
	s := status{Instance: a.instance.String(), Uptime: time.Since(a.began).Round(time.Second).String(), Reasons: []string{}}
	if !a.ready.Load() {
		s.Reasons = append(s.Reasons, "not ready: "+a.waiting())
		return s, nil
	}
	s.Kafka = kafkaStatus{Pings: a.pinger.Load().Status(), Feed: a.feed.Stats(), Sends: a.producer.Stats()}
	s.Kafka.Lag = s.Kafka.Feed.Lag()
	if a.share != nil {
		shared := a.share.Stats()
		s.Kafka.Share = &shared
		s.Kafka.Lag += shared.Waiting
	}
	s.CouchDB = a.store.Health()
	if a.elsewhere != nil {
		s.Records = &recordsStatus{a.c.Records.Store, a.elsewhere.Health()}
	}
	s.State = a.state.status()
	s.LogFiles = a.logFilesStatus()
	s.Bucket = a.bucket.why()
	work, err := a.invoker.Load().Status(ctx)
	if err != nil {
		return s, err
	}
	s.Work = &work
	s.Fallbacks = fallbackDoor{a}.all()
	if why := a.kafkaAway(); why != "" {
		s.Reasons = append(s.Reasons, "cannot work: Kafka: "+why)
	}
	s.Reasons = append(s.Reasons, s.reasons(a.stopping.Load())...)
	s.Healthy = len(s.Reasons) == 0
	return s, nil
}

// reasons lists what keeps the invoker from being well.
func (s *status) reasons(stopping bool) (why []string) {
	say := func(what, reason string) {
		if reason != "" {
			why = append(why, what+": "+reason)
		}
	}
	switch {
	case stopping:
		say("stopping", "what runs is finished, nothing more is pulled")
	case !s.Kafka.Pings.Enabled:
		say("disabled", "POST /enable makes controllers send work again")
	}
	if s.Work != nil {
		say("container engine", s.Work.Engine)
		if b := s.Work.Backlog; b != nil {
			say("parking GPU activations", b.Trouble)
		}
	}
	say("pings", s.Kafka.Pings.Interrupted)
	say("another process pings with this id", s.Kafka.Pings.Twin)
	say("reading activations", s.Kafka.Feed.Interrupted)
	say("committing offsets", s.Kafka.Feed.CommitFailing)
	if s.Kafka.Share != nil {
		say("reading of the forward topic", s.Kafka.Share.Interrupted)
		say("committing of the forward topic", s.Kafka.Share.CommitFailing)
	}
	for _, topic := range s.Kafka.Sends.Interrupted {
		say("sending", topic)
	}
	say("reading actions", s.CouchDB.Reads.LastError)
	say("reading code from S3", s.Bucket)
	say("writing records", s.CouchDB.Writes.LastError)
	say("spooling records", s.CouchDB.Spool.LastError)
	if s.Records != nil {
		say("writing records", s.Records.Writes.LastError)
		say("spooling records", s.Records.Spool.LastError)
	}
	if j := s.State.Journal; j != nil {
		say("writing the journal", j.Trouble)
	}
	if s.LogFiles != nil {
		say("writing log files", s.LogFiles.Trouble)
	}
	say("reading the blacklist", s.CouchDB.Blacklist.LastError)
	return why
}

// gauges shows at /metrics what /status shows, as numbers.
type gauges struct{ a *assembly }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("gpuwhisk_"+name, help, labels, nil)
}

// Describe sends nothing: the collector is unchecked, since what it shows
// depends on the devices and flows there are.
func (g gauges) Describe(chan<- *prometheus.Desc) {}

// Collect takes one snapshot.
func (g gauges) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	s, err := g.a.status(ctx)
	if err != nil || s.Work == nil {
		return
	}
	put := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	healthy := 0.0
	if s.Healthy {
		healthy = 1
	}
	put(desc("healthy", "1 when /status names no reason against it."), healthy)
	put(desc("activations_in_flight", "Accepted and not completed."), float64(s.Work.InFlight))
	put(desc("kafka_lag", "Messages that wait on the invoker's topic."), float64(s.Kafka.Lag))
	put(desc("kafka_waiting_messages", "Acks and events that wait to be sent."), float64(s.Kafka.Sends.Waiting))
	pool := desc("pool_containers", "CPU containers by state.", "state")
	memory := desc("pool_memory_bytes", "Memory of CPU containers by state; limit is all there is, claimed is that of GPU containers.", "state")
	p := s.Work.Pool
	for _, v := range []struct {
		state string
		n, mb int
	}{
		{"active", p.Active, p.ActiveMB}, {"idle", p.Idle, p.IdleMB},
		{"prewarm", p.Prewarm, p.PrewarmMB}, {"waiting", p.Waiting, p.WaitingMB},
	} {
		put(pool, float64(v.n), v.state)
		put(memory, float64(v.mb)*(1<<20), v.state)
	}
	put(memory, float64(p.MemoryMB)*(1<<20), "limit")
	put(memory, float64(p.ClaimedMB)*(1<<20), "claimed")
	count := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	missed := desc("prewarm_missed_total", "Cold starts that a prewarmed container could have served.", "kind", "memory")
	expired := desc("prewarm_expired_total", "Prewarmed containers that were removed unused.", "kind", "memory")
	for _, c := range p.Prewarms {
		at := []string{c.Kind, strconv.Itoa(c.MemoryMB) + " MB"}
		count(missed, c.Missed, at...)
		count(expired, c.Expired, at...)
	}
	if s.LogFiles != nil {
		count(desc("log_files_dropped_total", "Activations whose log lines are in no file, because the disk did not keep up."), int(s.LogFiles.Dropped))
	}
	cached := desc("couchdb_cache_total", "Actions that were asked for, by whether they were at hand.", "outcome")
	count(cached, int(s.CouchDB.Cache.Hits), "hit")
	count(cached, int(s.CouchDB.Cache.Misses), "miss")
	put(desc("build_info", "The version that runs; always 1.", "version", "goversion"), 1, g.a.Version, runtime.Version())
	for _, d := range g.a.gpus.devices {
		put(desc("gpu_info", "What a device is, by the names that dcgm-exporter has for it; always 1.", of("sharing", "simulated")...),
			1, append(invoker.DeviceValues(d), d.Sharing.String(), strconv.FormatBool(d.Simulated))...)
	}
	if j := s.State.Journal; j != nil {
		put(desc("journal_bytes", "Size of the journal's files."), float64(j.Bytes))
		put(desc("journal_parked_bytes", "Messages in the journal that wait or run."), float64(j.Bodies))
	}
	g.devices(s.Work, put)
	g.shim(put)
}

// shim shows how many containers can be talked with.
func (g gauges) shim(put func(*prometheus.Desc, float64, ...string)) {
	if g.a.gpus.shim == nil {
		return
	}
	s := g.a.gpus.shim.Stats()
	put(desc("shim_fallbacks", "Actions whose GPU memory is only counted, because their libraries do not bear that it is moved."), float64(len(g.a.gpus.fallbacks.List())))
	put(desc("shim_containers", "Containers that are prepared for a GPU."), float64(s.Containers))
	put(desc("shim_processes", "Processes of GPU containers that are connected by the shim."), float64(s.Processes))
	put(desc("shim_silent_processes", "Connected processes that do not answer."), float64(s.Silent))
	put(desc("shim_unhooked_containers", "GPU containers since the start of which no process connected."), float64(s.Unhooked))
}

// of is the labels of a device, and more.
func of(more ...string) []string { return append(slices.Clip(invoker.DeviceLabels), more...) }

func (g gauges) devices(w *invoker.Status, put func(*prometheus.Desc, float64, ...string)) {
	queue := desc("gpu_queue_depth", "Activations that wait in a flow.", "flow")
	for _, f := range w.Flows {
		put(queue, float64(f.Queued), f.Flow)
	}
	if b := w.Backlog; b != nil {
		backlog := desc("gpu_backlog", "GPU activations that are accepted and not completed, by where their messages are: memory, or disk alone.", "where")
		put(backlog, float64(b.InMemory), "memory")
		put(backlog, float64(b.Parked), "disk")
	}
	tokens := desc("gpu_tokens", "D: runs that a device may take at once.", of()...)
	flight := desc("gpu_runs_in_flight", "Runs that hold a token.", of()...)
	memory := desc("gpu_memory_bytes", "Device memory by state: used is what is charged, measured what the device itself shows, capacity all there is.", of("state")...)
	containers := desc("gpu_containers", "Containers of a device.", of()...)
	for _, d := range w.Devices {
		put(tokens, float64(d.Tokens), d.Names...)
		put(flight, float64(d.InFlight), d.Names...)
		put(containers, float64(d.Containers), d.Names...)
		in := func(state string, bytes int64) { put(memory, float64(bytes), append(slices.Clip(d.Names), state)...) }
		in("used", d.Used)
		in("capacity", d.Memory)
		if d.Measured != nil {
			in("measured", *d.Measured)
		}
	}
}

// observeDelay is the histogram of the time that messages spend in Kafka.
func (a *assembly) observeDelay() func(time.Duration) {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: "gpuwhisk", Name: "kafka_delay_seconds", Help: "Time that an activation message spent in Kafka.",
		Buckets: invoker.Latency(),
	})
	a.metrics.MustRegister(h)
	return func(d time.Duration) { h.Observe(d.Seconds()) }
}
