package providers

import "context"

// DryRun wraps p so that nothing can be changed through it: Stop gives
// ErrDryRun, which no caller can mistake for success. The optional interfaces,
// all of which only read, are reached through it with As.
func DryRun(p Provider) Provider { return dryRun{p} }

type dryRun struct{ Provider }

func (d dryRun) Stop(context.Context, Sandbox, StopOptions) error { return ErrDryRun }

// Unwrap lets As find the optional interfaces of what is wrapped.
func (d dryRun) Unwrap() Provider { return d.Provider }
