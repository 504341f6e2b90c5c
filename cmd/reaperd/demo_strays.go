package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/reaperd/reaperd/pkg/providers"
	"github.com/reaperd/reaperd/pkg/providers/all"
)

// stray is one sandbox of a demo.
type stray struct {
	name     string
	provider string
	id       string // the provider's own, for Get
	tags     map[string]string
	how      string // demo sleep's argument
	keep     bool   // whether it should outlive the demo's policies
}

// demoCast is what a demo starts: the same cast as processes and, where there
// is an engine, as containers.
func demoCast() []stray {
	return []stray{
		{name: "crashed-agent", tags: map[string]string{"owner": "ann"}},
		{name: "ignores-sigterm", tags: map[string]string{"owner": "ann"}, how: "stubborn"},
		{name: "asked-for-3s", tags: map[string]string{"owner": "bob", "reaperd.ttl": "3s"}},
		{name: "nobodys", tags: map[string]string{}},
		{name: "protected", tags: map[string]string{"owner": "cy", "reaperd.protect": "true"}, keep: true},
		{name: "production", tags: map[string]string{"owner": "cy", "env": "prod"}, keep: true},
	}
}

func startStrays(ctx context.Context, id string, engine demoEngine) ([]stray, error) {
	var strays []stray
	for _, s := range demoCast() {
		s.provider = "process"
		if err := startProcess(&s, id); err != nil {
			return nil, fmt.Errorf("start %s: %w", s.name, err)
		}
		strays = append(strays, s)
	}
	if engine.address == "" {
		return strays, nil
	}
	image, err := engine.buildImage(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("build the demo's image: %w", err)
	}
	for _, s := range demoCast() {
		s.provider = "docker"
		if s.id, err = engine.startContainer(ctx, image, s, id); err != nil {
			return nil, fmt.Errorf("start the container %s: %w", s.name, err)
		}
		strays = append(strays, s)
	}
	return strays, nil
}

// startProcess starts the stray as a grandchild whose parent ends at once, in a
// session of its own: a real orphan, as a crashed agent leaves behind.
func startProcess(s *stray, id string) error {
	tags := []string{demoTag + "=" + id}
	for k, v := range s.tags {
		tags = append(tags, k+"="+v)
	}
	slices.Sort(tags)
	sandbox := "demo-" + id + "-" + s.name
	s.id = fmt.Sprintf("%d:%s", os.Getuid(), sandbox)
	cmd := exec.Command("/proc/self/exe", "demo", "sleep", "--detach", s.how)
	cmd.Env = append(withoutOurs(os.Environ()), "REAPERD_SANDBOX="+sandbox, "REAPERD_TAGS="+strings.Join(tags, ","))
	return cmd.Run()
}

func demoSleepCommand() *cobra.Command {
	var detach bool
	cmd := &cobra.Command{
		Use:    "sleep [stubborn]",
		Short:  "Be a sandbox of a demo",
		Hidden: true,
		Args:   cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if detach {
				again := exec.Command("/proc/self/exe", append([]string{"demo", "sleep"}, args...)...)
				again.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				if err := again.Start(); err != nil {
					return err
				}
				return again.Process.Release()
			}
			ctx := cmd.Context()
			if slices.Contains(args, "stubborn") {
				signal.Reset(syscall.SIGTERM)
				signal.Ignore(syscall.SIGTERM)
				ctx = context.WithoutCancel(ctx)
			}
			// Should everything else fail, it ends by itself.
			ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
			defer cancel()
			<-ctx.Done()
			return nil
		},
	}
	cmd.Flags().BoolVar(&detach, "detach", false, "start again in a session of its own, and end")
	return cmd
}

// janitor is a process that clears a demo up once the demo ends, in whatever
// way: it sees its end of a pipe close.
type janitor struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

func startJanitor(id, dir, engine string) (*janitor, error) {
	cmd := exec.Command("/proc/self/exe", "demo", "janitor", id, dir, engine)
	cmd.Env = withoutOurs(os.Environ())
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C on the terminal is not for it
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &janitor{cmd, pipe}, nil
}

// orderly is what the janitor is told by a demo that ended as it should: then
// nothing that it asked for can still be on its way.
const orderly = "orderly"

// finish has the demo cleared up, and waits for it.
func (j *janitor) finish(err error) error {
	if err == nil {
		_, _ = io.WriteString(j.pipe, orderly) // without it the janitor only takes longer
	}
	_ = j.pipe.Close() // what counts is how the janitor ends
	return j.cmd.Wait()
}

func demoJanitorCommand(env environment) *cobra.Command {
	return &cobra.Command{
		Use:    "janitor ID DIR ENGINE",
		Short:  "Clear up after a demo that ended",
		Hidden: true,
		Args:   cobra.ExactArgs(3),
		RunE: func(_ *cobra.Command, args []string) error {
			signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
			word, _ := io.ReadAll(env.stdin)
			quiet := stragglers
			if string(word) == orderly {
				quiet = 0
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			return clearUp(ctx, args[0], args[1], demoEngine{address: args[2]}, quiet)
		},
	}
}

const (
	// stragglers is for how long a demo that was cut short may still have
	// something come up: an engine finishes what a killed client asked for.
	stragglers = 4 * time.Second
	// clearUpTries is for how long an engine that fails is asked again.
	clearUpTries = 10 * time.Second
)

// clearUp ends everything that carries the demo's tag, by the same provider
// that the daemon uses, and deletes the demo's image and files. It looks again
// until nothing was found for as long as quiet says.
func clearUp(ctx context.Context, id, dir string, engine demoEngine, quiet time.Duration) error {
	process, err := all.Registry().Kind("process")
	if err != nil {
		return err
	}
	p, err := process.New("process", process.Settings())
	if err != nil {
		return err
	}
	began := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for last := began; ; {
		found, err := endTagged(ctx, p, id)
		if engine.address != "" {
			n, failed := engine.clearUp(ctx, id)
			found, err = found+n, errors.Join(err, failed)
		}
		switch {
		case err != nil && time.Since(began) >= clearUpTries:
			return errors.Join(err, os.RemoveAll(dir))
		case err != nil || found > 0:
			last = time.Now()
		case time.Since(last) >= quiet:
			return os.RemoveAll(dir)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err, os.RemoveAll(dir))
		}
	}
}

// endTagged ends the processes of a demo and says how many sandboxes it found.
func endTagged(ctx context.Context, p providers.Provider, id string) (found int, err error) {
	listed, err := p.List(ctx)
	if err != nil {
		return 0, err
	}
	var wg sync.WaitGroup
	errs := make([]error, len(listed))
	for i, sb := range listed {
		if sb.Tags[demoTag] != id {
			continue
		}
		found++
		wg.Go(func() {
			err := p.Stop(ctx, sb, providers.StopOptions{Action: providers.ActionRemove})
			if !errors.Is(err, providers.ErrNotFound) && !errors.Is(err, providers.ErrChanged) {
				errs[i] = err
			}
		})
	}
	wg.Wait()
	return found, errors.Join(errs...)
}
