package lease

import "time"

// Origin says by which clock times were stamped: what the wall clock showed, or
// would have, at the start of the machine. It tells how far a clock was set
// since, also from one process to the next, as long as the machine runs on.
type Origin struct {
	Boot string // names the run of the machine; "": nobody can say
	Zero time.Time
}

// To is by how much times of this origin have to be moved to be of another;
// false where nobody can say.
func (o Origin) To(other Origin) (by time.Duration, known bool) {
	if o.Boot == "" || o.Boot != other.Boot || o.Zero.IsZero() || other.Zero.IsZero() {
		return 0, false
	}
	return other.Zero.Sub(o.Zero), true
}
