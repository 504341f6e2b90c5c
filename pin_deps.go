//go:build pin

package pin

import (
	_ "github.com/cenkalti/backoff/v5"
	_ "github.com/coreos/go-systemd/v22/daemon"
	_ "github.com/docker/docker/client"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/client_golang/prometheus/testutil/promlint"
	_ "github.com/prometheus/common/model"
	_ "github.com/robfig/cron/v3"
	_ "github.com/spf13/cobra"
	_ "github.com/spf13/viper"
	_ "github.com/go-viper/mapstructure/v2"
	_ "go.uber.org/goleak"
	_ "go.uber.org/zap"
	_ "go.yaml.in/yaml/v3"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/sync/semaphore"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
)
