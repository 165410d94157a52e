package config

import (
	"path/filepath"
	"time"
)

// Logs is what happens to the logs of actions and of the invoker.
type Logs struct {
	// OutOfBand means that action logs travel by a log driver: they are not
	// collected, and no log driver is set on containers.
	OutOfBand bool
	// Files are written beside the records.
	Files LogFiles
	// Level is DEBUG, INFO, WARN or ERROR.
	Level string
	// Format of the invoker's own log lines: "openwhisk", "text" or "json".
	Format string
}

// LogFiles is where DockerToActivationFileLogStore writes.
type LogFiles struct {
	Enabled bool
	Dir     string
	Size    Size
}

func (f LogFiles) check(demand func(bool, string, ...any)) {
	demand(!f.Enabled || filepath.IsAbs(f.Dir), "whisk.gpu.log.directory %q is not an absolute path", f.Dir)
}

func logKeys(c *Config) []*Key {
	return []*Key{
		{Name: "whisk.gpu.log.directory", Default: "/logs", value: text(&c.Logs.Files.Dir),
			Doc: "where DockerToActivationFileLogStoreProvider (whisk.spi.LogStoreProvider) writes userlogs-TIME.log"},
		{Name: "whisk.gpu.log.file-size", Default: "100 MiB", value: size(&c.Logs.Files.Size, 1<<10),
			Doc: "size at which the next of those files begins; as much waits in memory for a disk that does not keep up, what is more is dropped from the files, never from a record"},
		{Name: "whisk.gpu.log.level", also: []string{"logback.log.level"}, Default: "INFO",
			value: choice(&c.Logs.Level, "TRACE", "DEBUG", "INFO", "WARN", "ERROR"),
			Doc:   "least level of the invoker's own log lines"},
		{Name: "whisk.gpu.log.format", Default: "openwhisk", value: choice(&c.Logs.Format, "openwhisk", "text", "json"),
			Doc: "form of the invoker's own log lines; openwhisk is what existing log pipelines match"},
	}
}

// Events is the stream of user events.
type Events struct {
	Enabled bool
}

func eventKeys(c *Config) []*Key {
	return []*Key{
		{Name: "whisk.user-events.enabled", Default: "false", value: boolean(&c.Events.Enabled),
			Doc: "send an event for each activation to the user events topic"},
	}
}

// Metrics is what is measured and where it goes.
type Metrics struct {
	// Kamon and Prometheus together make the original serve /metrics.
	Kamon      bool
	Prometheus bool
	// Endpoint serves /metrics whatever Kamon and Prometheus say.
	Endpoint bool
	// Tags makes labels of what is part of Kamon's names otherwise.
	Tags bool
	// Log writes a line with a marker for each step of an activation.
	Log bool
	// StatsD gets what is measured under Kamon's names.
	StatsD StatsD
}

// Names reports whether /metrics shows Kamon's names beside ours.
func (m Metrics) Names() bool { return m.Kamon }

// Served reports whether /metrics answers.
func (m Metrics) Served() bool { return m.Endpoint || m.Kamon && m.Prometheus }

func metricKeys(c *Config) []*Key {
	m := &c.Metrics
	return append([]*Key{
		{Name: "whisk.metrics.kamon-enabled", Env: "METRICS_KAMON", Default: "false", value: boolean(&m.Kamon),
			Doc: "with prometheus-enabled, serve /metrics; show what is measured under the names of OpenWhisk's invoker too, for its boards and alerts"},
		{Name: "whisk.metrics.kamon-tags-enabled", Env: "METRICS_KAMON_TAGS", Default: "false", value: boolean(&m.Tags),
			Doc: "states and topics are labels of those names instead of parts, as OpenWhisk's Grafana boards expect"},
		{Name: "whisk.metrics.logs-enabled", Env: "METRICS_LOG", Default: "false", value: boolean(&m.Log),
			Doc: "write OpenWhisk's line with a [marker:...] for each step of an activation, at level INFO; its Ansible role says true"},
		{Name: "whisk.metrics.prometheus-enabled", Default: "false", value: boolean(&m.Prometheus),
			Doc: "with kamon-enabled, serve /metrics"},
		{Name: "whisk.gpu.metrics.enabled", Default: "true", value: boolean(&m.Endpoint),
			Doc: "serve /metrics whatever the two keys above say"},
	}, statsdKeys(&m.StatsD)...)
}

// Drain is how the invoker leaves.
type Drain struct {
	// Deadline bounds how long running activations may go on after the first
	// signal, Flush how long sending and storing may take after that.
	Deadline time.Duration
	Flush    time.Duration
	// Handover leaves warm containers to the next process.
	Handover bool
	// Rerun runs again what was running at the end.
	Rerun bool
}

func drainKeys(c *Config) []*Key {
	return []*Key{
		{Name: "whisk.gpu.drain-deadline", Default: "30 seconds", value: duration(&c.Drain.Deadline),
			Doc: "how long running activations may take to finish after SIGTERM"},
		{Name: "whisk.gpu.flush-deadline", Default: "10 seconds", value: duration(&c.Drain.Flush),
			Doc: "how long acks and records may take to leave after that"},
		{Name: "whisk.gpu.handover", Default: "true", value: boolean(&c.Drain.Handover),
			Doc: "take over warm containers of the process before, and leave one's own to the next at SIGTERM, unless the invoker was disabled before (POST /disable) or was interrupted (Ctrl-C); false removes all, as OpenWhisk's invoker does; gpuwhisk clean removes what was left; needs whisk.gpu.journal"},
		{Name: "whisk.invoker.rerun", Default: "false", value: boolean(&c.Drain.Rerun),
			Doc: "run an activation again that was running when the invoker ended, up to three times; false answers it with an error; an action's annotation rerun, true or false, counts before it"},
	}
}
