package docker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/docker/go-connections/tlsconfig"

	"github.com/reaperd/reaperd/pkg/providers"
)

// tlsFiles are the files by which an engine and reaperd know each other.
type tlsFiles struct {
	origin        string // what named them, for errors
	ca, cert, key string // paths; "" without
	optional      bool   // a file that is absent counts as not named
	onlyCA        bool   // the system's certificate authorities do not count
	unchecked     bool   // the engine's certificate is taken as it comes
}

// tlsIn names the files as docker's command line does.
func tlsIn(folder, origin string) *tlsFiles {
	return &tlsFiles{
		origin: origin,
		ca:     filepath.Join(folder, "ca.pem"), cert: filepath.Join(folder, "cert.pem"), key: filepath.Join(folder, "key.pem"),
	}
}

// config reads the files.
func (f *tlsFiles) config() (*tls.Config, error) {
	there := func(path string) string {
		if _, err := os.Stat(path); f.optional && errors.Is(err, os.ErrNotExist) {
			return ""
		}
		return path
	}
	config, err := tlsconfig.Client(tlsconfig.Options{
		CAFile: there(f.ca), CertFile: there(f.cert), KeyFile: there(f.key),
		InsecureSkipVerify: f.unchecked, ExclusiveRootPools: f.onlyCA,
	})
	if err != nil {
		return nil, &reachError{"read " + f.origin + ": " + clip(err.Error()), providers.ErrUnavailable}
	}
	return config, nil
}

// connectTime is how long a connection may take to come about. A call's own
// deadline ends the call sooner, but not the attempt.
const connectTime = 10 * time.Second

// dial reads the files for each connection, so that certificates may be
// replaced while reaperd runs.
func (f *tlsFiles) dial(ctx context.Context, network, address string) (net.Conn, error) {
	config, err := f.config()
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: connectTime}, Config: config}
	return d.DialContext(ctx, network, address)
}

// tls gives the settings' own files, nil without.
func (s Settings) tls() *tlsFiles {
	if s.CAFile == "" && s.CertFile == "" && s.KeyFile == "" {
		return nil
	}
	origin := "cert_file and key_file"
	if s.CertFile == "" {
		origin = "ca_file"
	} else if s.CAFile != "" {
		origin = "ca_file, cert_file and key_file"
	}
	return &tlsFiles{origin: origin, ca: s.CAFile, cert: s.CertFile, key: s.KeyFile, onlyCA: true}
}
