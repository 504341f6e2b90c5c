// Package fake is an in-memory kind: what the loop's tests and benchmarks run
// on, and the smallest example of a kind that passes the conformance suite.
package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Name is the kind's name.
const Name = "fake"

// Provider keeps its sandboxes in memory. The zero value is not usable; see New.
type Provider struct {
	name string

	mu        sync.Mutex
	sandboxes map[string]providers.Sandbox
	calls     map[string]int
	faults    Faults
}

// Faults are hooks that run at the start of a call, outside the provider's
// lock, and whose error becomes the call's answer. Nil hooks do nothing.
type Faults struct {
	List func(ctx context.Context) error
	Get  func(ctx context.Context, id string) error
	// Stop may also give providers.ErrDryRun or any sentinel; the sandbox is
	// then left as it is.
	Stop func(ctx context.Context, id string) error
	// StopIgnored makes a stop answer success and change nothing.
	StopIgnored func(id string) bool
}

// New gives an empty provider of that name.
func New(name string) *Provider {
	return &Provider{name: name, sandboxes: map[string]providers.Sandbox{}, calls: map[string]int{}}
}

// Put adds or replaces a sandbox. Its Ref's provider and its kind are filled in.
func (p *Provider) Put(sb providers.Sandbox) {
	p.mu.Lock()
	defer p.mu.Unlock()
	sb.Provider, sb.Kind = p.name, Name
	p.sandboxes[sb.ID] = sb
}

// Delete makes a sandbox vanish, as if it had been removed by somebody else.
func (p *Provider) Delete(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.sandboxes, id)
}

// Inject replaces the faults.
func (p *Provider) Inject(f Faults) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = f
}

// Calls is how often op (list, get, stop) was called.
func (p *Provider) Calls(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[op]
}

func (p *Provider) begin(op string) Faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[op]++
	return p.faults
}

// List gives the sandboxes in the order of their ids.
func (p *Provider) List(ctx context.Context) ([]providers.Sandbox, error) {
	if f := p.begin("list"); f.List != nil {
		if err := f.List(ctx); err != nil {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]providers.Sandbox, 0, len(p.sandboxes))
	for _, id := range slices.Sorted(maps.Keys(p.sandboxes)) {
		all = append(all, p.sandboxes[id])
	}
	return all, nil
}

// Get gives one sandbox.
func (p *Provider) Get(ctx context.Context, id string) (providers.Sandbox, error) {
	if f := p.begin("get"); f.Get != nil {
		if err := f.Get(ctx, id); err != nil {
			return providers.Sandbox{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return providers.Sandbox{}, fmt.Errorf("get %s: %w", id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sb, ok := p.sandboxes[id]
	if !ok {
		return providers.Sandbox{}, fmt.Errorf("get %s: %w", id, providers.ErrNotFound)
	}
	return sb, nil
}

// Stop ends, removes or pauses one sandbox.
func (p *Provider) Stop(ctx context.Context, sb providers.Sandbox, o providers.StopOptions) error {
	f := p.begin("stop")
	if o.Volumes || o.Networks || o.Images || o.Snapshot {
		return fmt.Errorf("stop %s: volumes, networks, images, snapshot: %w", sb.ID, providers.ErrUnsupported)
	}
	if f.Stop != nil {
		if err := f.Stop(ctx, sb.ID); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("stop %s: %w", sb.ID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now, ok := p.sandboxes[sb.ID]
	if !ok {
		return fmt.Errorf("stop %s: %w", sb.ID, providers.ErrNotFound)
	}
	if now.Revision != sb.Revision {
		return fmt.Errorf("stop %s: %w", sb.ID, providers.ErrChanged)
	}
	if f.StopIgnored != nil && f.StopIgnored(sb.ID) {
		return nil
	}
	switch o.Action {
	case providers.ActionStop:
		now.State = providers.StateExited
		p.sandboxes[sb.ID] = now
	case providers.ActionRemove:
		delete(p.sandboxes, sb.ID)
	case providers.ActionPause:
		now.State = providers.StatePaused
		p.sandboxes[sb.ID] = now
	default:
		return fmt.Errorf("stop %s: action %q: %w", sb.ID, o.Action, providers.ErrUnsupported)
	}
	return nil
}
