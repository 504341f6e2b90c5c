package process

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/reaperd/reaperd/pkg/providers"
)

const available = true

// Provider finds and ends the sandboxes in the local process table.
type Provider struct {
	name       string
	table      *table
	unreadable atomic.Int64

	// Only inside a turn of the table.
	wall        wall
	boot        string
	generations map[key]generation
}

var (
	_ providers.BlindSpot  = (*Provider)(nil)
	_ providers.Identifier = (*Provider)(nil)
)

// New gives a provider of that name.
func New(name string) *Provider {
	return &Provider{name: name, table: newTable(), wall: newWall(), generations: map[key]generation{}}
}

func open(name string) (providers.Provider, error) { return New(name), nil }

// List gives the sandboxes that have a living member, in the order of their ids.
func (p *Provider) List(ctx context.Context) ([]providers.Sandbox, error) {
	var all []providers.Sandbox
	var failed error
	_, err := p.table.walk(ctx, query{then: func(c *census) {
		if failed = p.prepare(); failed != nil {
			return
		}
		for k := range p.generations {
			if len(c.members[k]) == 0 {
				delete(p.generations, k)
			}
		}
		fleeting := p.fleeting(c)
		all = make([]providers.Sandbox, 0, len(c.members))
		for k := range c.members {
			all = append(all, p.sandbox(k, c, fleeting[k]))
		}
		p.unreadable.Store(int64(c.unreadable))
	}})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	slices.SortFunc(all, func(a, b providers.Sandbox) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Get looks for one sandbox's members afresh.
func (p *Provider) Get(ctx context.Context, id string) (providers.Sandbox, error) {
	sb, err := p.find(ctx, id, nil)
	if err != nil {
		return providers.Sandbox{}, fmt.Errorf("get %s: %w", id, err)
	}
	return sb, nil
}

// find makes a walk for one sandbox. visit may be nil.
func (p *Provider) find(ctx context.Context, id string, visit func(*member, int) error) (sb providers.Sandbox, err error) {
	if err := ctx.Err(); err != nil {
		return sb, err
	}
	k, ok := parseKey(id)
	if !ok {
		return sb, providers.ErrNotFound
	}
	var failed error
	c, err := p.table.walk(ctx, query{only: &k, visit: visit, then: func(c *census) {
		if len(c.members[k]) == 0 {
			delete(p.generations, k)
			failed = providers.ErrNotFound
			return
		}
		if failed = p.prepare(); failed == nil {
			sb = p.sandbox(k, c, p.fleeting(c)[k])
		}
	}})
	if err != nil {
		return providers.Sandbox{}, err
	}
	c.close()
	return sb, failed
}

// Unreadable is how many processes the last complete List may not look at.
func (p *Provider) Unreadable() int { return int(p.unreadable.Load()) }

// Identity is one boot of one machine, and the PID namespace seen from here.
func (p *Provider) Identity(ctx context.Context) (string, error) {
	var identity string
	var failed error
	// A walk for nobody: its turn guards what prepare fills in.
	_, err := p.table.walk(ctx, query{only: &key{}, then: func(*census) {
		failed = p.prepare()
		identity = p.boot + "/" + p.table.space
	}})
	if err == nil {
		err = failed
	}
	if err != nil {
		return "", fmt.Errorf("identify the process table: %w", err)
	}
	return identity, nil
}

// prepare brings up to date what sandbox needs.
func (p *Provider) prepare() (err error) {
	if p.boot == "" {
		if p.boot, err = bootID(); err != nil {
			return err
		}
	}
	return p.wall.measure()
}

// moment is longer than a process lives that only forks and exits.
const moment = 5 * time.Millisecond

// fleeting finds the sandboxes none of whose members is known or lives for
// another moment. It waits that moment once, and only if there are unknown ones.
func (p *Provider) fleeting(c *census) map[key]bool {
	found := map[key]bool{}
	for k, members := range c.members {
		if !p.generations[k].knows(members) {
			found[k] = true
		}
	}
	if len(found) == 0 {
		return nil
	}
	<-time.After(moment)
	for k := range found {
		found[k] = !slices.ContainsFunc(c.members[k], func(m member) bool {
			s, err := p.table.files.stat(unix.AT_FDCWD, "/proc/"+strconv.Itoa(m.pid)+"/")
			return err == nil && s.start == m.start && !s.dead()
		})
	}
	return found
}

// sandbox describes the sandbox of these members and remembers them.
func (p *Provider) sandbox(k key, c *census, fleeting bool) providers.Sandbox {
	members := c.members[k]
	g := p.generations[k].next(members, fleeting)
	p.generations[k] = g
	oldest := &members[0]
	pid := strconv.Itoa(oldest.pid)
	tags := tagSet{tags: map[string]string{}}
	stopped := true
	for i := range members {
		tags.add(members[i].tags)
		stopped = stopped && members[i].stopped
	}
	sb := providers.Sandbox{
		Ref:      providers.Ref{Provider: p.name, ID: k.String()},
		Kind:     Name,
		Name:     k.id,
		Image:    oldest.image("/proc/" + pid),
		Endpoint: Name + "://" + pid,
		State:    providers.StateRunning,
		RawState: "running",
		Tags:     tags.tags,
		Created:  p.wall.at(g.created),
		Revision: g.revision(p.boot),
		Self:     c.self[k],
		Extra:    map[string]string{"processes": strconv.Itoa(len(members))},
	}
	sb.Started = sb.Created
	if stopped {
		sb.State, sb.RawState = providers.StatePaused, "stopped"
	}
	// Which of two values holds is not for us to guess: one may be what a
	// policy spares. An unknown state keeps.
	if tags.disputed != "" {
		sb.State, sb.RawState = providers.StateUnknown, "members disagree on tag "+tags.disputed
	}
	return sb
}
