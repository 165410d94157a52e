package standalone

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuwhisk/gpuwhisk/invoker/develop/standalone/couchdb"
)

// environment is what the invoker is started with: the variables that
// OpenWhisk's deployment sets, and ours.
func (s *Standalone) environment(manifest string) ([]string, error) {
	db, err := url.Parse(s.info.Database.URL)
	if err != nil {
		return nil, fmt.Errorf("read database address: %w", err)
	}
	api, err := url.Parse(s.info.APIHost)
	if err != nil {
		return nil, fmt.Errorf("read API address: %w", err)
	}
	n := s.info.Database.Names
	env := []string{
		"KAFKA_HOSTS=" + s.info.Kafka,
		"RUNTIMES_MANIFEST=" + manifest,
		"WHISK_API_HOST_PROTO=http",
		"WHISK_API_HOST_NAME=" + api.Hostname(),
		"WHISK_API_HOST_PORT=" + api.Port(),
		"PORT=0",
		"CONFIG_whisk_couchdb_provider=CouchDB",
		"CONFIG_whisk_couchdb_protocol=" + db.Scheme,
		"CONFIG_whisk_couchdb_host=" + db.Hostname(),
		"CONFIG_whisk_couchdb_port=" + portOf(db),
		"CONFIG_whisk_couchdb_username=" + s.info.Database.User,
		"CONFIG_whisk_couchdb_password=" + s.info.Database.Password,
		"CONFIG_whisk_couchdb_databases_WhiskAuth=" + n.Subjects,
		"CONFIG_whisk_couchdb_databases_WhiskEntity=" + n.Whisks,
		"CONFIG_whisk_couchdb_databases_WhiskActivation=" + n.Activations,
		"CONFIG_whisk_containerPool_userMemory=" + cmp.Or(s.opts.Memory, "2048m"),
		"CONFIG_whisk_gpu_runtime=" + s.info.Runtime,
		"CONFIG_whisk_gpu_process_dir=" + filepath.Join(s.opts.Data, "processes"),
		"CONFIG_whisk_gpu_state=" + filepath.Join(s.opts.Data, "state"),
	}
	if s.opts.Admin != nil {
		env = append(env, "CONFIG_whisk_invoker_username="+adminUser, "CONFIG_whisk_invoker_password="+s.adminPassword)
	}
	if s.opts.Devices != "" {
		env = append(env, "CONFIG_whisk_gpu_devices="+s.opts.Devices)
	} else {
		env = append(env, "CONFIG_whisk_gpu_devices=none", "CONFIG_whisk_gpu_simulated_devices="+strconv.Itoa(s.opts.GPUs))
	}
	for name, value := range map[string]string{
		"CONFIG_whisk_gpu_fakeDriver":       s.opts.FakeDriver,
		"CONFIG_whisk_gpu_shim_library":     s.opts.Shim,
		"CONFIG_whisk_gpu_simulated_memory": orEmpty(int64(s.opts.GPUMemory)),
		"CONFIG_whisk_memory_max":           orEmpty(int64(s.opts.MemoryMax)),
		"DOCKER_HOST":                       s.opts.Docker,
		"CONFIG_whisk_gpu_tokens":           orEmpty(int64(s.opts.Tokens)),
		"CONFIG_whisk_gpu_policy":           s.opts.Policy,
	} {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return append(env, s.opts.Extra...), nil
}

// orEmpty writes a number, and zero as nothing.
func orEmpty(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
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

// parseCouchDB reads an address such as http://user:password@host:5984.
func parseCouchDB(address string) (couchdb.Config, error) {
	u, err := url.Parse(address)
	if err != nil {
		// The parser's error repeats the text, password included.
		return couchdb.Config{}, errors.New("--couchdb: not a URL, want http://USER:PASSWORD@HOST:PORT")
	}
	password, hasPassword := u.User.Password()
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !hasPassword {
		return couchdb.Config{}, errors.New("--couchdb: want http://USER:PASSWORD@HOST:PORT")
	}
	user := u.User.Username()
	return couchdb.Config{URL: u.Scheme + "://" + u.Host, User: user, Password: password}, nil
}

func splitList(s string) []string {
	var all []string
	for _, part := range strings.Split(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			all = append(all, part)
		}
	}
	return all
}

// secret reads a password from a file, which is made with a new one if it is
// not there.
func secret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err == nil && len(strings.TrimSpace(string(b))) > 0 {
		return strings.TrimSpace(string(b)), nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read store password: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("create data directory: %w", err)
	}
	password := randomText(16)
	if err := os.WriteFile(path, []byte(password+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write store password: %w", err)
	}
	return password, nil
}

func randomText(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)
}

// Free reports whether a port of the loopback interface has no listener.
func Free(port int) bool {
	ln, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return ln.Close() == nil
}
