package assembly

import (
	"context"
	"slices"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation/couchdb"
	"github.com/gpuwhisk/gpuwhisk/activation/etcd"
	"github.com/gpuwhisk/gpuwhisk/activation/kafka"
	"github.com/gpuwhisk/gpuwhisk/invoker"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/container"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/engine/devices"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/forward"
)

// status is the health of the invoker, with reasons.
type status struct {
	Instance string         `json:"instance"`
	Healthy  bool           `json:"healthy"`
	Reasons  []string       `json:"reasons"`
	Warnings []string       `json:"warnings,omitempty"`
	Uptime   string         `json:"uptime"`
	Kafka    kafkaStatus    `json:"kafka"`
	CouchDB  couchdb.Health `json:"couchdb"`
	// Etcd and Schedulers are of the scheduler mode.
	Etcd       *etcd.State      `json:"etcd,omitempty"`
	Schedulers *schedulerStatus `json:"scheduling,omitempty"`
	// Records is nil where they go to CouchDB.
	Records  *recordsStatus  `json:"records,omitempty"`
	State    stateStatus     `json:"state"`
	LogFiles *logFilesStatus `json:"logFiles,omitempty"`
	// Pulls are the images that are being pulled.
	Pulls []container.Pull `json:"pulls,omitempty"`
	// Bucket is why code cannot be read from S3.
	Bucket string          `json:"bucket,omitempty"`
	Work   *invoker.Status `json:"work,omitempty"`
	// Fallbacks are the actions whose GPU memory is only counted, because their
	// libraries fail when it is moved.
	Fallbacks []devices.Fallback `json:"fallbacks,omitempty"`
}

// kafkaStatus is the health of the parts that use Kafka.
type kafkaStatus struct {
	Pings   kafka.PingStatus    `json:"pings"`
	Feed    kafka.FeedStats     `json:"feed"`
	Forward []forward.Status    `json:"forward,omitempty"` // the invokers that GPU activations are passed on to
	Lag     int64               `json:"lag"`
	Sends   kafka.ProducerStats `json:"sends"`
}

// because adds a reason against the invoker's health, unless it is empty.
func (s *status) because(what, reason string) {
	if reason != "" {
		s.Reasons = append(s.Reasons, what+": "+reason)
	}
}

// overview answers for the health of the whole invoker.
type overview struct {
	*base
	parts  *openParts
	intake intake
}

// status asks the dispatcher and then every part, from the last opened to the
// first.
func (o *overview) status(ctx context.Context) (status, error) {
	s := status{Instance: o.instance.String(), Uptime: time.Since(o.began).Round(time.Second).String(), Reasons: []string{}}
	if o.login != "" {
		s.Warnings = append(s.Warnings, o.login)
	}
	for _, why := range []string{o.certificateTrouble(), o.manifest} {
		if why != "" {
			s.Warnings = append(s.Warnings, why)
		}
	}
	if !o.ready.Load() {
		s.because("not ready", o.waiting())
		return s, nil
	}
	work, err := o.invoker.Load().Status(ctx)
	if err != nil {
		return s, err
	}
	s.Work = &work
	if why := o.intake.away(); why != "" {
		s.because("cannot work", "Kafka: "+why)
	}
	if o.stopping.Load() {
		s.because("stopping", "running activations are finished, nothing more is pulled")
	}
	for _, part := range slices.Backward(o.parts.hooks) {
		if part.status != nil {
			part.status(&s)
		}
	}
	s.Healthy = len(s.Reasons) == 0
	return s, nil
}

// workStatus adds the reasons why the dispatcher cannot work.
func workStatus(s *status) {
	s.because("container engine", s.Work.Engine)
}
