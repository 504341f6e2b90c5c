package policy

import (
	"slices"
	"time"
)

// Plan is the decisions of one scan.
type Plan struct {
	At    time.Time
	Items []Item // in the order of the inventory
}

// Item is one sandbox of a plan and what was decided of it.
type Item struct {
	Facts    Facts
	Decision Decision
}

// NewPlan judges an inventory at one instant.
func NewPlan(s *Set, facts []Facts, now time.Time) Plan {
	items := make([]Item, len(facts))
	for i := range facts {
		items[i] = Item{Facts: facts[i], Decision: s.Evaluate(&facts[i], now)}
	}
	return Plan{At: now, Items: items}
}

// Reclaim gives the items that are due, the longest overdue first.
func (p Plan) Reclaim() []Item {
	var due []Item
	for _, item := range p.Items {
		if item.Decision.Verdict == Reclaim {
			due = append(due, item)
		}
	}
	slices.SortStableFunc(due, func(a, b Item) int { return a.Decision.Due.Compare(b.Decision.Due) })
	return due
}
