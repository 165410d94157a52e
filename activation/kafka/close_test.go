package kafka

import (
	"testing"
)

// A producer that ends well has nothing to complain about, even if a topic was
// not there: that was told when its messages were dropped.
func TestCloseWithATopicThatIsNotThere(t *testing.T) {
	onEachBroker(t, func(b *bed) {
		p := b.cluster().NewProducer(ProducerConfig{RefusedTries: 1})
		told := make(chan error, 1)
		if err := p.Send(b.ctx(), freshName(), []byte("x"), func(err error) { told <- err }); err != nil {
			b.t.Fatal(err)
		}
		if err := p.Close(b.ctx()); err != nil {
			b.t.Errorf("close: %v", err)
		}
		if err := <-told; err == nil {
			b.t.Error("a message to a missing topic counts as sent")
		}
	})
}
