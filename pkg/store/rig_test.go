package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/providers"
)

// noon is the present of the tests.
var noon = time.Date(2026, time.March, 14, 12, 0, 0, 123456789, time.UTC)

// roleVar names what this test binary does when it is started as a child.
const roleVar = "REAPERD_TEST_STORE_ROLE"

var roles = map[string]func(path string) error{}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		if err := roles[role](os.Args[1]); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is this test binary, started again in a role.
type child struct {
	*exec.Cmd
	lines *bufio.Scanner // what it says
}

func start(t *testing.T, role, path string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := command(t, self, role, path)
	c.begin(t)
	return c
}

func command(t *testing.T, binary, role, path string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(binary, path)}
	c.Env = append(os.Environ(), roleVar+"="+role)
	c.Stderr = os.Stderr
	return c
}

func (c *child) begin(t *testing.T) {
	t.Helper()
	_, err := c.StdinPipe() // its end, with ours, ends a child that waits for it
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
}

// expect waits for the child's next line.
func (c *child) expect(t *testing.T, want string) {
	t.Helper()
	if !c.lines.Scan() || c.lines.Text() != want {
		t.Fatalf("the child said %q, want %q", c.lines.Text(), want)
	}
}

func (c *child) kill() {
	_ = c.Process.Kill()
	_ = c.Wait()
}

// untilEnd keeps a child as it is until its parent is done with it.
func untilEnd() { _, _ = bufio.NewReader(os.Stdin).ReadByte() }

func dsnOf(path string) string {
	return (&url.URL{Scheme: "sqlite", Path: path}).String()
}

func newPath(t testing.TB) string {
	return filepath.Join(t.TempDir(), "state", "reaperd.db")
}

func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), dsnOf(path), noon)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shut(t, s) })
	return s
}

func shut(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func intent(id string) Entry {
	return Entry{
		Provider: "dev", Kind: "docker", SandboxID: id, InstanceID: "docker_" + id, Name: "box-" + id,
		Image: "python:3.12", Revision: "r1", Tags: map[string]string{"owner": "ann", "team": "Ω"},
		Policy: "short", Reason: "max_uptime", Action: "remove", By: "policy",
		Due: noon.Add(-time.Second), Begun: noon, Attempt: 1,
	}
}

func begin(t testing.TB, s *Store, e Entry) int64 {
	t.Helper()
	id, err := s.Begin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func history(t testing.TB, s *Store, f Filter) []Entry {
	t.Helper()
	all, err := s.History(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func pulsesOf(n int) []Pulse {
	ps := make([]Pulse, n)
	for i := range ps {
		ps[i] = Pulse{
			Provider: "dev", ID: fmt.Sprintf("%064x", i), Revision: "2026-03-14T11:00:00.000000001Z",
			FirstSeen: noon.Add(-time.Hour), LastSeen: noon, State: providers.StateRunning, StateSince: noon.Add(-time.Minute),
			UpSince: noon.Add(-30 * time.Minute), Told: []string{"malformed reaperd.ttl"},
		}
	}
	return ps
}

func leasesOf(n int) []lease.Lease {
	ls := make([]lease.Lease, n)
	for i := range ls {
		ls[i] = lease.Lease{Key: fmt.Sprintf("job-%d", i), TTL: time.Minute, Created: noon.Add(-time.Hour), Renewed: noon, By: "uid 1000"}
	}
	return ls
}

// fill makes a state with something in each table, and closes it.
func fill(t testing.TB, path string, entries int) {
	t.Helper()
	s := open(t, path)
	if err := s.SavePulses(t.Context(), pulsesOf(entries)); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveLeases(t.Context(), leasesOf(entries)); err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		begin(t, s, intent(fmt.Sprintf("%012d", i)))
	}
	if err := s.Protect(t.Context(), Protection{Provider: "dev", ID: "x", By: "ann@host", Since: noon}); err != nil {
		t.Fatal(err)
	}
	shut(t, s)
}

// usable fails the test unless s does all that a state is for.
func usable(t testing.TB, s *Store) {
	t.Helper()
	ctx := t.Context()
	if err := s.SavePulses(ctx, pulsesOf(3)); err != nil {
		t.Error(err)
	}
	id := begin(t, s, intent("usable"))
	if err := s.End(ctx, id, noon, "reclaimed", "", 1, 2); err != nil {
		t.Error(err)
	}
	if all := history(t, s, Filter{Sandbox: "usable", Limit: 1}); len(all) != 1 || all[0].Outcome != "reclaimed" {
		t.Errorf("history: %+v", all)
	}
	if err := s.Protect(ctx, Protection{Provider: "dev", ID: "usable"}); err != nil {
		t.Error(err)
	}
	if _, err := s.Protections(ctx, "dev"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.SaveLeases(ctx, leasesOf(3)), s.DeleteLeases(ctx, []string{"job-2"})); err != nil {
		t.Error(err)
	}
	if ls, err := s.Leases(ctx); err != nil || len(ls) < 2 {
		t.Errorf("%d leases, %v", len(ls), err)
	}
	if ps, err := s.Pulses(ctx, "dev"); err != nil || len(ps) < 3 {
		t.Errorf("%d pulses, %v", len(ps), err)
	}
}

// besides gives the names beside path that begin with its own.
func besides(t testing.TB, path string) []string {
	t.Helper()
	all, err := filepath.Glob(path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i] = strings.TrimPrefix(all[i], path)
	}
	return all
}

// bg is the context of a child.
var bg = context.Background()

func background(path string) (*Store, error) { return Open(bg, dsnOf(path), noon) }

func deadline(t *testing.T, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.Context(), d)
}
