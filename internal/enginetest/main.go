package enginetest

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared are the engines of a test binary by the names of their kinds; see
// Shared and Main.
var shared struct {
	sync.Mutex
	inMain  bool
	engines map[string]*sharedEngine
}

// sharedEngine is started by the first who asks for it, while others wait.
type sharedEngine struct {
	once   sync.Once
	engine *Engine
	err    error
}

// Main runs a package's tests, stops the engines that they shared, looks for
// goroutines that they left behind, and exits. Call it from TestMain.
func Main(m *testing.M, options ...goleak.Option) {
	shared.inMain = true
	code := m.Run()
	for _, s := range shared.engines {
		if s.engine == nil {
			continue
		}
		if err := s.engine.close(); err != nil {
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

// Shared gives the Docker engine that all tests of a package share; the first to
// ask starts it and Main stops it. What a test puts on it, it also clears away
// (Run does), and no test may suppose that it is alone there.
func Shared(tb testing.TB) *Engine {
	tb.Helper()
	return sharedOf(tb, docker)
}

func sharedOf(tb testing.TB, k kind) *Engine {
	tb.Helper()
	need(tb, k)
	if !shared.inMain {
		tb.Fatal("a shared engine needs a TestMain that calls enginetest.Main")
	}
	shared.Lock()
	if shared.engines == nil {
		shared.engines = map[string]*sharedEngine{}
	}
	s := shared.engines[k.name]
	if s == nil {
		s = &sharedEngine{}
		shared.engines[k.name] = s
	}
	shared.Unlock()
	s.once.Do(func() { s.engine, s.err = start(k) })
	if s.err != nil {
		tb.Fatalf("start the shared engine: %v", s.err)
	}
	return s.engine
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

func need(tb testing.TB, k kind) {
	tb.Helper()
	if os.Geteuid() != 0 {
		SkipOrFail(tb, "a private engine needs root")
	}
	if _, err := k.program(); err != nil {
		SkipOrFail(tb, err.Error())
	}
	if _, err := shell(); err != nil {
		SkipOrFail(tb, err.Error())
	}
}
