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
	// limitsAge is the lifetime of cached limits, as in the original.
	limitsAge = 5 * time.Minute
	// limitsTime limits the reading, because a scheduler waits for the ack.
	limitsTime = 2 * time.Second
	// limitsKept is the number of namespaces in the cache.
	limitsKept = 10_000
)

// knownLimits is a cache of namespaces' limits.
type knownLimits struct {
	mu          sync.Mutex
	byNamespace map[string]limitsRead
}

type limitsRead struct {
	activation.UserLimits
	readAt time.Time
}

func (k *knownLimits) get(namespace string) (activation.UserLimits, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l, ok := k.byNamespace[namespace]
	return l.UserLimits, ok && time.Since(l.readAt) < limitsAge
}

func (k *knownLimits) put(namespace string, l activation.UserLimits) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byNamespace == nil || len(k.byNamespace) >= limitsKept {
		k.byNamespace = map[string]limitsRead{}
	}
	k.byNamespace[namespace] = limitsRead{l, time.Now()}
}

// withLimits calls use with the limits of a namespace. If the limits are cached, it calls
// use before it returns. Limits that cannot be read count as not set: an ack with an
// error would fail all waiting activations as the developer's fault, and each activation
// brings limits that are checked again.
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
