package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/reaperd/reaperd/internal/enginetest"
	"github.com/reaperd/reaperd/pkg/providers"
)

func TestAnEngineIsReachedByTLS(t *testing.T) {
	e := enginetest.Shared(t)
	a, folder := newAuthority(t), t.TempDir()
	a.files(t, folder)
	front := newTLSFront(t, e.Host(), a)
	p := openBy(t, front.settings(folder))
	w := watch(t, e, p)
	id := e.Run(t, enginetest.Options{})
	w.soon(t, id, "start", 0)
	mustStop(t, p, id, providers.StopOptions{Action: providers.ActionRemove})
	if e.Exists(t, id) {
		t.Error("it was not removed")
	}
	if err := p.Probe(within(t)); err != nil {
		t.Error(err)
	}
	there, err := p.Identity(within(t))
	if here, err2 := openAt(t, e.Host()).Identity(within(t)); here != there || err != nil || err2 != nil {
		t.Errorf("one engine is %q by TLS and %q by its socket (%v, %v)", there, here, err, err2)
	}
	front.cut()
	w.broke(t)
	mustList(t, p)
}

func TestWhoDoesNotFitIsRefusedByTLS(t *testing.T) {
	e := enginetest.Shared(t)
	a, stranger := newAuthority(t), newAuthority(t)
	good, bad := t.TempDir(), t.TempDir()
	a.files(t, good)
	stranger.files(t, bad)
	front := newTLSFront(t, e.Host(), a)
	for name, tc := range map[string]struct {
		adjust func(s *Settings)
		want   string
		cause  providers.Cause
	}{
		"another authority": {
			func(s *Settings) { s.CAFile = filepath.Join(bad, "ca.pem") },
			"the engine's certificate is not trusted: x509: certificate signed by unknown authority", providers.CauseUnavailable,
		},
		"the system's authorities": {
			func(s *Settings) { s.CAFile = "" }, "the engine's certificate is not trusted: ", providers.CauseUnavailable,
		},
		"no certificate": {
			func(s *Settings) { s.CertFile, s.KeyFile = "", "" },
			"the engine refused the connection: tls: certificate required", providers.CauseDenied,
		},
		"another certificate": {
			func(s *Settings) {
				s.CertFile, s.KeyFile = filepath.Join(bad, "cert.pem"), filepath.Join(bad, "key.pem")
			},
			"the engine refused the connection: tls: ", providers.CauseDenied,
		},
		"another's key": {
			func(s *Settings) { s.KeyFile = filepath.Join(bad, "key.pem") },
			"read ca_file, cert_file and key_file: ", providers.CauseUnavailable,
		},
		"no file": {
			func(s *Settings) { s.CertFile = filepath.Join(good, "gone.pem") }, "gone.pem: no such file or directory", providers.CauseUnavailable,
		},
		"no TLS": {
			func(s *Settings) { s.CAFile, s.CertFile, s.KeyFile = "", "", "" }, front.host, providers.CauseUnavailable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := front.settings(good)
			tc.adjust(&s)
			all, err := openBy(t, s).List(within(t))
			if all != nil || err == nil || !strings.Contains(err.Error(), tc.want) || providers.CauseOf(err) != tc.cause {
				t.Errorf("List gave %v, %v (cause %s); want %q and cause %s", all, err, providers.CauseOf(err), tc.want, tc.cause)
			}
		})
	}
}

func TestCertificatesMayBeReplacedWhileItRuns(t *testing.T) {
	e := enginetest.Shared(t)
	old, folder := newAuthority(t), t.TempDir()
	old.files(t, folder)
	front := newTLSFront(t, e.Host(), old)
	p := openBy(t, front.settings(folder))
	mustList(t, p)
	before := p.conn.current()

	next := newAuthority(t)
	front.trusts(t, next)
	front.cut()
	if _, err := p.List(within(t)); !errors.Is(err, providers.ErrUnavailable) {
		t.Errorf("before it has the new ones: %v", err)
	}
	next.files(t, folder)
	mustList(t, p)
	if p.conn.current() != before {
		t.Error("it needed a new client for that")
	}
	if err := os.Remove(filepath.Join(folder, "key.pem")); err != nil {
		t.Fatal(err)
	}
	front.cut()
	if _, err := p.List(within(t)); err == nil || !strings.Contains(err.Error(), "read ca_file, cert_file and key_file: ") || !strings.Contains(err.Error(), "key.pem") {
		t.Errorf("without its key: %v", err)
	}
}

func TestTLSFilesAreTakenFromWhereTheAddressIs(t *testing.T) {
	e := enginetest.Shared(t)
	a, stranger := newAuthority(t), newAuthority(t)
	good, bad := t.TempDir(), t.TempDir()
	a.files(t, good)
	stranger.files(t, bad)
	front := newTLSFront(t, e.Host(), a)
	home := t.TempDir()
	writeContext(t, home, "secure", `{"Host":"`+front.host+`"}`)
	a.files(t, tlsFolder(t, home, "secure"))
	writeContext(t, home, "foreign", `{"Host":"`+front.host+`","SkipTLSVerify":false}`)
	stranger.files(t, tlsFolder(t, home, "foreign"))

	for name, tc := range map[string]struct {
		settings Settings
		vars     map[string]string
		works    bool
	}{
		"DOCKER_CERT_PATH":                {Settings{}, map[string]string{"DOCKER_HOST": front.host, "DOCKER_CERT_PATH": good, "DOCKER_TLS_VERIFY": "1"}, true},
		"and with host":                   {Settings{Host: front.host}, map[string]string{"DOCKER_CERT_PATH": good, "DOCKER_TLS_VERIFY": "1"}, true},
		"unchecked":                       {Settings{}, map[string]string{"DOCKER_HOST": front.host, "DOCKER_CERT_PATH": good}, true},
		"another's":                       {Settings{}, map[string]string{"DOCKER_HOST": front.host, "DOCKER_CERT_PATH": bad, "DOCKER_TLS_VERIFY": "1"}, false},
		"its own go before":               {front.settings(good), map[string]string{"DOCKER_CERT_PATH": bad, "DOCKER_TLS_VERIFY": "1"}, true},
		"and need no other":               {front.settings(good), map[string]string{"DOCKER_TLS_VERIFY": "1"}, true},
		"a context's":                     {Settings{Context: "secure"}, map[string]string{"HOME": home, "DOCKER_CERT_PATH": bad, "DOCKER_TLS_VERIFY": "1"}, true},
		"a context's, and no other's":     {Settings{Context: "foreign"}, map[string]string{"HOME": home, "DOCKER_CERT_PATH": good, "DOCKER_TLS_VERIFY": "1"}, false},
		"a context's, by the environment": {Settings{}, map[string]string{"HOME": home, "DOCKER_CONTEXT": "secure"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			vars := map[string]string{}
			for k, v := range tc.vars {
				if k == "HOME" {
					v = filepath.Dir(home)
				}
				vars[k] = v
			}
			if _, there := vars["HOME"]; there {
				vars["DOCKER_CONFIG"] = home
			}
			p, err := open("x", tc.settings, pretend(vars, nil))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = p.Close() }()
			if _, err := p.List(within(t)); (err == nil) != tc.works {
				t.Errorf("List gave %v", err)
			}
		})
	}
}
