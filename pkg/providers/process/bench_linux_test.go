package process

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// BenchmarkList lists 20 sandboxes of 10 processes beside what else runs here.
func BenchmarkList(b *testing.B) {
	prefix := newID() + "-"
	for i := range 20 {
		for range 10 {
			cmd := exec.Command("sleep", "600")
			cmd.Env = environment(fmt.Sprint("REAPERD_SANDBOX=", prefix, i), "REAPERD_TAGS=owner=bench,project=reaperd")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
		}
	}
	p := own{New("local"), prefix}
	all, err := os.ReadDir("/proc")
	if err != nil {
		b.Fatal(err)
	}
	processes := 0
	for _, e := range all {
		if e.Name()[0] <= '9' {
			processes++
		}
	}
	for b.Loop() {
		found, err := p.List(b.Context())
		if err != nil || len(found) != 20 {
			b.Fatalf("%d sandboxes, %v", len(found), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(processes), "µs/process")
}
