package config

import "time"

// Scheduler is OpenWhisk's scheduler mode, where schedulers order containers and
// hand out activations.
type Scheduler struct {
	// Enabled is derived as OpenWhisk does: whisk.spi.InvokerProvider decides, or, if it
	// is empty, whether etcd is configured.
	Enabled bool
	Cluster string `key:"whisk.cluster.name" default:"whisk" doc:"first part of all keys in etcd"`
	Etcd    Etcd
	// Keeping is how much longer a paused container stays if its namespace keeps warm
	// containers.
	Keeping          time.Duration `key:"whisk.container-proxy.timeouts.keeping-duration" default:"10 minutes" doc:"how much longer a paused container stays if its namespace keeps it (warmedContainerKeepingCount)"`
	MemorySync       time.Duration `key:"whisk.container-pool.memory-sync-interval" default:"1 second" doc:"how often a change of the invoker's memory is reported"`
	JobTime          time.Duration `key:"whisk.scheduler.in-progress-job-retention" default:"20 seconds" doc:"how long a scheduler waits for a container; older orders are dropped"`
	BlackboxMultiple int           `key:"whisk.scheduler.blackbox-multiple" default:"15" range:"1..1000" doc:"factor on whisk.scheduler.in-progress-job-retention for a container whose image must be pulled"`
}

// Etcd configures the connection to etcd.
type Etcd struct {
	Hosts         []string      `key:"whisk.etcd.hosts" doc:"etcd members host:port[,host:port...]"`
	Username      string        `key:"whisk.etcd.username" doc:"user of etcd; empty: etcd asks for none"`
	Password      string        `key:"whisk.etcd.password,secret" doc:"password of that user"`
	LeaseTimeout  int           `key:"whisk.etcd.lease.timeout" default:"10" range:"1..3600" doc:"seconds after which schedulers forget an invoker that died"`
	RetryInterval time.Duration `key:"whisk.scheduler.data-management-service.retry-interval" default:"1 second" doc:"longest pause between tries to reach etcd"`
}

func (s Scheduler) check(demand demand) {
	demand(len(s.Etcd.Hosts) > 0, "whisk.spi.InvokerProvider selects the scheduler mode, which needs whisk.etcd.hosts")
	demand.hostPorts("whisk.etcd.hosts", s.Etcd.Hosts)
}
