package docker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// dialStdio does what `docker system dial-stdio` does, for a fake ssh: it
// joins standard input and output with the socket at that path.
func dialStdio(socket string) int {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	go func() {
		_, _ = io.Copy(conn, os.Stdin)
		_ = conn.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(os.Stdout, conn)
	return 0
}

// fakeSSH is a program called ssh that comes first on the PATH.
type fakeSSH struct{ folder string }

// newFakeSSH makes it do what the lines of shell say, after it noted its
// process id and what it was called with.
func newFakeSSH(t *testing.T, lines string) *fakeSSH {
	t.Helper()
	f := &fakeSSH{t.TempDir()}
	f.does(t, lines)
	t.Setenv("PATH", f.folder+":"+os.Getenv("PATH"))
	return f
}

func (f *fakeSSH) does(t *testing.T, lines string) {
	t.Helper()
	script := "#!/bin/sh\ncd '" + f.folder + "'\necho $$ >>pids\nprintf '%s\\n' \"$@\" >args\n" + lines + "\n"
	fresh := filepath.Join(f.folder, "fresh") // renamed, since one that runs cannot be written to
	if err := os.WriteFile(fresh, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, filepath.Join(f.folder, "ssh")); err != nil {
		t.Fatal(err)
	}
}

// through gives the lines that reach the engine at that address.
func through(t *testing.T, host string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return "DOCKERTEST_STDIO='" + strings.TrimPrefix(host, "unix://") + "' exec '" + self + "'"
}

func (f *fakeSSH) args(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.folder, "args"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

// pids are those of all that were started.
func (f *fakeSSH) pids(t *testing.T) []int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.folder, "pids"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []int
	for _, field := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

// allGone waits until none that was started is there, not even as a zombie.
func (f *fakeSSH) allGone(t *testing.T) {
	t.Helper()
	for _, pid := range f.pids(t) {
		until(t, "ssh ends and is reaped", func() bool { return syscall.Kill(-pid, 0) == syscall.ESRCH })
	}
}

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := authority{&x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}, key}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue gives a certificate for 127.0.0.1, and its key.
func (a authority) issue(t *testing.T) (cert, key []byte) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, a.cert, own.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// files writes a client's files as docker's command line names them.
func (a authority) files(t *testing.T, folder string) {
	t.Helper()
	cert, key := a.issue(t)
	for name, text := range map[string][]byte{"ca.pem": a.pem(), "cert.pem": cert, "key.pem": key} {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// tlsFront stands in front of an engine's socket and takes whom its authority
// knows.
type tlsFront struct {
	host string

	mu     sync.Mutex
	config *tls.Config
	conns  map[net.Conn]bool
	opened int
}

func newTLSFront(t *testing.T, host string, a authority) *tlsFront {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &tlsFront{host: "tcp://" + l.Addr().String(), conns: map[net.Conn]bool{}}
	f.trusts(t, a)
	l = tls.NewListener(l, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.config, nil
	}})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			f.conns[conn] = true
			f.opened++
			f.mu.Unlock()
			wg.Go(func() { f.serve(conn, strings.TrimPrefix(host, "unix://")) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.cut()
		wg.Wait()
	})
	return f
}

func (f *tlsFront) serve(conn net.Conn, socket string) {
	defer func() { _ = conn.Close() }()
	if conn.(*tls.Conn).Handshake() != nil {
		return
	}
	engine, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(engine, conn)
		_ = engine.Close()
	})
	_, _ = io.Copy(conn, engine)
	_ = conn.Close()
	wg.Wait()
}

// trusts has new connections judged by that authority, which also signs what
// the front shows.
func (f *tlsFront) trusts(t *testing.T, a authority) {
	t.Helper()
	text, key := a.issue(t)
	cert, err := tls.X509KeyPair(text, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.config = &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert}
}

// cut ends all connections.
func (f *tlsFront) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		_ = conn.Close()
		delete(f.conns, conn)
	}
}

// settings are those for this front, with the files in that folder.
func (f *tlsFront) settings(folder string) Settings {
	return Settings{
		Host: f.host, CAFile: filepath.Join(folder, "ca.pem"),
		CertFile: filepath.Join(folder, "cert.pem"), KeyFile: filepath.Join(folder, "key.pem"),
	}
}
