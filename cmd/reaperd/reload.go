package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// reloadMetrics tell whether the configuration that runs is the one on disk.
type reloadMetrics struct {
	successful, at prometheus.Gauge
}

func newReloadMetrics() *reloadMetrics {
	m := &reloadMetrics{
		successful: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "reaperd_config_last_reload_successful", Help: "0 while what runs is not what the last reload was to bring.",
		}),
		at: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "reaperd_config_last_reload_success_timestamp_seconds", Help: "When the configuration that runs was loaded.",
		}),
	}
	m.succeeded(time.Now())
	return m
}

func (m *reloadMetrics) succeeded(now time.Time) {
	m.successful.Set(1)
	m.at.Set(float64(now.UnixMilli()) / 1000)
}

// Describe implements prometheus.Collector.
func (m *reloadMetrics) Describe(ch chan<- *prometheus.Desc) {
	m.successful.Describe(ch)
	m.at.Describe(ch)
}

// Collect implements prometheus.Collector.
func (m *reloadMetrics) Collect(ch chan<- prometheus.Metric) {
	m.successful.Collect(ch)
	m.at.Collect(ch)
}

// reloadOn reloads for each signal and each who asks, until ctx ends, one after
// the other: several signals that come during one reload are one.
func (d *reaper) reloadOn(ctx context.Context, hangup <-chan os.Signal, asked <-chan chan<- error) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			_ = d.reload(ctx) // which has logged it
		case answer := <-asked:
			answer <- d.reload(ctx)
		}
	}
}

// askToReload asks reloadOn, and waits for what becomes of it.
func askToReload(ctx context.Context, asked chan<- chan<- error) error {
	answer := make(chan error, 1)
	select {
	case asked <- answer:
		return <-answer
	case <-ctx.Done():
		return errors.New("reload: the daemon is shutting down")
	}
}

// reload reads the configuration and the policies anew and puts them in the
// place of the old. All that can fail comes before anything live is touched: a
// bad file leaves what runs as it is.
func (d *reaper) reload(ctx context.Context) error {
	notify(d.log, daemon.SdNotifyReloading)
	defer notify(d.log, daemon.SdNotifyReady)
	if err := d.renew(ctx); err != nil {
		d.built.reloads.successful.Set(0)
		d.log.Error("reload failed, and what ran before runs on", zap.Error(err))
		return err
	}
	d.built.reloads.succeeded(time.Now())
	d.log.Info("reloaded", d.inEffect()...)
	return nil
}

func (d *reaper) renew(ctx context.Context) error {
	config, err := d.load()
	if err != nil {
		return err
	}
	next := *d.built
	settings, err := next.draw(d.env, config, d.options)
	if err != nil {
		return err
	}
	if len(next.policies.Policies()) == 0 {
		return errNoPolicies
	}
	if config.Log.Format != d.built.config.Log.Format {
		return errors.New("log.format cannot be changed by a reload: restart the daemon")
	}
	if config.State.DSN != d.built.config.State.DSN {
		return errors.New("state.dsn cannot be changed by a reload: restart the daemon")
	}
	if err := d.front.open(ctx, config.places(d.env)); err != nil {
		return err
	}
	d.front.options.Token.SetFile(config.HTTP.TokenFile)
	setLevel(d.level, config.Log.Level)
	for _, w := range next.warnings {
		d.log.Warn("a setting may not do what it says", zap.String("warning", w))
	}
	*d.built = next
	d.built.showDryRun()
	d.built.loop.Hear(d.front.hears(config))
	d.built.loop.Reload(settings)
	return nil
}
