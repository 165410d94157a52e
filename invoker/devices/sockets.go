package devices

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/gpuwhisk/gpuwhisk/gpu/shimctl"
)

// containerDir is the name of a container's directory, as shimctl makes it.
var containerDir = regexp.MustCompile(`^[0-9a-f]{16}$`)

// longestDir is the path of a directory below which a container's socket still
// has a name that the kernel takes: 107 bytes.
const longestDir = 107 - len("/0123456789abcdef/"+shimctl.SocketName)

// SocketDir chooses the directory of the sockets: the first of the places that
// can be made and whose path is short enough.
func SocketDir(places ...string) (string, error) {
	var errs []error
	for _, dir := range places {
		dir, err := filepath.Abs(dir)
		if err == nil && len(dir) > longestDir {
			err = fmt.Errorf("socket directory %s: longer than %d bytes", dir, longestDir)
		}
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", errors.Join(errs...)
}

// ShortDir is a place that takes another's where that is too long: one in the
// directory for temporary files, the same for the same place.
func ShortDir(place string) string {
	sum := sha256.Sum256([]byte(place))
	return filepath.Join(os.TempDir(), "gpuwhisk-"+hex.EncodeToString(sum[:6]))
}

// clearSockets removes what an earlier process left: its containers are
// removed at the start, so their sockets are of no use. Nothing else in the
// directory is touched.
func clearSockets(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read socket directory: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !containerDir.MatchString(e.Name()) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			return fmt.Errorf("remove old shim socket: %w", err)
		}
	}
	return nil
}

// install puts a copy of the library beside the sockets, for containers to
// mount: their engine sees the host's files, which ours need not be where we
// run in a container ourselves. The sockets' directory must be shared in any
// case.
func install(library, dir string) (string, error) {
	return installFile(library, filepath.Join(dir, LibraryName))
}

func installFile(from, to string) (string, error) {
	data, err := os.ReadFile(from)
	if err != nil {
		return "", fmt.Errorf("read %s for containers: %w", filepath.Base(from), err)
	}
	// Containers of before may have the old file mounted: it is not touched.
	if err := os.WriteFile(to+".new", data, 0o600); err != nil {
		return "", fmt.Errorf("copy %s for containers: %w", filepath.Base(from), err)
	}
	if err := os.Chmod(to+".new", 0o555); err != nil {
		return "", fmt.Errorf("open %s to containers: %w", to, err)
	}
	if err := os.Rename(to+".new", to); err != nil {
		return "", fmt.Errorf("copy %s for containers: %w", filepath.Base(from), err)
	}
	return to, nil
}
