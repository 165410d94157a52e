package pull

import (
	"context"
	"sync"
	"time"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Limits reads the limits of namespaces.
type Limits interface {
	Limits(ctx context.Context, namespace string) (activation.UserLimits, error)
}

const (
	// limitsAge is for how long limits are taken to be as they were read. The original
	// keeps them as long.
	limitsAge = 5 * time.Minute
	// limitsTime bounds the reading: a scheduler waits for the ack.
	limitsTime = 2 * time.Second
	// limitsKept is of how many namespaces they are kept.
	limitsKept = 10_000
)

// knownLimits are the limits that were read.
type knownLimits struct {
	mu  sync.Mutex
	all map[string]limitsRead
}

type limitsRead struct {
	activation.UserLimits
	at time.Time
}

func (k *knownLimits) get(namespace string) (activation.UserLimits, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, ok := k.all[namespace]
	return l.UserLimits, ok && time.Since(l.at) < limitsAge
}

func (k *knownLimits) put(namespace string, l activation.UserLimits) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= limitsKept {
		k.all = map[string]limitsRead{}
	}
	k.all[namespace] = limitsRead{l, time.Now()}
}

// withLimits calls use with the limits of a namespace, before it returns where they
// are known. Those that cannot be read are taken as not set: an ack that says so
// would fail all that waits as the developer's fault, and each activation is
// checked once more, with the limits that it brings.
func (p *Puller) withLimits(namespace string, use func(activation.UserLimits)) {
	if l, ok := p.limits.get(namespace); ok {
		use(l)
		return
	}
	p.calls.Go(func() {
		ctx, cancel := context.WithTimeout(p.life, limitsTime)
		defer cancel()
		l, err := p.ports.Limits.Limits(ctx, namespace)
		if err != nil {
			p.log.Warn("limits of a namespace cannot be read: those of the system hold for its containers", "namespace", namespace, "error", err)
		} else {
			p.limits.put(namespace, l)
		}
		use(l)
	})
}
