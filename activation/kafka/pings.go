package kafka

import (
	"context"

	wire "github.com/segmentio/kafka-go"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// pings reads the pings of one invoker from the health topic, whichever process
// sent them. One goroutine at a time uses it.
type pings struct {
	*partitionReader
	instance activation.Instance
	located  bool // the reader stands where reading goes on
}

// receivedPing is a ping and its record.
type receivedPing struct {
	activation.Ping
	record
}

// locate goes to the end of the topic, and reports where it is.
func (p *pings) locate(ctx context.Context) (end int64, err error) {
	if end, err = p.find(ctx, wire.LastOffset); err == nil {
		p.offset, p.located = end, true
	}
	return end, err
}

// read waits a while for more pings. After an error about the topic itself locate has
// to be called again.
func (p *pings) read(ctx context.Context) (all []receivedPing, err error) {
	records, err := p.fetch(ctx)
	if err != nil {
		p.located = code(err) == 0
		return nil, err
	}
	for _, r := range records {
		ping, err := activation.DecodePing(r.value)
		if err == nil && ping.Instance.ID == p.instance.ID {
			all = append(all, receivedPing{ping, r})
		}
	}
	return all, nil
}
