package standalone

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gpuwhisk/gpuwhisk/activation"
)

// Banner prints the state of the installation and the next commands.
func (s *Standalone) Banner(w io.Writer) {
	i := s.info
	fmt.Fprintf(w, "gpuwhisk %s: OpenWhisk is ready at %s\n", s.opts.Version, i.APIHost)
	for _, line := range [...]struct{ name, value, remark string }{
		{"console", s.Console(), ""},
		{"actions run as", i.Runtime, " (" + i.Why + ")"},
		{"GPUs", s.gpus(), ""},
		{"policy", cmp.Or(s.opts.Policy, "sticky-plus"), ""},
		{"data", i.Data, ""},
		{"Kafka", i.Kafka, embedded(s.opts.Kafka)},
		{"database", i.Database.URL, embedded(s.opts.CouchDB)},
		{"wsk's settings", s.settings(), " (for WSK_CONFIG_FILE)"},
	} {
		if line.value != "" {
			fmt.Fprintf(w, "  %-16s%s%s\n", line.name, line.value, line.remark)
		}
	}
	fmt.Fprintln(w)
	s.SetCommand(w)
}

// gpus describes the devices.
func (s *Standalone) gpus() string {
	simulated := fmt.Sprintf("%d simulated, %s each", s.opts.GPUs, cmp.Or(s.opts.GPUMemory, 16*activation.GB))
	switch {
	case s.opts.Devices != "":
		return "those of this machine (" + s.opts.Devices + ")"
	case s.opts.GPUs == 0:
		return "none (--devices auto uses those of this machine, --gpus N simulates some)"
	case s.opts.FakeDriver != "":
		return simulated + ", on the fake driver in " + s.opts.FakeDriver
	}
	return simulated
}

// settings returns the path of the file with the address of the API and the key of
// guest, in the format of ~/.wskprops.
func (s *Standalone) settings() string { return filepath.Join(s.info.Data, "wskprops") }

// writeSettings replaces that file, readable only by its owner.
func (s *Standalone) writeSettings() error {
	text := fmt.Sprintf("APIHOST=%s\nAUTH=%s\n", s.info.APIHost, s.info.Guest().AuthKey())
	err := os.Remove(s.settings())
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = os.WriteFile(s.settings(), []byte(text), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write wsk's settings: %w", err)
	}
	return nil
}

// SetCommand prints the command that configures wsk for this installation.
func (s *Standalone) SetCommand(w io.Writer) {
	fmt.Fprintf(w, "wsk property set --apihost %s --auth %s\n", s.info.APIHost, s.info.Guest().AuthKey())
}

func embedded(elsewhere string) string {
	if elsewhere == "" {
		return " (embedded)"
	}
	return ""
}
