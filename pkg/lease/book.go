package lease

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/reaperd/reaperd/pkg/policy"
)

// most is how many leases there may be before new ones are refused, so that a
// client that makes keys without end costs a bounded amount of memory.
const most = 100_000

// Book holds all leases. It is safe for concurrent use.
type Book struct {
	mu     sync.Mutex
	maxTTL time.Duration
	leases map[string]*entry
	// unsaved are the keys of the leases that changed since Unsaved gave them.
	unsaved map[string]struct{}
	// loaded is when leases of an earlier daemon came in: before that nobody
	// could say which of them a sandbox names.
	loaded time.Time
	// gone are leases that are in the store and not here.
	gone map[string]struct{}
	// madeRoom is when room for new ones was last looked for.
	madeRoom time.Time
}

type entry struct {
	Lease
	named time.Time // when a sandbox last named it
}

// NewBook makes an empty one. A lease cannot be asked for longer than maxTTL.
func NewBook(maxTTL time.Duration) *Book {
	return &Book{
		maxTTL: maxTTL, leases: map[string]*entry{},
		unsaved: map[string]struct{}{}, gone: map[string]struct{}{},
	}
}

// SetMaxTTL bounds what is asked for from now on. Leases that exist keep what
// they were promised until they are renewed.
func (b *Book) SetMaxTTL(maxTTL time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.maxTTL = maxTTL
}

// Renew makes the lease, or has it end one ttl from now; a longer ttl than the
// book allows is cut to that. One that was released or forgotten is made anew.
// The errors are ErrKey, ErrTTL and ErrFull.
func (b *Book) Renew(key string, ttl time.Duration, by string, now time.Time) (l Lease, created bool, err error) {
	now = wall(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.leases[key]
	switch {
	case !policy.ValidLeaseKey(key):
		return Lease{}, false, wrap("renew", key, ErrKey)
	case ttl <= 0:
		return Lease{}, false, wrap("renew", key, ErrTTL)
	case e == nil && !b.room(now):
		return Lease{}, false, wrap("renew", key, ErrFull)
	case e == nil:
		e = &entry{Lease: Lease{Key: key, Created: now}}
		b.leases[key] = e
		created = true
	case !e.Released.IsZero() || !e.Forgotten.IsZero():
		e.Created, e.Released, e.Forgotten = now, time.Time{}, time.Time{}
		created = true
	}
	e.pull(now)
	e.Renewed, e.TTL, e.By = now, min(ttl, b.maxTTL), by
	b.unsaved[key] = struct{}{}
	return e.Lease, created, nil
}

// Release lets go of the lease: what it covers is due at once. To release it
// again changes nothing. One that was forgotten is ErrUnknown, as is one that
// never was.
func (b *Book) Release(key, by string, now time.Time) (Lease, error) {
	now = wall(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.find("release", key)
	if err != nil {
		return Lease{}, err
	}
	b.see(e, now)
	switch {
	case !e.Forgotten.IsZero():
		return Lease{}, wrap("release", key, ErrUnknown)
	case e.Released.IsZero():
		e.Released, e.By = now, by
		b.unsaved[key] = struct{}{}
	}
	return e.Lease, nil
}

// Forget takes the lease out of the judging and kills nothing: it stays as a
// mark, so that what names it has no deadline by it rather than one for never
// having beaten. To forget it again changes nothing.
func (b *Book) Forget(key, by string, now time.Time) error {
	now = wall(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.find("forget", key)
	if err != nil {
		return err
	}
	b.see(e, now)
	if e.Forgotten.IsZero() {
		e.Forgotten, e.By = now, by
		b.unsaved[key] = struct{}{}
	}
	return nil
}

// Get gives the lease, also one that is over or forgotten.
func (b *Book) Get(key string) (Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, err := b.find("look up", key)
	if err != nil {
		return Lease{}, err
	}
	return e.Lease, nil
}

// All gives the leases by key, also those that are over or forgotten.
func (b *Book) All() []Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Lease, 0, len(b.leases))
	for _, key := range slices.Sorted(maps.Keys(b.leases)) {
		all = append(all, b.leases[key].Lease)
	}
	return all
}

// Cover gives what the lease of that key is to the judging of a sandbox that
// names it, and notes that one does. It gives nil where there is no such lease
// or there can be none. A forgotten one gives no end.
func (b *Book) Cover(key string, now time.Time) []policy.Lease {
	now = wall(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.leases[key]
	if e == nil {
		return nil
	}
	b.see(e, now)
	e.named = now
	if !e.Forgotten.IsZero() {
		return []policy.Lease{{Key: key}}
	}
	return []policy.Lease{{Key: key, Ends: e.Ends(), Released: e.Released}}
}

// Count gives how many leases are in each state.
func (b *Book) Count(now time.Time) map[State]int {
	now = wall(now)
	b.mu.Lock()
	defer b.mu.Unlock()
	n := map[State]int{}
	for _, s := range States() {
		n[s] = 0
	}
	for _, e := range b.leases {
		b.see(e, now)
		n[e.State(now)]++
	}
	return n
}

func (b *Book) find(op, key string) (*entry, error) {
	if !policy.ValidLeaseKey(key) {
		return nil, wrap(op, key, ErrKey)
	}
	e := b.leases[key]
	if e == nil {
		return nil, wrap(op, key, ErrUnknown)
	}
	return e, nil
}

// see looks at a lease at now. Whoever asks about the present does it through
// this, so that a clock set back is noticed first.
func (b *Book) see(e *entry, now time.Time) {
	if e.pull(now) {
		b.unsaved[e.Key] = struct{}{}
	}
	if e.named.After(now) {
		e.named = now
	}
}

// wall leaves of an instant what a restart would: without the monotonic
// reading, by which two instants compare as if no clock were ever set.
func wall(now time.Time) time.Time { return now.UTC() }

// wrap says of which lease err is. A key that cannot be one may be of any
// length.
func wrap(op, key string, err error) error { return fmt.Errorf("%s lease %.70q: %w", op, key, err) }
