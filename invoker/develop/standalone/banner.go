package standalone

import (
	"cmp"
	"fmt"
	"io"

	"github.com/gpuwhisk/gpuwhisk/activation"
	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// Info is where everything is.
type Info struct {
	APIHost  string // http://127.0.0.1:PORT
	Data     string
	Kafka    string
	Database couchdb.Config // secret: it holds the password
	Runtime  string         // docker or process
	Why      string         // why that one
	GPUs     int
}

// Banner prints what is running and what to type next.
func (s *Standalone) Banner(w io.Writer) {
	i := s.info
	fmt.Fprintf(w, "gpuwhisk %s: OpenWhisk is ready at %s\n", s.opts.Version, i.APIHost)
	if c := s.Console(); c != "" {
		fmt.Fprintf(w, "  console         %s\n", c)
	}
	fmt.Fprintf(w, "  actions run as  %s (%s)\n", i.Runtime, i.Why)
	switch {
	case s.opts.Devices != "":
		fmt.Fprintf(w, "  GPUs            those of this machine (%s)\n", s.opts.Devices)
	case i.GPUs > 0 && s.opts.FakeDriver != "":
		fmt.Fprintf(w, "  GPUs            %d simulated, %s each, on the fake driver in %s\n", i.GPUs, s.gpuMemory(), s.opts.FakeDriver)
	case i.GPUs > 0:
		fmt.Fprintf(w, "  GPUs            %d simulated, %s each\n", i.GPUs, s.gpuMemory())
	default:
		fmt.Fprintf(w, "  GPUs            none (--devices auto uses those of this machine, --gpus N simulates some)\n")
	}
	fmt.Fprintf(w, "  policy          %s\n", cmp.Or(s.opts.Policy, "sticky-plus"))
	fmt.Fprintf(w, "  data            %s\n", i.Data)
	fmt.Fprintf(w, "  Kafka           %s%s\n", i.Kafka, embedded(s.opts.Kafka))
	fmt.Fprintf(w, "  database        %s%s\n", i.Database.URL, embedded(s.opts.CouchDB))
	fmt.Fprintln(w)
	s.SetCommand(w)
}

// gpuMemory is the memory of a simulated device.
func (s *Standalone) gpuMemory() activation.Size { return cmp.Or(s.opts.GPUMemory, 16*activation.GB) }

// SetCommand prints the command that points wsk here.
func (s *Standalone) SetCommand(w io.Writer) {
	fmt.Fprintf(w, "wsk property set --apihost %s --auth %s\n", s.info.APIHost, Guest().AuthKey())
}

func embedded(elsewhere string) string {
	if elsewhere == "" {
		return " (embedded)"
	}
	return ""
}
