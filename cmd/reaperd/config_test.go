package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// valid is added to where a case is about something else.
const valid = "policies: [p.yaml]\n"

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file string
		env  []string
		args []string
		want string // FILE stands for the file's path, DIR for its folder
	}{
		"empty file":      {file: "", want: "FILE: the file is empty"},
		"only comments":   {file: "# dry_run: false\n", want: "FILE: the file is empty"},
		"a list":          {file: "- dry_run\n", want: "FILE:1:1: want keys and values, found a list"},
		"second document": {file: "dry_run: true\n---\ndry_run: false\n", want: "FILE:3:1: a second document begins here: write one document to a file"},
		"tab":             {file: "log:\n\tlevel: info\n", want: "FILE:2:1: a tab cannot indent YAML: use spaces"},
		"anchor":          {file: "timezone: &z UTC\n", want: "FILE:1:11: anchors (&z) are not taken: write the value out where it is needed"},

		"misspelt key":           {file: "dryrun: true\n", want: `FILE:1:1: unknown key "dryrun": did you mean "dry_run"?`},
		"misspelt inner key":     {file: "http: {lisen: ':80'}\n", want: `FILE:1:8: http: unknown key "lisen": did you mean "listen"?`},
		"a brake that holds one": {file: "brake: {min_count: 0}\n", want: `FILE:1:20: brake.min_count: want 1 at least, so that a single one is never held; found 0`},
		"a part above one":       {file: "brake: {max_fraction: 50}\n", want: `FILE:1:23: brake.max_fraction: want a part of one, such as 0.5; found 50`},
		"no part":                {file: "brake: {max_fraction: .nan}\n", want: `FILE:1:23: brake.max_fraction: want a number, found ".nan"`},
		"key unlike any":         {file: "heartbeats: {}\n", want: `FILE:1:1: unknown key "heartbeats" (known here: brake, clock, dry_run, http, leases, log, policies, providers, reclaim, scan, schedule, socket, state, timezone)`},
		"section as text":        {file: "log: info\n", want: `FILE:1:6: log: want keys and values, found "info"`},

		"dry_run null":       {file: "dry_run:\n", want: "FILE:1:9: dry_run: has no value: give it one or remove the key"},
		"dry_run tilde":      {file: "dry_run: ~\n", want: "FILE:1:10: dry_run: has no value: give it one or remove the key"},
		"dry_run empty":      {file: "dry_run: ''\n", want: `FILE:1:10: dry_run: want true or false, found ""`},
		"dry_run zero":       {file: "dry_run: 0\n", want: `FILE:1:10: dry_run: want true or false, found "0"`},
		"dry_run quoted":     {file: "dry_run: \"true\"\n", want: `FILE:1:10: dry_run: want true or false, found "true"`},
		"dry_run no":         {file: "dry_run: no\n", want: `FILE:1:10: dry_run: want true or false, found "no"`},
		"dry_run twice":      {file: "dry_run: true\ndry_run: false\n", want: "FILE:2:1: dry_run: is written twice"},
		"dry_run two cases":  {file: "dry_run: true\nDRY_RUN: false\n", want: `FILE:2:1: DRY_RUN: is written twice, first as "dry_run"`},
		"dry_run other case": {file: "Dry_Run: false\n", want: `FILE:1:1: unknown key "Dry_Run": did you mean "dry_run"?`},

		"duration without unit": {file: "scan: {timeout: 30}\n", want: `FILE:1:17: scan.timeout: "30" has no unit: write 30s, 30m or 30h for seconds, minutes or hours`},
		"duration zero":         {file: "scan: {timeout: 0s}\n", want: `FILE:1:17: scan.timeout: "0s" must be more than zero`},
		"duration negative":     {file: "scan: {timeout: -1m}\n", want: `FILE:1:17: scan.timeout: "-1m" is negative: a duration is a whole number with a unit, such as 90m`},
		"duration nonsense":     {file: "scan: {timeout: soon}\n", want: `FILE:1:17: scan.timeout: "soon" is not a duration: write whole numbers with units from ms s m h d w y, such as 90m, 4h or 1d12h`},
		"attempts as text":      {file: "reclaim: {attempts: many}\n", want: `FILE:1:21: reclaim.attempts: want a whole number, found "many"`},
		"attempts zero":         {file: "reclaim: {attempts: 0}\n", want: "FILE:1:21: reclaim.attempts: want 1 at least, found 0"},
		"policies as text":      {file: "policies: p.yaml\n", want: `FILE:1:11: policies: want a list, found "p.yaml"`},
		"policies with a null":  {file: "policies: [p.yaml, ~]\n", want: "FILE:1:20: policies[1]: has no value: give it one or remove the key"},

		"state elsewhere":      {file: "state: {dsn: 'postgres://u:secret@h/db'}\n", want: `FILE:1:14: state.dsn: a DSN with postgres:// is for PostgreSQL, which is not built yet: use sqlite:///absolute/path.db`},
		"state a path":         {file: "state: {dsn: /var/lib/reaperd.db}\n", want: `FILE:1:14: state.dsn: a DSN has to be sqlite:///absolute/path.db`},
		"state two slashes":    {file: "state: {dsn: 'sqlite://state/a.db'}\n", want: `FILE:1:14: state.dsn: a DSN needs three slashes and an absolute path: sqlite:///absolute/path.db`},
		"state a folder":       {file: "state: {dsn: 'sqlite:///'}\n", want: `FILE:1:14: state.dsn: a DSN has to name a file: sqlite:///absolute/path.db`},
		"state with a query":   {file: "state: {dsn: 'sqlite:///a.db?mode=ro'}\n", want: `FILE:1:14: state.dsn: a DSN takes no parameters, and a ? or # in the path has to be escaped: sqlite:///absolute/path.db`},
		"state null":           {file: "state: {dsn: }\n", want: `FILE:1:14: state.dsn: has no value: give it one or remove the key`},
		"history without unit": {file: "state: {history: 90}\n", want: `FILE:1:18: state.history: "90" has no unit: write 90s, 90m or 90h for seconds, minutes or hours`},

		"level":              {file: "log: {level: verbose}\n", want: `FILE:1:14: log.level: want one of debug, info, warn, error, found "verbose"`},
		"level true":         {file: "log: {level: true}\n", want: `FILE:1:14: log.level: want one of debug, info, warn, error, found "true"`},
		"format":             {file: "log: {format: text}\n", want: `FILE:1:15: log.format: want one of auto, console, json, found "text"`},
		"zone":               {file: "timezone: Mars/Olympus\n", want: `FILE:1:11: timezone: "Mars/Olympus" is not a zone: write UTC, Local or a name such as Europe/Berlin`},
		"zone empty":         {file: "timezone: ''\n", want: `FILE:1:11: timezone: "" is not a zone: write UTC, Local or a name such as Europe/Berlin`},
		"zone a number":      {file: "timezone: 1\n", want: `FILE:1:11: timezone: "1" is not a zone: write UTC, Local or a name such as Europe/Berlin`},
		"schedule a number":  {file: "schedule: 5\n", want: `FILE:1:11: schedule: schedule "5": expected exactly 5 fields, found 1: [5] (want five fields, @hourly and the like, or @every 30s)`},
		"schedule too often": {file: "schedule: '@every 10ms'\n", want: `FILE:1:11: schedule: schedule "@every 10ms": want whole seconds, one at least`},
		"schedule never":     {file: "schedule: 0 0 31 2 *\n", want: `FILE:1:11: schedule: schedule "0 0 31 2 *" never fires`},
		"schedule in a zone": {file: "schedule: TZ=UTC 0 0 * * *\n", want: `FILE:1:11: schedule: schedule "TZ=UTC 0 0 * * *": the zone belongs into the key timezone`},
		"listen a port":      {file: "http: {listen: 9480}\n", want: `FILE:1:16: http.listen: want host:port, found "9480"`},
		"listen bad port":    {file: "http: {listen: 'localhost:99999'}\n", want: `FILE:1:16: http.listen: "99999" is not a port`},
		"token relative":     {file: "http: {token_file: token}\n", want: `FILE:1:20: http.token_file: want an absolute path, or '' for none; found "token"`},
		"token null":         {file: "http: {token_file: }\n", want: `FILE:1:20: http.token_file: has no value: give it one or remove the key`},
		"socket relative":    {file: "socket: {path: reaperd.sock}\n", want: `FILE:1:16: socket.path: want auto, an absolute path, or '' for none; found "reaperd.sock"`},
		"socket a url":       {file: "socket: {path: 'unix:///run/reaperd.sock'}\n", want: `FILE:1:16: socket.path: want auto, an absolute path, or '' for none; found "unix:///run/reaperd.sock"`},
		"socket mode words":  {file: "socket: {mode: rw-rw----}\n", want: `FILE:1:16: socket.mode: want an octal mode by which its owner may read and write, such as '0660'; found "rw-rw----"`},
		"socket mode closed": {file: "socket: {mode: '0060'}\n", want: `FILE:1:16: socket.mode: want an octal mode by which its owner may read and write, such as '0660'; found "0060"`},
		"socket mode long":   {file: "socket: {mode: '4660'}\n", want: `FILE:1:16: socket.mode: want an octal mode by which its owner may read and write, such as '0660'; found "4660"`},
		"skew too small":     {file: "clock: {max_skew: 10ms}\n", want: `FILE:1:19: clock.max_skew: want 1s at least, since no two clocks agree; found 10ms`},
		"skew zero":          {file: "clock: {max_skew: 0s}\n", want: `FILE:1:19: clock.max_skew: "0s" must be more than zero`},
		"max_ttl too small":  {file: "leases: {max_ttl: 1ms}\n", want: `FILE:1:19: leases.max_ttl: want 1s at least, or no lease can be renewed in time; found 1ms`},
		"max_ttl no unit":    {file: "leases: {max_ttl: 60}\n", want: `FILE:1:19: leases.max_ttl: "60" has no unit: write 60s, 60m or 60h for seconds, minutes or hours`},

		"providers empty":       {file: "providers: []\n", want: "FILE:1:12: providers: the list is empty: name a provider, or remove the key to have them detected"},
		"providers null":        {file: "providers:\n", want: "FILE:1:11: providers: has no value: give it one or remove the key"},
		"provider as text":      {file: "providers: [docker]\n", want: "FILE:1:13: providers[0]: want keys and values: {name: dev-docker, kind: docker}"},
		"no kind":               {file: "providers: [{name: a}]\n", want: "FILE:1:13: providers[0]: has no kind: write one of docker, process"},
		"kind null":             {file: "providers: [{name: a, kind: }]\n", want: "FILE:1:29: providers[0].kind: has no value: give it one or remove the key"},
		"kind a list":           {file: "providers: [{name: a, kind: [docker]}]\n", want: "FILE:1:29: providers[0].kind: want one value, found a list"},
		"kind misspelt":         {file: "providers: [{name: a, kind: dokcer}]\n", want: `FILE:1:29: providers[0].kind: "dokcer" is not built into this reaperd: did you mean "docker"?`},
		"kind not built":        {file: "providers: [{name: a, kind: daytona}]\n", want: `FILE:1:29: providers[0].kind: "daytona" is not built into this reaperd (known here: docker, process)`},
		"no name":               {file: "providers: [{kind: process}]\n", want: "FILE:1:13: providers[0]: has no name"},
		"name with a blank":     {file: "providers: [{kind: process, name: my box}]\n", want: `FILE:1:35: providers[0]: the name "my box" must be of a-z, 0-9, _ and -, begin with a letter or digit and have 63 at most`},
		"two of one name":       {file: "providers:\n  - {name: a, kind: process}\n  - {name: a, kind: docker}\n", want: `FILE:3:5: providers[1]: the name "a" is taken by the provider on line 2`},
		"another kind's key":    {file: "providers: [{name: a, kind: process, host: 'unix:///x'}]\n", want: `FILE:1:38: providers[0]: unknown key "host" (known here: dry_run, kind, name, price_per_hour, schedule, timeout)`},
		"a kind's key misspelt": {file: "providers: [{name: a, kind: docker, hots: 'unix:///x'}]\n", want: `FILE:1:37: providers[0]: unknown key "hots": did you mean "host"?`},
		"provider's schedule":   {file: "providers: [{name: a, kind: process, schedule: never}]\n", want: `FILE:1:48: providers[0].schedule: schedule "never": expected exactly 5 fields, found 1: [never] (want five fields, @hourly and the like, or @every 30s)`},
		"schedule as a name":    {file: "providers: [{kind: process, name: schedule, schedule: ''}]\n", want: `FILE:1:55: providers[0].schedule: schedule "": empty spec string (want five fields, @hourly and the like, or @every 30s)`},
		"provider's dry_run":    {file: "providers: [{name: a, kind: process, dry_run: }]\n", want: "FILE:1:47: providers[0].dry_run: has no value: give it one or remove the key"},
		"price":                 {file: "providers: [{name: a, kind: process, price_per_hour: -1}]\n", want: "FILE:1:54: providers[0]: a price cannot be negative"},
		"host without scheme":   {file: valid + "providers: [{name: a, kind: docker, host: /var/run/docker.sock}]\n", want: `provider a: host: "/var/run/docker.sock" has no scheme: write unix:///var/run/docker.sock`},
		"host with a password":  {file: valid + "providers: [{name: a, kind: docker, host: 'ssh://me:secret@box'}]\n", want: `provider a: host: an address takes no password, and a user only with ssh://`},
		"host and context":      {file: valid + "providers: [{name: a, kind: docker, host: 'tcp://h:1', context: box}]\n", want: `provider a: context: host names the engine already: keep one of the two`},
		"context null":          {file: "providers: [{name: a, kind: docker, context: }]\n", want: "FILE:1:46: providers[0].context: has no value: give it one or remove the key"},
		"ca_file without TCP":   {file: valid + "providers: [{name: a, kind: docker, ca_file: /ca.pem}]\n", want: `provider a: ca_file: is only for a host with tcp://`},
		"ca_file and context":   {file: valid + "providers: [{name: a, kind: docker, context: box, ca_file: /ca.pem}]\n", want: `provider a: ca_file: is only for a host with tcp://, a context brings its own`},
		"ca_file relative":      {file: valid + "providers: [{name: a, kind: docker, host: 'tcp://h:1', ca_file: ca.pem}]\n", want: `provider a: ca_file: want an absolute path, found "ca.pem"`},
		"cert_file alone":       {file: valid + "providers: [{name: a, kind: docker, host: 'tcp://h:1', cert_file: /c.pem}]\n", want: `provider a: cert_file: needs its key: set key_file too`},
		"key_file alone":        {file: valid + "providers: [{name: a, kind: docker, host: 'tcp://h:1', key_file: /k.pem}]\n", want: `provider a: key_file: needs its certificate: set cert_file too`},

		"policies match no file":    {file: "policies:\n  - p.yaml\n  - gone/*.yaml\n", want: `FILE:3:5: policies[1]: "DIR/gone/*.yaml" matches no file`},
		"policies with an empty":    {file: "policies: ['']\n", want: `FILE:1:12: policies[0]: "" matches no file`},
		"policies with a bad glob":  {file: "policies: ['[.yaml']\n", want: `FILE:1:12: policies[0]: "DIR/[.yaml" is not a glob: syntax error in pattern`},
		"policies from environment": {file: valid, env: []string{"REAPERD_POLICIES=/no/such/*.yaml"}, want: `environment: REAPERD_POLICIES: "/no/such/*.yaml" matches no file`},
		"no policies":               {file: "dry_run: true\n", want: "no policies: name files under the key policies, or in REAPERD_POLICIES; without any, nothing would ever be reclaimed"},

		"unknown variable":     {file: valid, env: []string{"REAPERD_DRYRUN=false"}, want: `environment: REAPERD_DRYRUN: unknown variable: did you mean "REAPERD_DRY_RUN"?`},
		"variable empty":       {file: valid, env: []string{"REAPERD_DRY_RUN="}, want: `environment: REAPERD_DRY_RUN: want true or false, found ""`},
		"variable state":       {file: valid, env: []string{"REAPERD_STATE_DSN=reaperd.db"}, want: `environment: REAPERD_STATE_DSN: a DSN has to be sqlite:///absolute/path.db`},
		"variable socket":      {file: valid, env: []string{"REAPERD_SOCKET_MODE=0"}, want: `environment: REAPERD_SOCKET_MODE: want an octal mode by which its owner may read and write, such as '0660'; found "0"`},
		"variable yes":         {file: valid, env: []string{"REAPERD_DRY_RUN=yes"}, want: `environment: REAPERD_DRY_RUN: want true or false, found "yes"`},
		"variable duration":    {file: valid, env: []string{"REAPERD_SCAN_TIMEOUT=5"}, want: `environment: REAPERD_SCAN_TIMEOUT: "5" has no unit: write 5s, 5m or 5h for seconds, minutes or hours`},
		"variable number":      {file: valid, env: []string{"REAPERD_RECLAIM_ATTEMPTS=two"}, want: `environment: REAPERD_RECLAIM_ATTEMPTS: want a whole number, found "two"`},
		"variable schedule":    {file: valid, env: []string{"REAPERD_SCHEDULE="}, want: `environment: REAPERD_SCHEDULE: schedule "": empty spec string (want five fields, @hourly and the like, or @every 30s)`},
		"variable over a file": {file: valid + "timezone: UTC\n", env: []string{"REAPERD_TIMEZONE=X"}, want: `environment: REAPERD_TIMEZONE: "X" is not a zone: write UTC, Local or a name such as Europe/Berlin`},
		"flag":                 {file: valid, args: []string{"run", "--log-level", "loud"}, want: `command line: --log-level: want one of debug, info, warn, error, found "loud"`},
		"flag over all": {
			file: valid + "http: {listen: 'a:1'}\n", env: []string{"REAPERD_HTTP_LISTEN=b:2"}, args: []string{"run", "--listen", "c"},
			want: `command line: --listen: want host:port, found "c"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := write(t, "reaperd.yaml", tc.file, "p.yaml", somePolicy)
			file := filepath.Join(dir, "reaperd.yaml")
			args := tc.args
			if args == nil {
				args = []string{"check"}
			}
			got := reaperd(t, tc.env, append(args, "--config", file)...)
			want := "reaperd: " + strings.NewReplacer("FILE", file, "DIR", dir).Replace(tc.want) + "\n"
			if got.code != exitTrouble || got.errors != want {
				t.Errorf("exit code %d, said\n%swant\n%s", got.code, got.errors, want)
			}
		})
	}
}

func TestAllFaultsAreToldAtOnce(t *testing.T) {
	t.Parallel()
	dir := write(t, "reaperd.yaml", `dryrun: true
timezone: Nowhere
scan: {timeout: 5}
policies: [gone.yaml]
providers:
  - {name: a, kind: e2b}
  - {name: b, kind: process, schedule: x}
`)
	file := filepath.Join(dir, "reaperd.yaml")
	got := reaperd(t, []string{"REAPERD_CONFIG=" + file, "REAPERD_LOG_LEVEL=x", "REAPERD_DRY_RUN=1", "REAPERD_LISTEN=:1"}, "check")
	for _, want := range []string{
		`FILE:1:1: unknown key "dryrun"`, "FILE:2:11: timezone: ", "FILE:3:17: scan.timeout: ", "FILE:4:12: policies[0]: ",
		"FILE:6:21: providers[0].kind: ", "FILE:7:40: providers[", "environment: REAPERD_LOG_LEVEL: ",
		"environment: REAPERD_DRY_RUN: ", "environment: REAPERD_LISTEN: unknown variable",
	} {
		if want = strings.ReplaceAll(want, "FILE", file); !strings.Contains(got.errors, want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(got.errors, "\n"); n != 9 || got.code != exitTrouble {
		t.Errorf("exit code %d, %d lines, want 9:\n%s", got.code, n, got.errors)
	}
}

func TestVariablesOfSandboxesAreNoSettings(t *testing.T) {
	t.Parallel()
	dir := write(t, "reaperd.yaml", valid, "p.yaml", somePolicy)
	got := reaperd(t, []string{
		"REAPERD_CONFIG=" + filepath.Join(dir, "reaperd.yaml"),
		"REAPERD_LEASE=job", "REAPERD_SANDBOX=box", "REAPERD_TAGS=a=b", "REAPERD_DOCKER_LABEL=x", "HOME=/root",
	}, "check")
	if got.code != exitClean || got.errors != "" {
		t.Errorf("%+v", got)
	}
}

func TestANamedConfigurationMustBeThere(t *testing.T) {
	t.Parallel()
	for _, got := range []said{
		reaperd(t, nil, "check", "--config", "/no/such/reaperd.yaml"),
		reaperd(t, []string{"REAPERD_CONFIG=/no/such/reaperd.yaml"}, "ps"),
	} {
		if want := "reaperd: configuration: open /no/such/reaperd.yaml: no such file or directory\n"; got.code != exitTrouble || got.errors != want {
			t.Errorf("exit code %d, %q, want %q", got.code, got.errors, want)
		}
	}
}
