package invoker

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/proxy"
)

// marks writes what OpenWhisk's invoker says of each step where METRICS_LOG is on:
// its texts, from its classes, each with a marker at its end that pipelines read
// times from (OpenWhisk: TransactionId.started, LoggingMarkers):
//
//	... [marker:invoker_activationRun_finish:412:37]
//
// the milliseconds since the transaction began, and those of the step. A nil one
// writes nothing, and costs nothing.
type marks struct {
	log   *slog.Logger
	epoch time.Time // of what belongs to no activation
}

func newMarks(s Settings, log *slog.Logger) *marks {
	if !s.Marks {
		return nil
	}
	return &marks{log: log, epoch: time.Now()}
}

// Transactions of what belongs to no activation.
const (
	nanny  = "sid_invokerNanny"
	warmup = "sid_invokerWarmup"
)

// Classes that say it in the original.
const (
	ofReactive  = "InvokerReactive"
	ofPool      = "ContainerPool"
	ofProxy     = "ContainerProxy"
	ofContainer = "DockerContainer"
	ofDocker    = "DockerClientWithFileAccess"
	ofAcks      = "MessagingActiveAck"
	ofActions   = "WhiskAction"
	ofStore     = "CouchDbRestStore"
	ofDoor      = "BasicHttpService"
)

// say writes a line of a transaction. A marker without a step has one number.
func (m *marks) say(level slog.Level, t activation.TransID, class, text, token string, step time.Duration) {
	if token != "" {
		text += fmt.Sprintf(" [marker:%s:%d", token, max(0, time.Now().UnixMilli()-t.StartMillis()))
		if step >= 0 {
			text += fmt.Sprintf(":%d", step.Milliseconds())
		}
		text += "]"
	}
	root, own := t.Root(), t.ID()
	if own == root {
		own = ""
	}
	m.log.LogAttrs(context.Background(), level, text,
		slog.String(keyTransID, root), slog.String(keyChild, own), slog.String(keyClass, class))
}

// noStep is the duration of what takes none.
const noStep = -1

// system is the transaction of the invoker's own work.
func (m *marks) system(id string) activation.TransID {
	return activation.NewTransID(id, m.epoch.UnixMilli(), false)
}

func (m *marks) accepted(t *ticket) {
	if m != nil {
		m.say(slog.LevelInfo, t.TransID, ofReactive, "", "invoker_activation_start", noStep)
	}
}

// rescheduleEvery is how often activations that wait for room are told of.
const rescheduleEvery = 10 * time.Second

// waiting tells of the activation that has waited longest for room.
func (d *dispatcher) waiting(now time.Duration) {
	if d.marks == nil || len(d.jobs) == 0 || now < d.told {
		return
	}
	d.told = now + rescheduleEvery
	d.marks.rescheduled(d.jobs[slices.Min(slices.Collect(maps.Keys(d.jobs)))], d.pool.Stats())
}

func (m *marks) rescheduled(j *job, p container.Stats) {
	m.say(slog.LevelWarn, j.TransID, ofPool, fmt.Sprintf("Rescheduling Run message, too many message in the pool, "+
		"freePoolSize: %d containers and %d MB, busyPoolSize: %d containers and %d MB, maxContainersMemory %d MB, "+
		"userNamespace: %s, action: %s, needed memory: %d MB, waiting messages: %d",
		p.Idle, p.IdleMB, p.Active, p.ActiveMB, p.MemoryMB, j.User.Namespace.Name, j.action.FQN(), j.action.Limits.MemoryMB, p.Waiting),
		"", noStep)
}

// placed tells what container a run got, before anything is done with it.
func (m *marks) placed(r *run) {
	if m == nil {
		return
	}
	in := "None"
	if r.start != container.Cold {
		in = "Some(" + containerID(r.box) + ")"
	}
	m.say(slog.LevelInfo, r.TransID, ofPool, fmt.Sprintf(
		"containerStart containerState: %s container: %s activations: %d of max %d action: %s namespace: %s activationId: %s",
		r.start, in, r.box.marked.Add(1), r.concurrency(), r.action.Name, r.User.Namespace.Name, r.ActivationID),
		"invoker_containerStart."+r.start.String()+"_counter", noStep)
}

