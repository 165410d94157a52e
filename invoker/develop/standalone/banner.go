package standalone

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

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

	Namespaces []Namespace // guest, and those that were asked for
}

// Guest is the namespace that is always there.
func (i Info) Guest() Namespace { return i.Namespaces[0] }

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
	fmt.Fprintf(w, "  wsk's settings  %s (for WSK_CONFIG_FILE)\n", s.settings())
	fmt.Fprintln(w)
	s.SetCommand(w)
}

// settings is the file with the address of the API and the key of guest, as wsk has
// them in ~/.wskprops.
func (s *Standalone) settings() string { return filepath.Join(s.info.Data, "wskprops") }

// writeSettings makes that file anew, for its owner alone.
func (s *Standalone) writeSettings() error {
	if err := os.Remove(s.settings()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replace wsk's settings: %w", err)
	}
	text := fmt.Sprintf("APIHOST=%s\nAUTH=%s\n", s.info.APIHost, s.info.Guest().AuthKey())
	if err := os.WriteFile(s.settings(), []byte(text), 0o600); err != nil {
		return fmt.Errorf("write wsk's settings: %w", err)
	}
	return nil
}

// gpuMemory is the memory of a simulated device.
func (s *Standalone) gpuMemory() activation.Size { return cmp.Or(s.opts.GPUMemory, 16*activation.GB) }

// SetCommand prints the command that points wsk here.
func (s *Standalone) SetCommand(w io.Writer) {
	fmt.Fprintf(w, "wsk property set --apihost %s --auth %s\n", s.info.APIHost, s.info.Guest().AuthKey())
}

func embedded(elsewhere string) string {
	if elsewhere == "" {
		return " (embedded)"
	}
	return ""
}
