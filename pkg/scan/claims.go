package scan

import "sync"

// claims remembers which provider holds which place.
type claims struct {
	mu       sync.Mutex
	by       map[string]string // identity to provider name
	doubtful map[string]bool   // holders whose place another provider reached
}

func newClaims() *claims {
	return &claims{by: map[string]string{}, doubtful: map[string]bool{}}
}

// claim takes the place for the provider, or gives the name of the one that
// has it already. A provider that now reaches another place lets its old go.
func (c *claims) claim(identity, name string) (other string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if holder, held := c.by[identity]; held && holder != name {
		c.doubtful[holder] = true
		return holder
	}
	for id, holder := range c.by {
		if holder == name {
			delete(c.by, id)
		}
	}
	c.by[identity] = name
	return ""
}

// doubted says, once each time, that another provider wanted the place that
// this one holds: it may have moved to another since it was asked.
func (c *claims) doubted(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.doubtful[name]
	delete(c.doubtful, name)
	return d
}

// release lets the provider's place go.
func (c *claims) release(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, holder := range c.by {
		if holder == name {
			delete(c.by, id)
		}
	}
	delete(c.doubtful, name)
}
