package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/reaperd/reaperd/internal/duration"
	"github.com/reaperd/reaperd/internal/strictyaml"
)

// Config is everything that can be set but the providers, whose kinds have keys
// of their own: readFile reads those. Each key can also be set by the
// environment, as REAPERD_ and its path in capitals: REAPERD_HTTP_LISTEN.
type Config struct {
	Log struct {
		Level  string `yaml:"level" doc:"debug, info, warn or error"`
		Format string `yaml:"format" doc:"auto (console on a terminal, else JSON), console or json"`
	} `yaml:"log"`
	DryRun   bool   `yaml:"dry_run" doc:"judge and count, and change nothing; on unless it is switched off in so many words"`
	Timezone string `yaml:"timezone" doc:"of the schedules: UTC, Local, Europe/Berlin, …"`
	Schedule string `yaml:"schedule" doc:"when to scan: five cron fields, @hourly and the like, or @every 30s"`
	State    struct {
		DSN     string        `yaml:"dsn" doc:"where the daemon remembers: auto, sqlite:///absolute/path.db, or empty for in memory only"`
		History time.Duration `yaml:"history" doc:"for how long the history of reclaims is kept"`
	} `yaml:"state"`
	HTTP struct {
		Listen    string `yaml:"listen" doc:"host:port of /metrics, /healthz, /readyz and the API"`
		TokenFile string `yaml:"token_file" doc:"the file of the token that whoever changes something over TCP has to show; empty: nobody may"`
	} `yaml:"http"`
	Socket struct {
		Path  string `yaml:"path" doc:"of the unix socket, over which those who may connect may change things: auto, absolute, or empty for none"`
		Mode  string `yaml:"mode" doc:"of the socket's file, in octal"`
		Group string `yaml:"group" doc:"that the socket's file is given to, by name or number"`
	} `yaml:"socket"`
	Policies []string `yaml:"policies" doc:"files and globs, relative to the configuration file"`
	Scan     struct {
		Timeout time.Duration `yaml:"timeout" doc:"for one list of a provider, and for one look at a sandbox"`
	} `yaml:"scan"`
	Reclaim struct {
		Attempts int `yaml:"attempts" doc:"failed tries after which a sandbox counts as stuck"`
	} `yaml:"reclaim"`
	Brake struct {
		Window      time.Duration `yaml:"window" doc:"the time over which a provider's reclaims are counted"`
		MinCount    int           `yaml:"min_count" doc:"how many may always go within a window"`
		MaxFraction float64       `yaml:"max_fraction" doc:"the part of those running that may go within a window, if that is more"`
		Confirm     time.Duration `yaml:"confirm" doc:"for how long each further one is held; if it is due still, it goes then"`
	} `yaml:"brake"`
	Clock struct {
		MaxSkew time.Duration `yaml:"max_skew" doc:"how far a clock may be off, or set, before what it makes due is held"`
	} `yaml:"clock"`
	Leases struct {
		MaxTTL time.Duration `yaml:"max_ttl" doc:"the longest that a lease may be asked for at a time"`
	} `yaml:"leases"`
}

func defaultConfig() Config {
	var c Config
	c.Log.Level, c.Log.Format = "info", "auto"
	c.DryRun = true
	c.Timezone = "UTC"
	c.Schedule = "@every 30s"
	c.State.DSN, c.State.History = stateAuto, 90*24*time.Hour
	c.HTTP.Listen = "127.0.0.1:9480"
	c.Socket.Path, c.Socket.Mode = socketAuto, "0660"
	c.Policies = []string{}
	c.Scan.Timeout = 30 * time.Second
	c.Reclaim.Attempts = 5
	c.Brake.Window, c.Brake.MinCount, c.Brake.MaxFraction, c.Brake.Confirm = 10*time.Minute, 20, 0.5, time.Minute
	c.Clock.MaxSkew = 5 * time.Minute
	c.Leases.MaxTTL = 24 * time.Hour
	return c
}

// defaultConfigPath is read where no other file is named and it exists.
const defaultConfigPath = "/etc/reaperd/reaperd.yaml"

const envPrefix = "REAPERD_"

// forSandboxes are the REAPERD_ variables that are not settings: what runs in
// a sandbox carries them, and so may a reaperd started from there.
var forSandboxes = []string{"LEASE", "SANDBOX", "TAGS", "DOCKER_LABEL"}

// loaded is a configuration with where it came from.
type loaded struct {
	Config
	Path    string     // "" if there was no file
	root    *yaml.Node // nil if there was no file
	entries []entry
	files   []string // those that Policies names
	// policiesFromEnvironment says that REAPERD_POLICIES overrides the file.
	policiesFromEnvironment bool
}

// loadConfig reads the file, if there is one, and lays the environment and the
// flags over it. Every fault of every source is in the error.
func loadConfig(env environment, flags *pflag.FlagSet) (*loaded, error) {
	path, data, err := configFile(env, flags)
	if err != nil {
		return nil, err
	}
	l := &loaded{Path: path, policiesFromEnvironment: env.has(envPrefix + "POLICIES")}
	keys := settings(reflect.ValueOf(defaultConfig()), "")
	var faults strictyaml.Faults
	var written values
	readable := true
	if path != "" {
		if l.root, faults = strictyaml.Parse(path, data); l.root != nil {
			written, faults = l.readFile()
		}
		readable = l.root != nil
	}
	exported, bad := readEnvironment(env, keys)
	faults = append(faults, bad...)
	v, err := merge(keys, written, exported, flags)
	if err == nil {
		err = v.UnmarshalExact(&l.Config, strictDecoding)
	}
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	if readable {
		faults = append(faults, l.validate(env, flags)...)
		faults = append(faults, l.findPolicies()...)
	}
	return l, faults.Err()
}

