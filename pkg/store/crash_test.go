package store

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"
)

func init() {
	// write begins intents, saying which are begun, and resolves each second.
	roles["write"] = func(path string) error {
		s, err := background(path)
		if err != nil {
			return err
		}
		for i := 0; ; i++ {
			id, err := s.Begin(bg, intent(fmt.Sprintf("%d-%d", os.Getpid(), i)))
			if err != nil {
				return err
			}
			fmt.Println("begun", id)
			if err := s.SavePulses(bg, pulsesOf(20)); err != nil {
				return err
			}
			if i%2 == 1 {
				if err := s.End(bg, id, noon, "reclaimed", "", 1, 0); err != nil {
					return err
				}
				fmt.Println("ended", id)
			}
		}
	}
}

func TestWhatWasBegunSurvivesAKill(t *testing.T) {
	t.Parallel()
	const kills = 50
	path := newPath(t)
	begun, ended := map[int64]bool{}, map[int64]bool{}
	for i := range kills {
		c := start(t, "write", path)
		// It is killed at random, but not before it said so many things: on a
		// busy machine chance alone would never let it come that far.
		said, enough := 0, i%8
		killSoon := sync.OnceFunc(func() {
			time.AfterFunc(time.Duration(rand.Int64N(int64(30*time.Millisecond))), func() { _ = c.Process.Kill() })
		})
		if enough == 0 {
			killSoon()
		}
		for c.lines.Scan() {
			if said++; said >= enough {
				killSoon()
			}
			var what string
			var id int64
			if _, err := fmt.Sscanf(c.lines.Text(), "%s %d", &what, &id); err != nil || id == 0 {
				t.Fatalf("the child said %q", c.lines.Text())
			}
			if begun[id] = true; what == "ended" {
				ended[id] = true
			}
		}
		c.kill()

		s := open(t, path)
		if s.Lost() {
			t.Fatal("lost")
		}
		left := map[int64]bool{}
		unresolved, err := s.Unresolved(t.Context(), "dev")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range unresolved {
			left[e.ID] = true
		}
		all := map[int64]bool{}
		for _, e := range history(t, s, Filter{}) {
			all[e.ID] = true
		}
		for id := range begun {
			if !all[id] {
				t.Fatalf("%d was begun and is not there", id)
			}
			if ended[id] && left[id] {
				t.Fatalf("%d was ended and is not", id)
			}
		}
		shut(t, s)
	}
	if len(begun) < kills || len(ended) == 0 {
		t.Errorf("the children did too little: %d begun, %d ended", len(begun), len(ended))
	}
	t.Logf("%d begun, %d ended over %d kills", len(begun), len(ended), kills)
}
