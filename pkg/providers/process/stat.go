package process

import (
	"bytes"
	"errors"
	"strconv"
)

// stat is what /proc/PID/stat says, as far as it is needed; see proc_pid_stat(5).
type stat struct {
	comm   string
	state  byte
	parent int
	flags  uint64
	start  uint64 // in clock ticks after boot
	// Where the environment lies in the process's memory; zeros if it has no
	// memory (yet, any more, or ever) or if reading it is not allowed.
	environStart, environEnd uint64
}

// From the kernel's include/linux/sched.h; proc_pid_stat(5) names the field.
const (
	flagExiting = 0x00000004
	flagKernel  = 0x00200000
)

// dead says that the process has ended or is past return.
func (s *stat) dead() bool {
	return s.state == 'Z' || s.state == 'X' || s.flags&flagExiting != 0
}

// kernel says that it is a kernel thread.
func (s *stat) kernel() bool { return s.flags&flagKernel != 0 }

// stopped says that a signal or a tracer has stopped it.
func (s *stat) stopped() bool { return s.state == 'T' || s.state == 't' }

var errStat = errors.New("not the format of /proc/PID/stat")

// parseStat reads /proc/PID/stat. The name in its parentheses may itself hold
// spaces and parentheses, but nothing after it does.
func parseStat(b []byte) (stat, error) {
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if open < 0 || end < open {
		return stat{}, errStat
	}
	// The manual counts fields from 1, and the third is the first after the name.
	fields := bytes.Fields(b[end+1:])
	if len(fields) < 22-2 || len(fields[0]) != 1 {
		return stat{}, errStat
	}
	s := stat{comm: string(b[open+1 : end]), state: fields[0][0]}
	parent, err := strconv.Atoi(string(fields[4-3]))
	if err != nil {
		return stat{}, errStat
	}
	s.parent = parent
	for _, f := range [...]struct {
		number int
		to     *uint64
	}{{9, &s.flags}, {22, &s.start}, {50, &s.environStart}, {51, &s.environEnd}} {
		if f.number-3 >= len(fields) {
			break // kernels before 3.5 do not have the last ones
		}
		if *f.to, err = strconv.ParseUint(string(fields[f.number-3]), 10, 64); err != nil {
			return stat{}, errStat
		}
	}
	return s, nil
}

// parseRealUID finds the real uid in /proc/PID/status.
func parseRealUID(b []byte) (uint32, bool) {
	for line := range bytes.Lines(b) {
		if rest, ok := bytes.CutPrefix(line, []byte("Uid:")); ok {
			ids := bytes.Fields(rest)
			if len(ids) == 0 {
				return 0, false
			}
			uid, err := strconv.ParseUint(string(ids[0]), 10, 32)
			return uint32(uid), err == nil
		}
	}
	return 0, false
}
