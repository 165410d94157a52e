package docker

import (
	"sync"

	"github.com/gpuwhisk/gpuwhisk/invoker/container"
)

// deaths hands out the ids of dead containers in order. It takes any number
// without waiting, so that nobody who reports one is held up by the reader.
type deaths struct {
	out  chan container.ID
	stop chan struct{}
	done chan struct{}
	news chan struct{} // capacity 1: one reminder is enough

	mu    sync.Mutex
	queue []container.ID
}

func newDeaths() *deaths {
	d := &deaths{
		out: make(chan container.ID), stop: make(chan struct{}),
		done: make(chan struct{}), news: make(chan struct{}, 1),
	}
	go d.run()
	return d
}

func (d *deaths) tell(id container.ID) {
	d.mu.Lock()
	d.queue = append(d.queue, id)
	d.mu.Unlock()
	select {
	case d.news <- struct{}{}:
	default:
	}
}

func (d *deaths) take() []container.ID {
	d.mu.Lock()
	defer d.mu.Unlock()
	queue := d.queue
	d.queue = nil
	return queue
}

func (d *deaths) run() {
	defer close(d.done)
	defer close(d.out)
	for {
		for _, id := range d.take() {
			select {
			case d.out <- id:
			case <-d.stop:
				return
			}
		}
		select {
		case <-d.news:
		case <-d.stop:
			return
		}
	}
}

func (d *deaths) close() {
	close(d.stop)
	<-d.done
}
