package simulation_test

import (
	"context"
	"maps"
	"slices"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/store"
)

// Leases implements scan.Memory.
func (m *memory) Leases(ctx context.Context) (all []lease.Lease, err error) {
	err = m.use(ctx, opLoadLeases, "", func() error {
		for _, key := range slices.Sorted(maps.Keys(m.leases)) {
			all = append(all, m.leases[key])
		}
		return nil
	})
	return all, err
}

// SaveLeases implements scan.Memory.
func (m *memory) SaveLeases(ctx context.Context, ls []lease.Lease) error {
	return m.use(ctx, opSaveLeases, "", func() error {
		for _, l := range ls {
			m.leases[l.Key] = l
		}
		return nil
	})
}

// DeleteLeases implements scan.Memory.
func (m *memory) DeleteLeases(ctx context.Context, keys []string) error {
	return m.use(ctx, opDeleteLeases, "", func() error {
		for _, key := range keys {
			delete(m.leases, key)
		}
		return nil
	})
}

// noted tells of an entry, and counts it for the life that wrote it.
func (m *memory) noted(e store.Entry) {
	if !e.Ended.IsZero() {
		m.life.resolved[e.Outcome]++
	}
	if b := m.life.place(e.Provider).incarnation(e.SandboxID, e.Revision); b != nil {
		if e.Ended.IsZero() {
			b.tell("history %d: about to %s for %s, %s, due %s", e.ID, e.Action, e.Policy, e.Reason, e.Due.Format("01-02 15:04:05"))
		} else {
			b.tell("history %d: %s %s", e.ID, e.Outcome, e.Error)
		}
	}
}
