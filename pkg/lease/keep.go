package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
)

// keepFor is for how long a lease that is over stays, after its end and after
// a sandbox last named it: as long as reaperd remembers a sandbox that it does
// not see any more.
const keepFor = 7 * 24 * time.Hour

// Load takes in what outlived an earlier daemon. Of one that was renewed or
// made since this one started, the newer counts. Their times are taken for the
// clock's whose origin that is. What cannot be a lease is left
// out, since it should neither kill nor keep; Prune gives its key.
func (b *Book) Load(kept []Lease, now time.Time, origin Origin) {
	now = wall(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.loaded = now
	for _, l := range kept {
		if by, known := l.Origin.To(origin); known {
			l.move(by)
		}
		l.Origin = Origin{}
		e := b.leases[l.Key]
		switch {
		case !policy.ValidLeaseKey(l.Key) || l.TTL <= 0 || l.Renewed.IsZero():
			if e == nil {
				b.gone[l.Key] = struct{}{}
			}
			continue
		// A time in the future is older than it says.
		case e != nil && (l.changed().After(now) || !l.changed().After(e.changed())):
			continue
		case e == nil:
			e = &entry{}
			b.leases[l.Key] = e
		}
		e.Lease = l
		b.see(e, now)
	}
}

// Unsaved gives each lease that changed since the last call, as it is now, by
// key; its times are of that origin. Whoever cannot save them gives them back to NotSaved.
func (b *Book) Unsaved(origin Origin) []Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed := make([]Lease, 0, len(b.unsaved))
	for _, key := range slices.Sorted(maps.Keys(b.unsaved)) {
		l := b.leases[key].Lease
		l.Origin = origin
		changed = append(changed, l)
	}
	clear(b.unsaved)
	return changed
}

// NotSaved has Unsaved give these again, as they are by then.
func (b *Book) NotSaved(ls []Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range ls {
		if b.leases[l.Key] != nil {
			b.unsaved[l.Key] = struct{}{}
		}
	}
}

// Prune forgets for good the leases that are over for 7 days and that no
// sandbox has named for 7 days, and gives the keys to delete from the store.
// They are to be deleted before Unsaved is asked again: one may be made anew
// at any time.
func (b *Book) Prune(now time.Time) (keys []string) {
	now = wall(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(now, keepFor, func(*entry) bool { return true })
	for key := range b.gone {
		if b.leases[key] == nil {
			keys = append(keys, key)
		}
	}
	clear(b.gone)
	slices.Sort(keys)
	return keys
}

// drop takes out those of which is holds, that are over and unnamed for that
// long.
func (b *Book) drop(now time.Time, long time.Duration, is func(*entry) bool) {
	if b.loaded.After(now) {
		b.loaded = now
	}
	for key, e := range b.leases {
		b.see(e, now)
		if now.Sub(e.over()) >= long && now.Sub(e.named) >= long && now.Sub(b.loaded) >= long && is(e) {
			delete(b.leases, key)
			delete(b.unsaved, key)
			b.gone[key] = struct{}{}
		}
	}
}

const (
	// idleFor is for how long a lease has to be over and unnamed to make room
	// for another.
	idleFor = time.Hour
	// roomEvery bounds how often room is looked for among so many.
	roomEvery = time.Minute
)

// room says whether there is room for one more lease. Where there is none it
// lets go of what is over and unnamed for an hour, or a client that made too
// many would shut the others out for a week. To the judging a lease that has
// ended is nothing else than one that never was, so that kills nothing; a
// forgotten one is something else, and stays.
func (b *Book) room(now time.Time) bool {
	if len(b.leases) < most {
		return true
	}
	if since := now.Sub(b.madeRoom); since >= 0 && since < roomEvery {
		return false
	}
	b.madeRoom = now
	b.drop(now, idleFor, func(e *entry) bool { return e.Forgotten.IsZero() })
	return len(b.leases) < most
}

// Move has all times follow a clock that was set by so much, so that every
// lease ends as long from now as before.
func (b *Book) Move(by time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, e := range b.leases {
		e.move(by)
		if !e.named.IsZero() {
			e.named = e.named.Add(by)
		}
		b.unsaved[key] = struct{}{}
	}
	if !b.loaded.IsZero() {
		b.loaded = b.loaded.Add(by)
	}
}
