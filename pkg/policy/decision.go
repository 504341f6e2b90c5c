// Package policy judges sandboxes: it reads policies from YAML, and gives for
// one sandbox at one instant a decision, and for an inventory a plan. It is
// pure: no I/O, no clock, no goroutine, no logging.
package policy

import (
	"time"

	"github.com/reaperd/reaperd/pkg/providers"
)

// Decision is what the policies say of one sandbox at one instant.
type Decision struct {
	Verdict Verdict
	// Policy is the name of the policy that decides or, for one within its
	// limits, will decide; "" if there is none.
	Policy string
	Reason Reason
	// Limit is, for one within its limits, the reason that Due will give.
	Limit Reason
	// Due is the deadline that decides: past or now if the verdict is reclaim,
	// in the future if the sandbox is within its limits, zero if there is none.
	Due time.Time
	// Next is the next moment at which the verdict can change by the mere
	// passing of time; zero: never. Until then it stays as it is.
	Next time.Time
	// Action is what is, or will be at Due, done.
	Action providers.StopOptions
	// Logs is how many last lines of its output are kept with the history, and
	// with them what else tells of its end; 0: nothing.
	Logs int
	// Shadows are the policies in report mode that would reclaim now. They
	// change nothing else in a decision.
	Shadows []Shadow
	// Malformed are the keys of tags that a policy reads and cannot
	// understand, sorted and each once.
	Malformed []string
	// UnknownAge says that some limit could not count from the provider's time
	// because that cannot be believed.
	UnknownAge bool
	// Unsaid says that a clause or limit that might have decided asks for
	// something that the provider did not say, or cannot be worked out.
	Unsaid bool
}

// Shadow is what a policy in report mode would have done.
type Shadow struct {
	Policy string
	Reason Reason
	Due    time.Time
}

// Verdict is what becomes of a sandbox.
type Verdict string

// The two verdicts.
const (
	Keep    Verdict = "keep"
	Reclaim Verdict = "reclaim"
)

// Reason is why a verdict is as it is, as a metric label: a closed set.
type Reason string

// Why a sandbox is reclaimed. Only these are given with Reclaim and Shadow.
const (
	MaxUptime      Reason = "max_uptime"      // its present run lasted too long
	MaxAge         Reason = "max_age"         // it exists for too long
	MaxIdle        Reason = "max_idle"        // it runs and does nothing
	MaxStopped     Reason = "max_stopped"     // it ended and lies around
	MaxPaused      Reason = "max_paused"      // it is paused or suspended for too long
	TTLTag         Reason = "ttl_tag"         // it outlived the wish in its own tag
	ExpiresTag     Reason = "expires_tag"     // the time in its own tag has come
	HeartbeatLost  Reason = "heartbeat_lost"  // it beat, and does no more
	HeartbeatNever Reason = "heartbeat_never" // it should beat, and never did
	LeaseExpired   Reason = "lease_expired"   // no lease on it was renewed
	LeaseReleased  Reason = "lease_released"  // every lease on it was let go
	TagMissing     Reason = "tag_missing"     // it lacks a tag that it must have
	TagNotAllowed  Reason = "tag_not_allowed" // a tag of it has a value that it may not have
	TagForbidden   Reason = "tag_forbidden"   // it has a tag that it may not have
)

// Why a sandbox is kept. Only these are given with Keep.
const (
	Unmatched    Reason = "unmatched"     // no enforcing policy applies to it
	Protected    Reason = "protected"     // a protect entry keeps it
	WithinLimits Reason = "within_limits" // policies apply and none is violated
	UnknownAge   Reason = "unknown_age"   // policies apply and no time can be told
	InTransition Reason = "in_transition" // changing, or in a state that is not known
	NotOwned     Reason = "not_owned"     // its controller would put it back
	Self         Reason = "self"          // it is reaperd's own
)

// Mode says whether a policy acts.
type Mode string

// The two modes.
const (
	Enforce Mode = "enforce"
	Report  Mode = "report" // judged apart and counted, never acted on
)
