package standalone

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// environment is what the invoker is started with: the variables that
// OpenWhisk's deployment sets, and ours. What is empty is left out.
func (s *Standalone) environment(manifest string) ([]string, error) {
	db, err := url.Parse(s.info.Database.URL)
	if err != nil {
		return nil, fmt.Errorf("read database address: %w", err)
	}
	api, err := url.Parse(s.info.APIHost)
	if err != nil {
		return nil, fmt.Errorf("read API address: %w", err)
	}
	number := func(n int64) string { return strings.TrimPrefix(strconv.FormatInt(n, 10), "0") } // zero: empty
	n, o := s.info.Database.Names, s.opts
	devices, simulated, adminName, adminPassword := o.Devices, "", "", ""
	if devices == "" {
		devices, simulated = "none", strconv.Itoa(o.GPUs)
	}
	if o.Admin != nil {
		adminName, adminPassword = adminUser, s.adminPassword
	}
	port := map[string]string{"http": "80", "https": "443"}[db.Scheme]
	var env []string
	for _, v := range [...]struct{ name, value string }{
		{"KAFKA_HOSTS", s.info.Kafka},
		{"RUNTIMES_MANIFEST", manifest},
		{"WHISK_API_HOST_PROTO", "http"},
		{"WHISK_API_HOST_NAME", api.Hostname()},
		{"WHISK_API_HOST_PORT", api.Port()},
		{"PORT", "0"},
		{"DOCKER_HOST", o.Docker},
		{"CONFIG_whisk_couchdb_provider", "CouchDB"},
		{"CONFIG_whisk_couchdb_protocol", db.Scheme},
		{"CONFIG_whisk_couchdb_host", db.Hostname()},
		{"CONFIG_whisk_couchdb_port", cmp.Or(db.Port(), port)},
		{"CONFIG_whisk_couchdb_username", s.info.Database.User},
		{"CONFIG_whisk_couchdb_password", s.info.Database.Password},
		{"CONFIG_whisk_couchdb_databases_WhiskAuth", n.Subjects},
		{"CONFIG_whisk_couchdb_databases_WhiskEntity", n.Whisks},
		{"CONFIG_whisk_couchdb_databases_WhiskActivation", n.Activations},
		{"CONFIG_whisk_containerPool_userMemory", cmp.Or(o.Memory, "2048m")},
		{"CONFIG_whisk_invoker_username", adminName},
		{"CONFIG_whisk_invoker_password", adminPassword},
		{"CONFIG_whisk_memory_max", number(int64(o.MemoryMax))},
		{"CONFIG_whisk_gpu_runtime", s.info.Runtime},
		{"CONFIG_whisk_gpu_process_dir", filepath.Join(o.Data, "processes")},
		{"CONFIG_whisk_gpu_state", filepath.Join(o.Data, "state")},
		{"CONFIG_whisk_gpu_devices", devices},
		{"CONFIG_whisk_gpu_simulated_devices", simulated},
		{"CONFIG_whisk_gpu_simulated_memory", number(int64(o.GPUMemory))},
		{"CONFIG_whisk_gpu_fakeDriver", o.FakeDriver},
		{"CONFIG_whisk_gpu_shim_library", o.Shim},
		{"CONFIG_whisk_gpu_tokens", number(int64(o.Tokens))},
		{"CONFIG_whisk_gpu_policy", o.Policy},
	} {
		if v.value != "" {
			env = append(env, v.name+"="+v.value)
		}
	}
	return append(env, o.Extra...), nil
}

// CheckPeers checks the form of the addresses of brokers and of a database
// elsewhere, without a connection.
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

// parseCouchDB reads an address such as http://user:password@host:5984. The parser's
// error is not passed on: it repeats the text, password included.
func parseCouchDB(address string) (couchdb.Config, error) {
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		if password, ok := u.User.Password(); ok {
			return couchdb.Config{URL: u.Scheme + "://" + u.Host, User: u.User.Username(), Password: password}, nil
		}
	}
	return couchdb.Config{}, errors.New("--couchdb: want http://USER:PASSWORD@HOST:PORT")
}

// splitList gives the parts of a list, blanks aside.
func splitList(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == ',' || r == ' ' })
}