// values is what one source sets, by key. What is at fault is left out, so that
// the rest can be looked at too.
type values map[string]any

// nested gives the values as viper takes them.
func (vs values) nested() map[string]any {
	out := map[string]any{}
	for key, value := range vs {
		section, inner, found := strings.Cut(key, "::")
		if !found {
			out[key] = value
			continue
		}
		m, _ := out[section].(map[string]any)
		if m == nil {
			m = map[string]any{}
			out[section] = m
		}
		m[inner] = value
	}
	return out
}

// merge lays flags over the environment over the file over the defaults. The
// sources were read by us: viper would misread both file and environment.
func merge(keys []setting, written, exported values, flags *pflag.FlagSet) (*viper.Viper, error) {
	v := viper.NewWithOptions(viper.KeyDelimiter("::"))
	for _, s := range keys {
		v.SetDefault(s.key, s.value)
	}
	for _, source := range []values{written, exported} {
		if err := v.MergeConfigMap(source.nested()); err != nil {
			return nil, err
		}
	}
	for name, key := range flagKeys {
		if f := flags.Lookup(name); f != nil {
			if err := v.BindPFlag(key, f); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// flagKeys are the flags that set a configuration key.
var flagKeys = map[string]string{"dry-run": "dry_run", "listen": "http::listen", "log-level": "log::level"}

func configFile(env environment, flags *pflag.FlagSet) (path string, data []byte, err error) {
	path, _ = flags.GetString("config")
	if path == "" {
		path = env.getenv(envPrefix + "CONFIG")
	}
	named := path != ""
	if !named {
		path = defaultConfigPath
	}
	data, err = os.ReadFile(path)
	if !named && errors.Is(err, fs.ErrNotExist) {
		return "", nil, nil
	}
	if err != nil {
		return "", nil, fmt.Errorf("configuration: %w", err)
	}
	return path, data, nil
}

// setting is one key and its default.
type setting struct {
	key, env string
	kind     reflect.Type
	value    any
}

// settings flattens a configuration to its keys, "http::listen" and the like.
func settings(v reflect.Value, prefix string) []setting {
	var out []setting
	for f, fv := range v.Fields() {
		key := prefix + f.Tag.Get("yaml")
		switch {
		case fv.Kind() == reflect.Struct:
			out = append(out, settings(fv, key+"::")...)
		default:
			env := envPrefix + strings.ToUpper(strings.ReplaceAll(key, "::", "_"))
			out = append(out, setting{key, env, fv.Type(), fv.Interface()})
		}
	}
	return out
}

func strictDecoding(c *mapstructure.DecoderConfig) {
	c.TagName = "yaml"
	c.WeaklyTypedInput = false
	c.DecodeHook = func(_, to reflect.Type, data any) (any, error) {
		if text, ok := data.(string); ok {
			return fromText(to, text)
		}
		return data, nil
	}
}

// fromText reads what the environment or a flag says of a key of that type.
func fromText(to reflect.Type, text string) (any, error) {
	switch {
	case to == reflect.TypeFor[time.Duration]():
		return duration.Parse(text)
	case to.Kind() == reflect.Bool:
		if text != "true" && text != "false" {
			return nil, fmt.Errorf("want true or false, found %q", text)
		}
		return text == "true", nil
	case to.Kind() == reflect.Int:
		i, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("want a whole number, found %q", text)
		}
		return i, nil
	case to.Kind() == reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("want a number, found %q", text)
		}
		return f, nil
	case to.Kind() == reflect.Slice:
		if text == "" {
			return []string{}, nil
		}
		return strings.Split(text, ","), nil
	default:
		return text, nil
	}
}

// readEnvironment reads the variables that name a key, and finds those of ours
// that name none and those whose values do not fit.
func readEnvironment(env environment, keys []setting) (values, strictyaml.Faults) {
	set := values{}
	var faults strictyaml.Faults
	known := []string{envPrefix + "CONFIG"}
	byName := map[string]setting{}
	for _, s := range keys {
		known = append(known, s.env)
		byName[s.env] = s
	}
	for _, pair := range env.environ() {
		name, value, _ := strings.Cut(pair, "=")
		rest, ours := strings.CutPrefix(name, envPrefix)
		if !ours || slices.Contains(forSandboxes, rest) {
			continue
		}
		fault := strictyaml.Fault{File: "environment", Key: name}
		switch s, ok := byName[name]; {
		case ok:
			v, err := fromText(s.kind, value)
			if err != nil {
				fault.Message = err.Error()
				faults = append(faults, fault)
				continue
			}
			set[s.key] = v
		case !slices.Contains(known, name):
			fault.Message = "unknown variable" + strictyaml.DidYouMean(name, known)
			faults = append(faults, fault)
		}
	}
	return set, faults
}
