package scan_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reaperd/reaperd/pkg/lease"
	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/scan"
	"github.com/reaperd/reaperd/pkg/store"
)

// beating is a policy under which a sandbox has to give a sign of life every
// five minutes, if it ever gave one or names a lease.
const beating = `
version: 1
policies:
  - name: beats
    match: {tags: {env: dev}}
    limits: {heartbeat: {timeout: 5m}}
    action: {type: remove}
`

const leased = "reaperd.lease"

func (r *rig) beat(id string) {
	r.t.Helper()
	if _, err := r.loop.Heartbeats().Beat(providers.Ref{Provider: "mem", ID: id}, "test"); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) renew(key string, ttl time.Duration) {
	r.t.Helper()
	if _, _, err := r.loop.Heartbeats().Renew(key, ttl, "test"); err != nil {
		r.t.Error(err)
	}
}

// hourly lists every hour, so that what happens sooner is not a list's doing.
func hourly() setup { return setup{policies: beating, schedule: "@every 1h"} }

func TestWhoFallsSilentGoesOneTimeoutLater(t *testing.T) {
	bubble(t, hourly(), func(t *testing.T, r *rig) {
		r.mem.Put(r.up("beats", time.Minute))
		r.mem.Put(r.up("silent", time.Minute))
		r.mem.Put(r.up("never", time.Minute))
		defer r.run()()
		synctest.Wait()
		r.beat("silent")
		for range 20 {
			r.beat("beats")
			pass(time.Minute)
		}
		equal(t, "left", ids(t, r.mem), "beats never")
		r.want(1, "reclaims_total", "reason=heartbeat_lost", "outcome=reclaimed")
		equal(t, "gets", r.mem.Calls("get"), 2) // one look at the door and the proof: beats cost no call
		late, _, _ := r.sample("reclaim_lateness_seconds")
		if late > 0.1 {
			t.Errorf("late by %v s", late)
		}
	})
}

