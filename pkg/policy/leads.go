package policy

import "slices"

// leads are the tags that policies differ by: of each policy the first that it
// asks for. Each key is looked up once for a sandbox, however many policies
// ask for it.
type leads struct {
	keys []string
}

// maxLeads is how many keys are looked up once. Policies that lead with
// others are asked in full, which is slower and says the same.
const maxLeads = 32

// take notes what the policy leads with.
func (l *leads) take(r *rule) {
	r.lead = -1
	i := slices.IndexFunc(r.Match.Tags, func(c tagClause) bool { return !c.want.absent })
	if i < 0 {
		return
	}
	slot := slices.Index(l.keys, r.Match.Tags[i].key)
	if slot < 0 && len(l.keys) < maxLeads {
		slot = len(l.keys)
		l.keys = append(l.keys, r.Match.Tags[i].key)
	}
	r.lead, r.leadWant = slot, &r.Match.Tags[i].want
}

// lookups are what was looked up of one sandbox.
type lookups struct {
	values        [maxLeads]string
	done, present uint32
	when          *whenFacts // what expressions read; nil until one is asked
}

// rulesOut says that the policy surely does not match, by the tag that it leads
// with. False says nothing.
func (l *lookups) rulesOut(r *rule, keys []string, tags map[string]string) bool {
	if r.lead < 0 || tags == nil {
		return false
	}
	bit := uint32(1) << r.lead
	if l.done&bit == 0 {
		value, present := tags[keys[r.lead]]
		l.done |= bit
		if present {
			l.values[r.lead] = value
			l.present |= bit
		}
	}
	return l.present&bit == 0 || !r.leadWant.admit(l.values[r.lead], true)
}
