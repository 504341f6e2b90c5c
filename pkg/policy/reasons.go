package policy

// Reasons gives every reason, those of a reclaim first.
func Reasons() []Reason {
	return []Reason{
		MaxUptime, MaxAge, MaxIdle, MaxStopped, MaxPaused, TTLTag, ExpiresTag,
		HeartbeatLost, HeartbeatNever, LeaseExpired, LeaseReleased, TagMissing, TagNotAllowed, TagForbidden,
		Unmatched, Protected, WithinLimits, UnknownAge, InTransition, NotOwned, Self,
	}
}
