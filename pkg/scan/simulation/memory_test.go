package simulation_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/store"
)

// disk is what outlives every daemon: the state as pkg/store keeps it, in
// memory. The world's lock guards it.
type disk struct {
	pulses  map[pulseKey]store.Pulse
	history []store.Entry
	pruned  []store.Entry // of the history, for the oracle's account
	leases  map[string]lease.Lease
	lastID  int64
	calls   map[string]int // by what was called
	// failing and hanging are how likely a use fails, or does not come back,
	// until then.
	until            time.Duration
	failing, hanging float64
}

type pulseKey struct{ provider, id, revision string }

func newDisk() *disk {
	return &disk{pulses: map[pulseKey]store.Pulse{}, leases: map[string]lease.Lease{}, calls: map[string]int{}}
}

// memory is one daemon's way to the disk: a scan.Memory.
type memory struct {
	*disk
	life *life
}

var errDisk = errors.New("simulated: the disk is full")

// use makes one use of the disk, in which f is what it does, at one instant.
func (m *memory) use(ctx context.Context, op, what string, f func() error) error {
	w := m.life.world
	w.mu.Lock()
	if m.life.dead || m.life.dies("before "+op) {
		w.mu.Unlock()
		return errDead
	}
	m.calls[op+what]++
	l := luckOf(w.seed, "disk", op, what, strconv.Itoa(m.calls[op+what]))
	w.mu.Unlock()
	// What is done under a mutex takes no time, since virtual time does not pass
	// as long as somebody waits for one.
	locked := op == opSave || op == opSaveLeases || op == opDeleteLeases
	if !locked && !pass(ctx, l.next().between(10*time.Microsecond, 10*time.Millisecond)) {
		return ctx.Err()
	}
	w.mu.Lock()
	ill := w.clock.Boot() < m.until
	hangs, fails := ill && !locked && l.next().next().chance(m.hanging), ill && l.chance(m.failing)
	err := errDead
	switch {
	case m.life.dead:
	case hangs && l.chance(0.5), !hangs && !fails: // what is given up may have been made
		err = f()
	case fails:
		err = errDisk
	}
	m.life.dies("after " + op)
	w.mu.Unlock()
	if hangs {
		err = hang(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m.life.remembers(op, err == nil)
	return err
}

// The uses of the disk, which are also steps at which a daemon can crash.
const (
	opLoad         = "load"
	opSave         = "save"
	opLoadLeases   = "load leases"
	opSaveLeases   = "save leases"
	opDeleteLeases = "delete leases"
	opBegin        = "begin"
	opEnd          = "end"
	opPrune        = "prune"
)

// remembers notes whether what is heard would outlive the daemon: as long as
// it would not, nobody may be ended for silence.
func (l *life) remembers(op string, ok bool) {
	switch op {
	case opLoad, opSave, opLoadLeases, opSaveLeases:
		if ok && l.outages[op] {
			delete(l.outages, op)
			l.heard = l.clock.Boot()
		} else if !ok {
			if len(l.outages) == 0 {
				l.deaf = l.clock.Boot()
			}
			l.outages[op] = true
		}
	}
}

// Pulses implements scan.Memory.
func (m *memory) Pulses(ctx context.Context, provider string) (all []store.Pulse, err error) {
	err = m.use(ctx, opLoad, provider, func() error {
		for k, p := range m.pulses {
			if k.provider == provider {
				all = append(all, p)
			}
		}
		slices.SortFunc(all, func(a, b store.Pulse) int {
			return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Revision, b.Revision))
		})
		return nil
	})
	return all, err
}

// SavePulses implements scan.Memory.
func (m *memory) SavePulses(ctx context.Context, ps []store.Pulse) error {
	return m.use(ctx, opSave, ps[0].Provider, func() error {
		for _, p := range ps {
			m.pulses[pulseKey{p.Provider, p.ID, p.Revision}] = p
			if b := m.life.place(p.Provider).incarnation(p.ID, p.Revision); b != nil {
				b.keep(p.State)
			}
		}
		return nil
	})
}

// PrunePulses implements scan.Memory.
func (m *memory) PrunePulses(ctx context.Context, lastSeenBefore time.Time) (n int, err error) {
	err = m.use(ctx, opPrune, "", func() error {
		for k, p := range m.pulses {
			if !p.LastSeen.IsZero() && p.LastSeen.Before(lastSeenBefore) {
				delete(m.pulses, k)
				n++
			}
		}
		return nil
	})
	return n, err
}

// Begin implements scan.Memory.
func (m *memory) Begin(ctx context.Context, e store.Entry) (id int64, err error) {
	err = m.use(ctx, opBegin, e.SandboxID, func() error {
		for i := range m.history { // it may be there already
			if was := &m.history[i]; was.SandboxID == e.SandboxID && was.Revision == e.Revision && was.Provider == e.Provider && was.Begun.Equal(e.Begun) {
				id = was.ID
				if was.Ended.IsZero() && !e.Ended.IsZero() {
					was.Ended, was.Outcome, was.Error, was.UptimeSeconds, was.CostDollars = e.Ended, e.Outcome, e.Error, e.UptimeSeconds, e.CostDollars
					m.noted(*was)
				}
				return nil
			}
		}
		m.lastID++
		e.ID = m.lastID
		id = e.ID
		m.history = append(m.history, e)
		m.noted(e)
		return nil
	})
	return id, err
}

// End implements scan.Memory.
func (m *memory) End(ctx context.Context, id int64, ended time.Time, outcome, errText string, uptime, cost float64) error {
	return m.use(ctx, opEnd, strconv.FormatInt(id, 10), func() error {
		for i := range slices.Backward(m.history) {
			e := &m.history[i]
			switch {
			case e.ID != id:
				continue
			case e.Ended.IsZero():
				e.Ended, e.Outcome, e.Error, e.UptimeSeconds, e.CostDollars = ended, outcome, errText, uptime, cost
				m.noted(*e)
				return nil
			case !e.Ended.Equal(ended) || e.Outcome != outcome:
				return fmt.Errorf("%d had ended before, %s", id, e.Outcome)
			}
			return nil
		}
		return fmt.Errorf("there is no entry %d", id)
	})
}

// Unresolved implements scan.Memory.
func (m *memory) Unresolved(ctx context.Context, provider string) (open []store.Entry, err error) {
	err = m.use(ctx, opLoad, provider, func() error {
		for _, e := range m.history {
			if e.Provider == provider && e.Ended.IsZero() {
				open = append(open, e)
			}
		}
		return nil
	})
	return open, err
}

// PruneHistory implements scan.Memory.
func (m *memory) PruneHistory(ctx context.Context, before time.Time) (n int, err error) {
	err = m.use(ctx, opPrune, "", func() error {
		m.history = slices.DeleteFunc(m.history, func(e store.Entry) bool {
			old := e.Begun.Before(before) && !e.Ended.IsZero()
			if old {
				n++
				m.pruned = append(m.pruned, e)
			}
			return old
		})
		return nil
	})
	return n, err
}
