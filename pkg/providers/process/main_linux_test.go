package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// helperVariable makes the test binary act as one of the processes under test.
const helperVariable = "PROCESS_TEST_HELPER"

func TestMain(m *testing.M) {
	if name := os.Getenv(helperVariable); name != "" {
		behaviour, ok := behaviours[name]
		if !ok {
			panic("no behaviour " + name)
		}
		behaviour()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds every wait: how long a loaded machine may take.
const patience = 30 * time.Second

// lifeline is a helper's end of a pipe that closes with the test, also when
// the test binary is killed.
const lifeline = 3

// behaviours is what a helper can do. Each ends with its lifeline.
var behaviours map[string]func()

func init() {
	behaviours = map[string]func(){
		"sleep":    func() { say("ready"); hold() },
		"stubborn": func() { stubborn("ready") },
		"polite":   polite,
		"breeder":  breeder,
		"daemon":   daemon,
		"orphan":   orphan,
		"leaver":   leaver,
		"chain":    func() { signal.Ignore(syscall.SIGTERM); say("ready"); chain() },
		"hydra":    hydra,
		"scan":     scan,
		"setuid":   setuid,
	}
}

func say(word string) { fmt.Println(word) }

// hold blocks until the test is over.
func hold() { _, _ = os.NewFile(lifeline, "lifeline").Read(make([]byte, 1)) }

func onTerm() <-chan os.Signal {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM)
	return c
}

// stubborn says when it is asked to end, and does not.
func stubborn(ready string) {
	c := onTerm()
	go func() {
		for range c {
			say("asked")
		}
	}()
	say(ready)
	hold()
}

// polite says so when it is asked to end, and ends.
func polite() {
	c := onTerm()
	go holdAndExit()
	say("ready")
	<-c
	say("asked")
}

func holdAndExit() { hold(); os.Exit(0) }

// breeder leaves a polite child behind when it is asked to end.
func breeder() {
	c := onTerm()
	go holdAndExit()
	say("ready")
	<-c
	again("polite")
}

// again starts this binary with the same environment but another behaviour.
func again(behaviour string, attr ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(append(os.Environ(), helperVariable+"="+behaviour), attr...)
	cmd.Stdout = os.Stdout
	cmd.ExtraFiles = []*os.File{os.NewFile(lifeline, "lifeline")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd
}

// daemon leaves a child in a session of its own and ends.
func daemon() { again("orphan", fmt.Sprint("PROCESS_TEST_PARENT=", os.Getpid())) }

// orphan is ready once it has another parent.
func orphan() {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for fmt.Sprint(os.Getppid()) == os.Getenv("PROCESS_TEST_PARENT") {
		<-tick.C
	}
	say("ready")
	hold()
}

// leaver becomes another program with another environment when asked to.
func leaver() {
	c := onTerm()
	go holdAndExit()
	say("ready")
	<-c
	panic(syscall.Exec("/proc/self/exe", []string{"leaver"}, []string{helperVariable + "=sleep"}))
}

// hydra keeps some children alive and grows each again that dies.
func hydra() {
	signal.Ignore(syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(context.Background(), loopers)
	defer cancel()
	for range 8 {
		go func() {
			for ctx.Err() == nil {
				_ = again("sleep").Wait()
			}
		}()
	}
	go holdAndExit()
	<-ctx.Done()
	say(string(late[:]))
}

// helper is a process under test.
type helper struct {
	*exec.Cmd
	said *bufio.Reader
}

var ids atomic.Int64

// newID gives a REAPERD_SANDBOX that nobody else on this machine has.
func newID() string { return fmt.Sprintf("test-%d-%d", os.Getpid(), ids.Add(1)) }

// environment is ours without what would put us into a sandbox.
func environment(more ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "REAPERD_") {
			env = append(env, kv)
		}
	}
	return append(env, more...)
}

// start runs a helper with more environment and waits until it is ready.
func start(tb testing.TB, behaviour string, env ...string) *helper {
	tb.Helper()
	return startAs(tb, &syscall.SysProcAttr{}, behaviour, env...)
}

func startAs(tb testing.TB, attr *syscall.SysProcAttr, behaviour string, env ...string) *helper {
	tb.Helper()
	life, ours, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	// Another user may not reach the binary by its path, but through this.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		tb.Fatal(err)
	}
	h := &helper{Cmd: exec.Command("/proc/self/fd/4"), said: bufio.NewReader(out)}
	h.Env = environment(append(env, helperVariable+"="+behaviour)...)
	h.Dir = "/"
	h.Stdout, h.Stderr = w, os.Stderr
	h.ExtraFiles = []*os.File{life, self}
	attr.Pdeathsig = syscall.SIGKILL // a stopped one cannot see its lifeline end
	h.SysProcAttr = attr
	err = h.Start()
	for _, f := range []*os.File{life, w, self} {
		_ = f.Close()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = ours.Close()
		h.end()
		_ = out.Close()
	})
	if behaviour != "scan" { // which says what it saw instead
		h.hear(tb, "ready")
	}
	return h
}

// member starts a helper of the sandbox id of our own user.
func startMember(tb testing.TB, behaviour, id string, env ...string) *helper {
	tb.Helper()
	return start(tb, behaviour, append(env, "REAPERD_SANDBOX="+id)...)
}

// end kills the helper and leaves nothing of it.
func (h *helper) end() {
	_ = h.Process.Kill()
	_ = h.Wait()
}

// hear waits until a helper says the word.
func (h *helper) hear(tb testing.TB, word string) {
	tb.Helper()
	for {
		line, err := h.said.ReadString('\n')
		if strings.TrimSpace(line) == word {
			return
		}
		if err != nil {
			tb.Fatalf("the helper never said %q: %v", word, err)
		}
	}
}

// rest is what all that holds the helper's output says until they have ended.
func (h *helper) rest(tb testing.TB) string {
	tb.Helper()
	b, err := io.ReadAll(h.said)
	if err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// within gives a context that outlasts any honest wait.
func within(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	tb.Cleanup(cancel)
	return ctx
}

// eventually waits until a condition holds.
func eventually(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	ctx := within(tb)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-ctx.Done():
			tb.Fatalf("never: %s", what)
		case <-tick.C:
		}
	}
}

// need skips a test that cannot run here, or fails it where it must.
func need(tb testing.TB, ok bool, what string) {
	tb.Helper()
	switch {
	case ok:
	case os.Getenv("REAPERD_MUST_RUN") == "1":
		tb.Fatalf("REAPERD_MUST_RUN is set, but this needs %s", what)
	default:
		tb.Skipf("needs %s", what)
	}
}

func needRoot(tb testing.TB) { tb.Helper(); need(tb, os.Getuid() == 0, "root") }