func TestALeaseKeepsWhatNamesIt(t *testing.T) {
	bubble(t, hourly(), func(t *testing.T, r *rig) {
		for _, key := range []string{"kept", "ended", "let-go", "forgotten", "unheard-of"} {
			r.mem.Put(r.up(key, time.Minute, tagged(leased, key)))
		}
		defer r.run()()
		synctest.Wait()
		for _, key := range []string{"kept", "ended", "let-go", "forgotten"} {
			r.renew(key, 10*time.Minute)
		}
		if err := r.loop.Heartbeats().Forget("forgotten", "test"); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		if _, err := r.loop.Heartbeats().Release("let-go", "test"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		synctest.Wait()
		equal(t, "left once it was let go", ids(t, r.mem), "ended forgotten kept unheard-of")
		pass(5 * time.Minute)
		equal(t, "left after a timeout", ids(t, r.mem), "ended forgotten kept")
		r.renew("kept", 24*time.Hour)
		pass(23 * time.Hour)
		equal(t, "left after a day", ids(t, r.mem), "forgotten kept")
		r.want(1, "reclaims_total", "reason=lease_released", "outcome=reclaimed")
		r.want(1, "reclaims_total", "reason=lease_expired", "outcome=reclaimed")
		r.want(1, "reclaims_total", "reason=heartbeat_never", "outcome=reclaimed")
		r.want(1, "leases", "state=live")
		r.want(1, "leases", "state=forgotten")
	})
}

func TestAReleaseIsNotBraked(t *testing.T) {
	s := hourly()
	s.brake = scan.BrakeOptions{Window: time.Hour, MinCount: 1, Confirm: 30 * time.Minute}
	bubble(t, s, func(t *testing.T, r *rig) {
		for _, id := range []string{"a", "b", "c", "d"} {
			r.mem.Put(r.up(id, time.Minute, tagged(leased, "job")))
		}
		defer r.run()()
		synctest.Wait()
		r.renew("job", time.Hour)
		pass(time.Second)
		if _, err := r.loop.Heartbeats().Release("job", "test"); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		equal(t, "left", ids(t, r.mem), "")
		r.want(0, "held_sandboxes", "cause=brake")
	})
}

func TestASandboxMayKnowOnlyTheBeginningOfItsId(t *testing.T) {
	bubble(t, hourly(), func(t *testing.T, r *rig) {
		r.mem.Put(r.up("0123456789ab0000", time.Minute))
		r.mem.Put(r.up("0123456789ac0000", time.Minute))
		defer r.run()()
		synctest.Wait()
		h := r.loop.Heartbeats()
		ref, err := h.Beat(providers.Ref{Provider: "mem", ID: "0123456789ab"}, "test")
		if err != nil || ref.ID != "0123456789ab0000" {
			t.Errorf("%v, %v", ref, err)
		}
		for what, bad := range map[string]providers.Ref{
			"another":          {Provider: "mem", ID: "0123456789ff"},
			"too short":        {Provider: "mem", ID: "0123456789a"},
			"another provider": {Provider: "other", ID: "0123456789ab"},
		} {
			if _, err := h.Beat(bad, "test"); !errors.Is(err, providers.ErrNotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
		r.mem.Put(r.up("0123456789ab1111", time.Minute))
		pass(time.Hour) // it is listed
		synctest.Wait()
		if _, err := h.Beat(providers.Ref{Provider: "mem", ID: "0123456789ab"}, "test"); !errors.Is(err, providers.ErrNotFound) {
			t.Errorf("of two: %v", err)
		}
		r.want(4, "heartbeats_total", "outcome=unknown")
		r.want(1, "heartbeats_total", "outcome=accepted")
	})
}

// Beats and leases outlive a daemon, and who could not beat while there was
// none has a full timeout after it.
func TestHeartbeatsOutliveTheDaemon(t *testing.T) {
	lives(t, func(t *testing.T, l *lasting) {
		l.policies = beating
		r := &rig{t: t, clock: l.clock}
		l.mem.Put(r.up("beats", time.Minute))
		l.mem.Put(r.up("leased", time.Minute, tagged(leased, "job")))
		l.mem.Put(r.up("let-go", time.Minute, tagged(leased, "other")))
		d := l.start(t)
		d.beat("beats")
		d.renew("job", 30*time.Minute)
		d.renew("other", 30*time.Minute)
		pass(2 * time.Second)
		d.stop()
		pass(20 * time.Minute) // nobody hears
		d = l.start(t)
		pass(4 * time.Minute)
		equal(t, "left within the timeout", ids(t, l.mem), "beats leased let-go")
		if _, err := d.loop.Heartbeats().Release("other", "test"); err != nil {
			t.Error(err)
		}
		pass(time.Second)
		equal(t, "left after the release", ids(t, l.mem), "beats leased")
		pass(2 * time.Minute)
		equal(t, "left after the timeout", ids(t, l.mem), "leased")
		pass(5 * time.Minute)
		equal(t, "left after the lease", ids(t, l.mem), "")
		d.want(1, "reclaims_total", "reason=heartbeat_lost", "outcome=reclaimed")
		d.want(1, "reclaims_total", "reason=lease_expired", "outcome=reclaimed")
		words := map[string]string{}
		all, err := d.store.History(t.Context(), store.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			words[e.SandboxID] = e.By
		}
		equal(t, "on whose word", words, map[string]string{
			"beats": "policy", "leased": "policy", "let-go": "test, who released the lease other",
		})
	})
}

// What cannot be kept would be forgotten by a restart: until it can be again,
// nobody is judged by it, and then each has a full timeout.
func TestAStateThatCannotKeepHeartbeatsEndsNobodyByThem(t *testing.T) {
	for _, op := range []string{"save", "save leases", "leases"} {
		t.Run(op, func(t *testing.T) {
			lives(t, func(t *testing.T, l *lasting) {
				l.policies = beating
				r := &rig{t: t, clock: l.clock}
				l.mem.Put(r.up("beats", time.Minute))
				l.mem.Put(r.up("leased", time.Minute, tagged(leased, "job")))
				d := l.start(t, func(f *faulty) { f.fail(op, 1800) })
				d.beat("beats")
				d.renew("job", time.Minute)
				pass(29 * time.Minute)
				equal(t, "left", ids(t, l.mem), "beats leased")
				d.want(0, "hears_heartbeats")
				pass(5 * time.Minute)
				equal(t, "left within a timeout after it", ids(t, l.mem), "beats leased")
				d.want(1, "hears_heartbeats")
				pass(2 * time.Minute)
				equal(t, "left", ids(t, l.mem), "")
			})
		})
	}
}

func TestWhereNobodyListensNobodyIsSilent(t *testing.T) {
	bubble(t, setup{policies: beating}, func(t *testing.T, r *rig) {
		r.mem.Put(r.up("leased", time.Hour, tagged(leased, "job")))
		r.once() // a single scan, which listens to nothing
		pass(time.Hour)
		r.once()
		equal(t, "left", ids(t, r.mem), "leased")
		r.want(0, "hears_heartbeats")
	})
}

func TestWhatCannotBeALease(t *testing.T) {
	bubble(t, setup{}, func(t *testing.T, r *rig) {
		h := r.loop.Heartbeats()
		if _, _, err := h.Renew("a b", time.Minute, "test"); !errors.Is(err, lease.ErrKey) {
			t.Error(err)
		}
		if _, err := h.Release("none", "test"); !errors.Is(err, lease.ErrUnknown) {
			t.Error(err)
		}
		r.want(1, "heartbeats_total", "outcome=malformed")
		r.want(1, "heartbeats_total", "outcome=unknown")
	})
}
