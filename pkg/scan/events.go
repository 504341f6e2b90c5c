package scan

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/policy"
	"github.com/reaperd/reaperd/pkg/providers"
)

const (
	// eventPause lets what comes together be looked at together: a container
	// that is removed tells of it three times.
	eventPause = 50 * time.Millisecond
	// mostNews is how many changes are looked at one by one. More are cheaper
	// to list.
	mostNews = 256
	// watchedLong is after how long a broken stream counts as one that worked.
	watchedLong = time.Minute
)

// news is what there is to look at between two lists.
type news struct {
	stir chan struct{} // holds one if there is any

	mu      sync.Mutex
	changed map[string]bool            // ids
	judged  []func(*policy.Facts) bool // whom to judge again
	flood   bool                       // too much for one by one
}

func newNews() *news {
	return &news{stir: make(chan struct{}, 1), changed: map[string]bool{}}
}

// change notes that a sandbox may have changed. It does not block.
func (n *news) change(id string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.changed) >= mostNews && !n.changed[id] {
		n.flood = true
	} else {
		n.changed[id] = true
	}
	n.wake()
}

// judge has those judged again whom f says yes to, without another look.
func (n *news) judge(f func(*policy.Facts) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.judged) >= mostNews {
		n.flood = true
	} else {
		n.judged = append(n.judged, f)
	}
	n.wake()
}

func (n *news) wake() {
	select {
	case n.stir <- struct{}{}:
	default:
	}
}

// take gives the news and forgets them.
func (n *news) take() (changed []string, judged []func(*policy.Facts) bool, flood bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.changed {
		changed = append(changed, id)
	}
	judged, flood = n.judged, n.flood
	n.changed, n.judged, n.flood = map[string]bool{}, nil, false
	return changed, judged, flood
}

// watch follows the provider's events, if it has any, until ctx or stop ends
// it. What happens while the stream is broken, the next list tells.
func (s *Scanner) watch(ctx context.Context) (stop func()) {
	w, ok := providers.As[providers.Watcher](s.real)
	if !ok {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var over sync.WaitGroup
	over.Go(func() { s.follow(ctx, w) })
	return func() { cancel(); over.Wait() }
}

func (s *Scanner) follow(ctx context.Context, w providers.Watcher) {
	pauses := pauses(s.steady, time.Minute)
	for broken := false; ; {
		began := s.clock.Boot()
		_, err := call(ctx, s, opWatch, 0, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, w.Watch(ctx, s.news.change)
		})
		if ctx.Err() != nil {
			return
		}
		if s.clock.Boot()-began >= watchedLong {
			broken = false
			pauses.Reset()
		}
		if !broken {
			broken = true
			s.log.Info("the provider's events broke off: until they are back, its lists tell of changes", zap.Error(err))
		}
		if wait(ctx, s.clock, pauses.NextBackOff(), rousers{}) != elapsed {
			return
		}
	}
}

// attend looks at what changed since the last list, and acts on what is due by
// it. relist says that too much changed for that.
func (s *Scanner) attend(ctx context.Context) (r Report, relist bool) {
	changed, judged, flood := s.news.take()
	if !s.agenda.known {
		return Report{}, false // it cannot be listed: nothing is acted upon
	}
	if flood {
		return Report{}, true
	}
	s.refresh(ctx, changed)
	for now := s.clock.Now(); len(judged) > 0; judged = judged[1:] {
		s.agenda.recheck(now, judged[0])
	}
	return s.Wake(ctx), false
}

// refresh brings the inventory up to date with the sandboxes of these ids.
func (s *Scanner) refresh(ctx context.Context, ids []string) {
	var looks []policy.Item
	for _, id := range ids {
		if s.pulses.over(id) { // that was reaperd itself
			continue
		}
		var it policy.Item
		it.Facts.Provider, it.Facts.ID = s.name, id
		looks = append(looks, it)
	}
	var mu sync.Mutex
	s.each(ctx, looks, func(ctx context.Context, it policy.Item) {
		if s.renewing() || s.unfit() {
			return
		}
		sb, err := s.glance(ctx, it.Facts.ID)
		if err == nil {
			s.sample(ctx, &sb, false)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, providers.ErrNotFound):
			s.agenda.drop(it.Facts.ID)
		case err == nil:
			m := s.moment()
			facts := s.saw(sb, m)
			s.agenda.put(policy.Item{Facts: facts, Decision: s.judge(&facts, m)})
		}
	})
}

// saw joins one sandbox, looked at by itself, with what is remembered of it,
// and tells if it came back after it had been ended.
func (s *Scanner) saw(sb providers.Sandbox, m moment) policy.Facts {
	facts, back := s.pulses.look(sb, m)
	if back {
		s.metrics.resurrected.WithLabelValues(s.name).Inc()
		s.log.Warn("a sandbox that was reclaimed runs again",
			zap.String("sandbox", sb.ID), zap.String("name", sb.Name), zap.String("state", string(sb.State)))
	}
	return facts
}

// checkBack looks again at those that had been ended and are listed as alive,
// since a list may go on showing what is gone.
func (s *Scanner) checkBack(ctx context.Context, listed []providers.Sandbox) {
	looks := make([]policy.Item, len(listed))
	for i := range listed {
		looks[i].Facts.Sandbox = listed[i]
	}
	s.each(ctx, looks, func(ctx context.Context, it policy.Item) {
		sb, err := s.glance(ctx, it.Facts.ID)
		if err == nil && sb.Revision == it.Facts.Revision {
			s.saw(sb, s.moment())
		}
	})
}
