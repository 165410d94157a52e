package native

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// maxUnpacked limits the size of an unpacked archive.
const maxUnpacked = 2 << 30

// exec returns the path of the action's executable.
func (p *proxy) exec() string { return filepath.Join(p.cfg.Dir, "exec") }

func executable(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// unpack writes the code to the action's directory. It is a no-op without code: the
// image may bring its own executable.
func (p *proxy) unpack(req initRequest) error {
	if req.Code == nil {
		return nil
	}
	data := []byte(*req.Code)
	if req.Binary {
		var err error
		if data, err = base64.StdEncoding.DecodeString(*req.Code); err != nil {
			return fmt.Errorf("decode action code: %w", err)
		}
	}
	if err := os.MkdirAll(p.cfg.Dir, 0o755); err != nil {
		return fmt.Errorf("make action directory: %w", err)
	}
	if !bytes.HasPrefix(data, []byte("PK\x03\x04")) {
		return p.writeExec(data)
	}
	if err := p.unzip(data); err != nil {
		return err
	}
	if err := os.Chmod(p.exec(), 0o755); err != nil {
		return fmt.Errorf("find exec in the archive: %w", err)
	}
	return nil
}

// writeExec replaces the file instead of its contents, because a running program cannot
// be written to.
func (p *proxy) writeExec(data []byte) error {
	if err := os.Remove(p.exec()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replace action: %w", err)
	}
	if err := os.WriteFile(p.exec(), data, 0o755); err != nil {
		return fmt.Errorf("write action: %w", err)
	}
	return nil
}

// unzip unpacks an archive. os.Root refuses every name and link that leads out of the
// directory.
func (p *proxy) unzip(data []byte) error {
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return fmt.Errorf("open action archive: %w", err)
	}
	root, err := os.OpenRoot(p.cfg.Dir)
	if err != nil {
		return fmt.Errorf("open action directory: %w", err)
	}
	defer root.Close()
	left := int64(maxUnpacked)
	for _, f := range archive.File {
		if err := unzipFile(root, f, &left); err != nil {
			return fmt.Errorf("unpack %s: %w", f.Name, err)
		}
	}
	return nil
}

func unzipFile(root *os.Root, f *zip.File, left *int64) error {
	name := path.Clean(f.Name)
	if strings.HasSuffix(f.Name, "/") {
		return root.MkdirAll(name, 0o755)
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	r, err := f.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if f.Mode()&fs.ModeSymlink != 0 {
		target, err := io.ReadAll(io.LimitReader(r, 4096))
		if err != nil {
			return err
		}
		return root.Symlink(string(target), name)
	}
	return unzipData(root, name, f.Mode().Perm()|0o600, r, left)
}

func unzipData(root *os.Root, name string, mode fs.FileMode, r io.Reader, left *int64) error {
	w, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(w, io.LimitReader(r, *left+1))
	if *left -= n; *left < 0 {
		err = errors.New("the archive is too large")
	}
	return errors.Join(err, w.Close())
}
