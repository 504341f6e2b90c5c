package scan

import "sync"

// doors remembers which sandboxes are being reclaimed, so that none is twice
// at once: by a scan and an order, or because a list shows it twice.
type doors struct {
	mu   sync.Mutex
	open map[string]bool // by the sandbox's id
}

func newDoors() *doors { return &doors{open: map[string]bool{}} }

// enter says whether the door is the caller's, who then has to leave it.
func (d *doors) enter(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.open[id] {
		return false
	}
	d.open[id] = true
	return true
}

func (d *doors) leave(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.open, id)
}
