package standalone

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
	"github.com/gpuwhisk/gpuwhisk/invoker/internal/config"
)

// setting is a variable that standalone sets for its invoker.
type setting struct {
	variable, value string
	// flag is the flag of standalone that sets the variable. It is empty if standalone
	// chooses the value at each start.
	flag string
}

// invokerSettings returns the variables of the invoker that follow from the options: the
// variables of OpenWhisk's deployment, and our own. Empty values are not passed on.
func (s *Standalone) invokerSettings(manifest string) ([]setting, error) {
	db, err := url.Parse(s.info.Database.URL)
	if err != nil {
		return nil, fmt.Errorf("read database address: %w", err)
	}
	api, err := url.Parse(cmp.Or(s.actionsHost, s.info.APIHost))
	if err != nil {
		return nil, fmt.Errorf("read API address: %w", err)
	}
	number := func(n int64) string { return strings.TrimPrefix(strconv.FormatInt(n, 10), "0") } // "" for zero
	n, o := s.info.Database.Names, s.opts
	devices, simulated, adminName, adminPassword := o.Devices, "", "", ""
	if devices == "" {
		devices, simulated = "none", strconv.Itoa(o.GPUs)
	}
	if o.Admin != nil {
		adminName, adminPassword = adminUser, s.adminPassword
	}
	port := map[string]string{"http": "80", "https": "443"}[db.Scheme]
	return []setting{
		{"KAFKA_HOSTS", s.info.Kafka, "--kafka"},
		{"RUNTIMES_MANIFEST", manifest, "--runtimes"},
		{"WHISK_API_HOST_PROTO", "http", ""},
		{"WHISK_API_HOST_NAME", api.Hostname(), ""},
		{"WHISK_API_HOST_PORT", api.Port(), "--port"},
		{"PORT", "0", "--port"},
		{"DOCKER_HOST", o.Docker, "the variable DOCKER_HOST"},
		{"CONFIG_whisk_couchdb_provider", "CouchDB", ""},
		{"CONFIG_whisk_couchdb_protocol", db.Scheme, "--couchdb"},
		{"CONFIG_whisk_couchdb_host", db.Hostname(), "--couchdb"},
		{"CONFIG_whisk_couchdb_port", cmp.Or(db.Port(), port), "--couchdb"},
		{"CONFIG_whisk_couchdb_username", s.info.Database.User, "--couchdb"},
		{"CONFIG_whisk_couchdb_password", s.info.Database.Password, "--couchdb"},
		{"CONFIG_whisk_couchdb_databases_WhiskAuth", n.Subjects, "--db-prefix"},
		{"CONFIG_whisk_couchdb_databases_WhiskEntity", n.Whisks, "--db-prefix"},
		{"CONFIG_whisk_couchdb_databases_WhiskActivation", n.Activations, "--db-prefix"},
		{"CONFIG_whisk_containerPool_userMemory", cmp.Or(o.Memory, "2048m"), "--memory"},
		{"CONFIG_whisk_invoker_username", adminName, ""},
		{"CONFIG_whisk_invoker_password", adminPassword, ""},
		{"CONFIG_whisk_memory_max", number(int64(o.MemoryMax)), "--memory-max"},
		{"CONFIG_whisk_gpu_runtime", s.info.Runtime, "--runtime"},
		{"CONFIG_whisk_gpu_process_dir", filepath.Join(o.Data, "processes"), "--data"},
		{"CONFIG_whisk_gpu_state", filepath.Join(o.Data, "state"), "--data"},
		{"CONFIG_whisk_gpu_devices", devices, "--devices"},
		{"CONFIG_whisk_gpu_simulated_devices", simulated, "--gpus"},
		{"CONFIG_whisk_gpu_simulated_memory", number(int64(o.GPUMemory)), "--gpu-memory"},
		{"CONFIG_whisk_gpu_fakeDriver", o.FakeDriver, "--fake-driver"},
		{"CONFIG_whisk_gpu_shim_library", o.Shim, "--shim"},
		{"CONFIG_whisk_gpu_tokens", number(int64(o.Tokens)), "--tokens"},
		{"CONFIG_whisk_gpu_policy", o.Policy, "--policy"},
	}, nil
}

// environment returns the invoker's environment.
func (s *Standalone) environment(manifest string) ([]string, error) {
	all, err := s.invokerSettings(manifest)
	if err != nil {
		return nil, err
	}
	var env []string
	for _, v := range all {
		if v.value != "" {
			env = append(env, v.variable+"="+v.value)
		}
	}
	return append(env, s.opts.Extra...), nil
}

// reserved lists the keys that would separate the invoker from the rest of the
// installation, with the reason. A name that ends in a dot matches all keys below it.
var reserved = []struct{ name, why string }{
	{"whisk.kafka.topics.prefix", "its controller uses topics without a prefix"},
	{"whisk.kafka.common.", "its controller connects to Kafka without TLS and without a login"},
	{"whisk.invoker.protocol", "its console reads the invoker over plain HTTP"},
	{"whisk.etcd.", "it has a controller and no schedulers"},
	{"whisk.spi.InvokerProvider", "it has a controller and no schedulers"},
	{"whisk.spi.ActivationStoreProvider", "its API reads records from its own database"},
	{"whisk.gpu.records.store", "its API reads records from its own database"},
	{"whisk.spi.AttachmentStoreProvider", "its API keeps code in its own database"},
}

// CheckSettings checks the user's settings in addition to standalone's, and returns the
// resulting configuration of the invoker. It refuses unknown keys, values that are not
// allowed, and keys that standalone sets itself.
func CheckSettings(in config.Input) (*config.Config, error) {
	c, given, err := config.Given(in)
	own, ownErr := new(Standalone).invokerSettings("")
	problems := []error{err, ownErr}
	for _, g := range given {
		if i := slices.IndexFunc(own, func(s setting) bool { return s.variable == g.Variable }); i >= 0 {
			instead := "standalone chooses the value itself"
			if own[i].flag != "" {
				instead = "use " + own[i].flag + " instead"
			}
			problems = append(problems, fmt.Errorf("%s (from %s): %s", g.Name, g.Source, instead))
		}
		for _, r := range reserved {
			if g.Name == r.name || strings.HasSuffix(r.name, ".") && strings.HasPrefix(g.Name, r.name) {
				problems = append(problems, fmt.Errorf("%s (from %s): not possible in standalone: %s", g.Name, g.Source, r.why))
			}
		}
	}
	return c, errors.Join(problems...)
}

// CheckPeers checks the form of the addresses of external brokers and of an external
// database. It opens no connection.
func CheckPeers(kafka, couchDB string) error {
	for _, host := range splitList(kafka) {
		if _, port, err := net.SplitHostPort(host); err != nil || port == "" {
			return fmt.Errorf("--kafka %s: want HOST:PORT", host)
		}
	}
	if couchDB == "" {
		return nil
	}
	_, err := parseCouchDB(couchDB)
	return err
}

// parseCouchDB parses an address such as http://user:password@host:5984. It drops the
// parser's error, because that repeats the text with the password.
func parseCouchDB(address string) (couchdb.Config, error) {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		if password, ok := u.User.Password(); ok {
			return couchdb.Config{URL: u.Scheme + "://" + u.Host, User: u.User.Username(), Password: password}, nil
		}
	}
	return couchdb.Config{}, errors.New("--couchdb: want http://USER:PASSWORD@HOST:PORT (or in GPUWHISK_COUCHDB)")
}

// splitList splits a list at commas and blanks.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