// left counts a run out of its container.
func (m *marks) left(r *run) {
	if m != nil {
		r.box.marked.Add(-1)
	}
}

// fetched tells where an activation's action comes from.
func (m *marks) fetched(t *ticket, cached bool) {
	if m == nil {
		return
	}
	from, token := "datastore", "database_cacheMiss_counter"
	if cached {
		from, token = "cache", "database_cacheHit_counter"
	}
	m.say(slog.LevelInfo, t.TransID, ofActions, "[GET] serving from "+from+": CacheKey("+t.Action.FQN()+")", token, noStep)
}

func (m *marks) initBegins(r *run) {
	if m != nil {
		m.say(slog.LevelInfo, r.TransID, ofContainer, "sending initialization to "+address(r.box), "invoker_activationInit_start", noStep)
	}
}

func (m *marks) initEnds(r *run, x proxy.Exchange) {
	if m != nil {
		m.say(slog.LevelInfo, r.TransID, ofContainer, "initialization result: "+brief(x), "invoker_activationInit_finish", x.Elapsed())
	}
}

func (m *marks) runBegins(r *run) {
	if m != nil {
		m.say(slog.LevelInfo, r.TransID, ofContainer, "sending arguments to /"+r.Action.FQN()+" at "+address(r.box), "invoker_activationRun_start", noStep)
	}
}

func (m *marks) runEnds(r *run, x proxy.Exchange) {
	if m != nil {
		m.say(slog.LevelInfo, r.TransID, ofContainer, "running result: "+brief(x), "invoker_activationRun_finish", x.Elapsed())
	}
}

func (m *marks) logsBegin(r *run) {
	if m != nil {
		m.say(slog.LevelInfo, r.TransID, ofProxy, "", "invoker_collectLogs_start", noStep)
	}
}

// logsEnd counts as an error what the original does: lines that were cut off or
// are missing.
func (m *marks) logsEnd(r *run, took time.Duration, got container.LogResult) {
	switch {
	case m == nil:
	case got.Incomplete || got.Truncated:
		m.say(slog.LevelWarn, r.TransID, ofProxy, "reading logs failed: lines are missing", "invoker_collectLogs_error", took)
	default:
		m.say(slog.LevelInfo, r.TransID, ofProxy, "", "invoker_collectLogs_finish", took)
	}
}

// docker tells of an order to the container engine, in the words of Docker's
// command, and returns what tells its end.
func (m *marks) docker(t activation.TransID, command, about string) (ended func(error)) {
	if m == nil {
		return func(error) {}
	}
	began, token := time.Now(), "invoker_docker."+command
	m.say(slog.LevelInfo, t, ofDocker, "running docker "+command+" "+about, token+"_start", noStep)
	return func(err error) {
		if err != nil {
			m.say(slog.LevelError, t, ofDocker, err.Error(), token+"_error", time.Since(began))
			return
		}
		m.say(slog.LevelInfo, t, ofDocker, "", token+"_finish", time.Since(began))
	}
}

// nanny and warmup are docker for what belongs to no activation.
func (m *marks) nanny(command string, b *box) (ended func(error)) {
	if m == nil {
		return func(error) {}
	}
	return m.docker(m.system(nanny), command, string(b.handle.ID))
}

func (m *marks) warmup(b *box) (ended func(error)) {
	if m == nil {
		return func(error) {}
	}
	return m.docker(m.system(warmup), "run", b.name)
}

func (m *marks) posted(t *ticket, kind activation.AckKind) {
	if m != nil {
		m.say(slog.LevelInfo, t.TransID, ofAcks, fmt.Sprintf("posted %s of activation %s", kind, t.ActivationID), "", noStep)
	}
}

func containerID(b *box) string { return "ContainerId(" + string(b.handle.ID) + ")" }

func address(b *box) string {
	host, port, err := net.SplitHostPort(b.handle.Addr)
	if err != nil {
		host, port = b.handle.Addr, "8080"
	}
	return fmt.Sprintf("%s ContainerAddress(%s,%s)", containerID(b), host, port)
}

// brief is the outcome of a call in a word or two.
func brief(x proxy.Exchange) string {
	switch {
	case x.Failure != proxy.None:
		return x.Failure.String()
	case x.Status >= 200 && x.Status < 300:
		return "ok"
	}
	return "not ok"
}
