package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/reaperd/reaperd/pkg/store"
)

// stateAuto is the DSN that stands for the usual place.
const stateAuto = "auto"

const stateFile = "reaperd.db"

// stateDSN gives the DSN in effect; "" keeps everything in memory. The usual
// place is systemd's state directory, else /var/lib/reaperd for root, else the
// user's own.
func (l *loaded) stateDSN(env environment) (string, error) {
	if l.State.DSN != stateAuto {
		return l.State.DSN, nil
	}
	// systemd separates several by colons.
	folder, _, _ := strings.Cut(env.getenv("STATE_DIRECTORY"), ":")
	xdg, home := env.getenv("XDG_STATE_HOME"), env.getenv("HOME")
	switch {
	case filepath.IsAbs(folder):
	case os.Geteuid() == 0:
		folder = "/var/lib/reaperd"
	case filepath.IsAbs(xdg): // its specification has others ignored
		folder = filepath.Join(xdg, "reaperd")
	case filepath.IsAbs(home):
		folder = filepath.Join(home, ".local/state/reaperd")
	default:
		return "", errors.New("state.dsn is auto, and there is no STATE_DIRECTORY, XDG_STATE_HOME or HOME: " +
			"write sqlite:///absolute/path.db, or '' to keep everything in memory")
	}
	return store.DSN(filepath.Join(folder, stateFile)), nil
}

// openState opens the daemon's state; nil keeps everything in memory.
func openState(ctx context.Context, env environment, config *loaded, log *zap.Logger) (*store.Store, error) {
	dsn, err := config.stateDSN(env)
	if err != nil {
		return nil, err
	}
	if dsn == "" {
		log.Warn("state.dsn is empty: what reaperd remembers is lost when it ends")
		return nil, nil
	}
	s, err := store.Open(ctx, dsn, time.Now())
	if err != nil {
		return nil, err
	}
	if s.Lost() {
		log.Warn("the state was damaged and set aside, and the protections in it are lost: nothing is reclaimed until "+
			"the loss is accepted (stop the daemon, run `reaperd state accept`, start it again)", zap.String("state", dsn))
	}
	return s, nil
}

func stateLost(s *store.Store) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "reaperd_state_lost", Help: "1 while a state that was damaged and set aside is not accepted as lost, and all is dry.",
	}, func() float64 {
		if s != nil && s.Lost() {
			return 1
		}
		return 0
	})
}

func stateCommand(env environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Look after what the daemon remembers",
		Args:  noArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "accept",
		Short: "Accept that a damaged state is lost",
		Long: `Accept has the daemon reclaim again after its state was damaged and set aside.
Until then it runs dry, because the protections in that state are lost with it.
The daemon has to be stopped for it.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return acceptLoss(cmd, env) },
	})
	return cmd
}

func acceptLoss(cmd *cobra.Command, env environment) error {
	dsn, err := configuredState(cmd, env)
	if err != nil {
		return err
	}
	err = store.AcceptLost(cmd.Context(), dsn)
	if _, locked := errors.AsType[*store.Locked](err); locked {
		return fmt.Errorf("%w: stop it, accept, and start it again", err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no daemon has run on it", err)
	}
	if err != nil {
		return err
	}
	cmd.Printf("Accepted: a daemon on %s acts again, as its configuration says.\n", dsn)
	return nil
}

// configuredState gives the DSN of a state on disk.
func configuredState(cmd *cobra.Command, env environment) (string, error) {
	config, err := loadConfig(env, cmd.Flags())
	if err != nil {
		return "", err
	}
	dsn, err := config.stateDSN(env)
	if err == nil && dsn == "" {
		err = errors.New("state.dsn is empty: the daemon keeps everything in memory")
	}
	return dsn, err
}
