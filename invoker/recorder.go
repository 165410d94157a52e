package invoker

import (
	"io"

	"github.com/gpuwhisk/gpuwhisk/gpu/lane"
)

// recorder writes the lane's log. A nil one writes nothing.
type recorder struct {
	out io.Writer // nil after an error
	buf []byte
}

func newRecorder(out io.Writer, cfg lane.Config) (*recorder, error) {
	if out == nil {
		return nil, nil
	}
	r := &recorder{out: out}
	line, err := lane.AppendConfig(nil, cfg)
	if err != nil {
		return nil, err
	}
	r.write(line, nil)
	return r, nil
}

func (r *recorder) event(e lane.Event) {
	if r != nil && r.out != nil {
		r.write(lane.AppendEvent(r.buf[:0], e))
	}
}

func (r *recorder) orders(orders []lane.Order) {
	if r != nil && r.out != nil {
		r.write(lane.AppendOrders(r.buf[:0], orders))
	}
}

// write writes one line. After an error nothing follows: a log with a gap is of
// no use.
func (r *recorder) write(line []byte, err error) {
	r.buf = line
	if err == nil {
		_, err = r.out.Write(line)
	}
	if err != nil {
		r.out = nil
	}
}
