package config

import "time"

// Pool bounds the containers this invoker keeps.
type Pool struct {
	// UserMemory is what all action containers may hold together.
	UserMemory Size
	// UserCPUs is shared out in proportion to memory; 0 means no CPU limit.
	UserCPUs float64
	// ConcurrentPeekFactor scales how many messages are fetched ahead when
	// actions run concurrently.
	ConcurrentPeekFactor float64
	// Overtake is how long runs that find a warm container may pass one that
	// waits for room.
	Overtake time.Duration
	// PrewarmExpiration bounds unused prewarmed containers.
	PrewarmExpiration PrewarmExpiration
}

// PrewarmExpiration says when reactive prewarmed containers are reconsidered.
type PrewarmExpiration struct {
	InitDelay time.Duration
	Interval  time.Duration
	// Variance bounds what an invoker adds to its interval by chance.
	Variance time.Duration
	// Limit is how many may be removed in one check.
	Limit int
}

func poolKeys(c *Config) []*Key {
	p := &c.Pool
	return []*Key{
		{Name: "whisk.container-pool.user-memory", Default: "1024 m", value: size(&p.UserMemory, int64(MiB)),
			Doc: "memory that all action containers may hold together"},
		{Name: "whisk.container-pool.user-cpus", value: optionalReal(&p.UserCPUs, 0.01, 4096),
			Doc: "CPUs shared out to containers in proportion to their memory; unset means no CPU limit"},
		{Name: "whisk.container-pool.concurrent-peek-factor", Default: "0.5", value: real(&p.ConcurrentPeekFactor, 0.000001, 1),
			Doc: "share of the possible concurrency for which messages are fetched ahead"},
		{Name: "whisk.container-pool.prewarm-expiration-check-init-delay", Default: "10 minutes", value: duration(&p.PrewarmExpiration.InitDelay),
			Doc: "first check for unused prewarmed containers after this"},
		{Name: "whisk.container-pool.prewarm-expiration-check-interval", Default: "10 minutes", value: duration(&p.PrewarmExpiration.Interval),
			Doc: "time between such checks"},
		{Name: "whisk.container-pool.prewarm-expiration-check-interval-variance", Default: "10 seconds", value: duration(&p.PrewarmExpiration.Variance),
			Doc: "each invoker adds a random part of this to its time between checks, once at its start, so that a fleet does not check at once; 0 adds nothing"},
		{Name: "whisk.container-pool.prewarm-expiration-limit", Default: "100", value: integer(&p.PrewarmExpiration.Limit, 1, 1_000_000),
			Doc: "most prewarmed containers removed in one check"},
		{Name: "whisk.gpu.overtake", Default: "500 ms", value: duration(&p.Overtake),
			Doc: "how long runs that find a warm container may pass one that waits for room"},
	}
}

// Proxy is the life of one container around its runs.
type Proxy struct {
	// IdleContainer removes a container that was not used for this long.
	IdleContainer time.Duration
	// PauseGrace is how long a container stays unpaused after its last run.
	PauseGrace time.Duration
	// LogErrors says which failed activations are logged by the invoker.
	LogErrors LogErrors
}

// LogErrors chooses failures by kind.
type LogErrors struct {
	Application bool
	Developer   bool
	Whisk       bool
}

func proxyKeys(c *Config) []*Key {
	p := &c.Proxy
	return []*Key{
		{Name: "whisk.container-proxy.timeouts.idle-container", Default: "10 minutes", value: duration(&p.IdleContainer),
			Doc: "remove a container that was not used for this long"},
		{Name: "whisk.container-proxy.timeouts.pause-grace", Default: "10 seconds", value: duration(&p.PauseGrace),
			Doc: "pause a container this long after its last run"},
		{Name: "whisk.container-proxy.log-activation-errors.application-errors", Default: "false", value: boolean(&p.LogErrors.Application),
			Doc: "log activations that end in an application error"},
		{Name: "whisk.container-proxy.log-activation-errors.developer-errors", Default: "false", value: boolean(&p.LogErrors.Developer),
			Doc: "log activations that end in a developer error"},
		{Name: "whisk.container-proxy.log-activation-errors.whisk-errors", Default: "true", value: boolean(&p.LogErrors.Whisk),
			Doc: "log activations that end in a whisk error"},
	}
}
