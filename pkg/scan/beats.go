package scan

import (
	"fmt"
	"strings"

	"github.com/reaperd/reaperd/pkg/providers"
)

// ids finds pulses by what people and sandboxes themselves know of an id:
// often only its beginning, such as a container's host name.
type ids struct {
	latest map[string]*pulse // by whole id, that of the latest revision
	// short remembers which whole id a beginning meant, until that may change.
	short map[string]string
}

func newIDs() ids { return ids{map[string]*pulse{}, map[string]string{}} }

func (i *ids) note(id string, p *pulse) {
	was, known := i.latest[id]
	if !known {
		clear(i.short)
	}
	if was != p {
		i.latest[id] = p
	}
}

func (i *ids) forget(id string) {
	delete(i.latest, id)
	clear(i.short)
}

// shortest is how much of an id has to be given.
const shortest = 12

// whole gives the whole id that the given one is, or begins.
func (i *ids) whole(given string) (string, error) {
	if _, known := i.latest[given]; known {
		return given, nil
	}
	if id, known := i.short[given]; known {
		return id, nil
	}
	found := ""
	for id := range i.latest {
		if len(given) < shortest || !strings.HasPrefix(id, given) {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("%s is the beginning of several ids: %w", given, providers.ErrNotFound)
		}
		found = id
	}
	if found == "" {
		return "", fmt.Errorf("no sandbox %s has been seen yet: %w", given, providers.ErrNotFound)
	}
	i.short[given] = found
	return found, nil
}

// beat notes a sign of life, and gives the whole id of whose it was. first says
// that it was the first one, from which on others may be expected.
func (p *pulses) beat(given string, m moment) (id string, first bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.follow(m.origin)
	id, err = p.ids.whole(given)
	if err != nil {
		return "", false, err
	}
	known := p.ids.latest[id]
	first = known.lastBeat == 0
	known.lastBeat = stampOf(m.now)
	p.change(known)
	return id, first, nil
}
