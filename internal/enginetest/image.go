package enginetest

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/docker/docker/api/types/image"
)

// Image is there on every engine: one static busybox, reachable as /bin/sh
// and a few other commands. It comes from no registry.
const Image = "reaperd-test/busybox:latest"

var applets = []string{"sh", "sleep", "cat", "true", "false", "echo", "touch", "ls", "kill", "id", "nc", "wget", "dd", "yes", "mkdir", "rm"}

// Import makes an image that holds the given static binary as /bin/NAME and
// nothing else.
func (e *Engine) Import(tb testing.TB, tag, binary, name string) {
	tb.Helper()
	if err := e.importImage(tag, binary, name, nil); err != nil {
		tb.Fatalf("import image %s: %v", tag, err)
	}
}

func (e *Engine) importShell() error {
	binary, err := shell()
	if err != nil {
		return err
	}
	return e.importImage(Image, binary, "busybox", applets)
}

// shell finds a busybox that runs where there is no C library.
func shell() (string, error) {
	for _, path := range []string{"/bin/busybox", "/usr/bin/busybox"} {
		if static(path) {
			return path, nil
		}
	}
	return "", errors.New("no static busybox is installed (Debian: busybox-static)")
}

func static(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return false
		}
	}
	return true
}

func (e *Engine) importImage(tag, binary, name string, links []string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, folder := range []string{"bin/", "tmp/", "etc/"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o755}); err != nil {
			return err
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: "bin/" + name, Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	for _, l := range links {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + l, Linkname: name}); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := e.cli.ImageImport(ctx, image.ImportSource{Source: &b, SourceName: "-"}, tag, image.ImportOptions{})
	if err != nil {
		return fmt.Errorf("import %s: %w", tag, err)
	}
	_, err = io.Copy(io.Discard, out)
	return errors.Join(err, out.Close())
}
