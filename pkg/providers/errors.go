package providers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"time"
)

// The answers a provider gives when it cannot do as asked. Kinds wrap them
// with the operation and the object; callers test with errors.Is.
var (
	// ErrNotFound says that the sandbox is gone.
	ErrNotFound = errors.New("sandbox not found")
	// ErrChanged says that the id now names something else than was asked for.
	ErrChanged = errors.New("sandbox changed since it was judged")
	// ErrBusy says that the provider is already doing something to the
	// sandbox: look again later.
	ErrBusy = errors.New("sandbox is busy")
	// ErrDenied says that the credentials or file permissions do not allow it.
	ErrDenied = errors.New("permission denied")
	// ErrThrottled says that the provider asks for fewer calls.
	ErrThrottled = errors.New("throttled by the provider")
	// ErrUnavailable says that the provider could not be reached or is broken.
	ErrUnavailable = errors.New("provider unavailable")
	// ErrUnsupported says that the kind cannot do this at all.
	ErrUnsupported = errors.New("unsupported")
	// ErrDryRun says that nothing was sent because of a dry run.
	ErrDryRun = errors.New("dry run: nothing was sent")
	// ErrDuplicate says that another configured provider is the same place.
	ErrDuplicate = errors.New("the same place is configured twice")
)

// Throttled is ErrThrottled from a provider that says for how long to leave it
// alone.
type Throttled struct{ RetryAfter time.Duration }

func (t Throttled) Error() string {
	return fmt.Sprintf("%v: again in %s", ErrThrottled, t.RetryAfter)
}

// Unwrap makes it an ErrThrottled.
func (t Throttled) Unwrap() error { return ErrThrottled }

// Cause is why a provider's call failed, as a metric label: a closed set.
type Cause string

// The closed set of causes.
const (
	CauseNotFound    Cause = "not_found"
	CauseChanged     Cause = "changed"
	CauseBusy        Cause = "busy"
	CauseDenied      Cause = "denied"
	CauseThrottled   Cause = "throttled"
	CauseTimeout     Cause = "timeout"
	CauseUnavailable Cause = "unavailable"
	CauseUnsupported Cause = "unsupported"
	CauseDryRun      Cause = "dry_run"
	CauseDuplicate   Cause = "duplicate"
	CauseOther       Cause = "other"
)

var sentinelCauses = []struct {
	err   error
	cause Cause
}{
	{ErrNotFound, CauseNotFound},
	{ErrChanged, CauseChanged},
	{ErrBusy, CauseBusy},
	{ErrDenied, CauseDenied},
	{fs.ErrPermission, CauseDenied},
	{ErrThrottled, CauseThrottled},
	{ErrUnsupported, CauseUnsupported},
	{ErrDryRun, CauseDryRun},
	{ErrDuplicate, CauseDuplicate},
	// Before unavailable: a kind may wrap a call that ran out of time as both.
	{context.DeadlineExceeded, CauseTimeout},
	{ErrUnavailable, CauseUnavailable},
}

// Causes gives every cause.
func Causes() []Cause {
	return []Cause{
		CauseNotFound, CauseChanged, CauseBusy, CauseDenied, CauseThrottled, CauseTimeout,
		CauseUnavailable, CauseUnsupported, CauseDryRun, CauseDuplicate, CauseOther,
	}
}

// CauseOf classifies err for a metric label; "" for nil.
func CauseOf(err error) Cause {
	if err == nil {
		return ""
	}
	for _, c := range sentinelCauses {
		if errors.Is(err, c.err) {
			return c.cause
		}
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		return CauseTimeout
	}
	return CauseOther
}
