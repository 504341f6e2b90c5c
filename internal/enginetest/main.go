package enginetest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared is the one engine of a test binary; see Shared and Main.
var shared struct {
	sync.Mutex
	inMain bool
	engine *Engine
	err    error
}

// Main runs a package's tests, stops the engine that they shared, looks for
// goroutines that they left behind, and exits. Call it from TestMain.
func Main(m *testing.M, options ...goleak.Option) {
	shared.inMain = true
	code := m.Run()
	if e := shared.engine; e != nil {
		if err := e.close(); err != nil {
			fmt.Fprintf(os.Stderr, "stop the shared engine: %v\n", err)
			code = max(code, 1)
		}
	}
	if code == 0 {
		if err := goleak.Find(options...); err != nil {
			fmt.Fprintf(os.Stderr, "goroutines left behind: %v\n", err)
			code = 1
		}
	}
	os.Exit(code)
}

// Shared gives the engine that all tests of a package share; the first to ask
// starts it and Main stops it. What a test puts on it, it also clears away
// (Run does), and no test may suppose that it is alone there.
func Shared(tb testing.TB) *Engine {
	tb.Helper()
	need(tb)
	shared.Lock()
	defer shared.Unlock()
	if !shared.inMain {
		tb.Fatal("enginetest.Shared needs a TestMain that calls enginetest.Main")
	}
	if shared.engine == nil && shared.err == nil {
		shared.engine, shared.err = start()
	}
	if shared.err != nil {
		tb.Fatalf("start the shared engine: %v", shared.err)
	}
	return shared.engine
}

// MustRun says whether a test that lacks what it needs must fail instead of
// being skipped: REAPERD_MUST_RUN=1, as CI sets it.
func MustRun() bool { return os.Getenv("REAPERD_MUST_RUN") == "1" }

// SkipOrFail skips the test because of why, or fails it where MustRun.
func SkipOrFail(tb testing.TB, why string) {
	tb.Helper()
	if MustRun() {
		tb.Fatalf("REAPERD_MUST_RUN is set, but %s", why)
	}
	tb.Skip(why)
}

func need(tb testing.TB) {
	tb.Helper()
	if os.Geteuid() != 0 {
		SkipOrFail(tb, "a private Docker engine needs root")
	}
	if _, err := dockerd(); err != nil {
		SkipOrFail(tb, err.Error())
	}
	if _, err := shell(); err != nil {
		SkipOrFail(tb, err.Error())
	}
}
